package main

import (
	"encoding/json"
	"reflect"
	"testing"
)

// The schema has every setting of the configuration and no other, and the same defaults.
func TestSchema(t *testing.T) {
	text, err := json.Marshal(newConfig())
	if err != nil {
		t.Fatal(err)
	}
	var defaults map[string]any
	if err := json.Unmarshal(text, &defaults); err != nil {
		t.Fatal(err)
	}
	for _, f := range fields() {
		for name, s := range f {
			want, known := defaults[name]
			delete(defaults, name)
			text, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			var got struct{ Default any }
			if err := json.Unmarshal(text, &got); err != nil {
				t.Fatal(err)
			}
			if got.Default == nil && want == "" {
				continue
			}
			if !known || !reflect.DeepEqual(got.Default, want) {
				t.Errorf("%s: the schema's default is %v, the configuration's %v", name, got.Default, want)
			}
		}
	}
	if len(defaults) > 0 {
		t.Errorf("not in the schema: %v", defaults)
	}
}

// Kong writes null for what was not set, and an object for an empty list.
func TestConfigFromKong(t *testing.T) {
	c := newConfig()
	if err := json.Unmarshal([]byte(`{"url": null, "timeout_ms": null, "client_headers": {}, "upstream_headers": null, "request_headers": ["X-API-Key"]}`), c); err != nil {
		t.Fatal(err)
	}
	d := newConfig()
	if c.URL != d.URL || c.TimeoutMS != d.TimeoutMS || len(c.ClientHeaders) != 0 || !reflect.DeepEqual(c.UpstreamHeaders, d.UpstreamHeaders) || !c.RequestHeaders.has("x-api-key") {
		t.Errorf("%+v", c)
	}
	if err := c.check(); err != nil {
		t.Error(err)
	}
}
