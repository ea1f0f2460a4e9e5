package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
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

// A configuration that cannot work is refused by the name of the setting, and its secrets are
// not told.
func TestSettingsThatCannotWork(t *testing.T) {
	for _, test := range []struct {
		change func(*Config)
		want   string // "": it works
	}{
		{func(*Config) {}, ""},
		{func(c *Config) { c.URL = "https://headgate.test/auth/kong@edge" }, ""},
		{func(c *Config) { c.URL = "ftp://headgate.test/auth/kong" }, "url: "},
		{func(c *Config) { c.URL = "/auth/kong" }, "url: "},
		{func(c *Config) { c.URL = "http:// x" }, "url: "},
		{func(c *Config) { c.URL = "http://ann:hush@headgate.test/auth/kong" }, "url: holds a user"},
		{func(c *Config) { c.TimeoutMS = 0 }, "timeout_ms: "},
		{func(c *Config) { c.TimeoutMS = maxTimeoutMS }, ""},
		{func(c *Config) { c.TimeoutMS = maxTimeoutMS + 1 }, "timeout_ms: "},
		{func(c *Config) { c.Connections = 0 }, "connections: "},
		{func(c *Config) { c.Connections = maxConnections }, ""},
		{func(c *Config) { c.Connections = maxConnections + 1 }, "connections: "},
		{func(c *Config) { c.FailureMode = "ajar" }, "failure_mode: "},
		{func(c *Config) { c.ConsumerBy = "name" }, "consumer_by: "},
		{func(c *Config) { c.Token = "hush\r\nX-Vip: 1" }, "token: "},
		{func(c *Config) { c.Token = "hush\x7f" }, "token: "},
		{func(c *Config) { c.ClientHeaders = many(maxNames) }, ""},
		{func(c *Config) { c.ClientHeaders = many(maxNames + 1) }, "client_headers: "},
		{func(c *Config) { c.RequestHeaders = names{"X Y"} }, "request_headers: "},
		{func(c *Config) { c.UpstreamHeaders = names{""} }, "upstream_headers: "},
		{func(c *Config) { c.ConsumerHeader = "X:Y" }, "consumer_header: "},
		{func(c *Config) { c.ConsumerHeader, c.CredentialHeader = "", "" }, ""},
		{func(c *Config) { c.CredentialHeader = "X\n" }, "credential_header: "},
		{func(c *Config) { c.CheckIDHeader = "X/Y" }, "check_id_header: "},
		{func(c *Config) { c.CheckIDHeader = "x-forwarded-for" }, "check_id_header: X-Forwarded-For has another meaning"},
		{func(c *Config) { c.ConsumerHeader = "X-Headgate-Token" }, "consumer_header: X-Headgate-Token has another"},
	} {
		c := newConfig()
		test.change(c)
		err := c.check()
		if (err == nil) != (test.want == "") || err != nil && (!strings.HasPrefix(err.Error(), test.want) || strings.Contains(err.Error(), "hush")) {
			t.Errorf("%v, want %q", err, test.want)
		}
	}
}

func many(n int) (list names) {
	for i := range n {
		list = append(list, fmt.Sprint("x-", i))
	}
	return list
}
