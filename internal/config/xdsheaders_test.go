package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
)

// NewXDSHeaders returns raw as XDSHeaders.
func NewXDSHeaders(raw string) XDSHeaders { return XDSHeaders{covered[headerText]{raw}} }

func TestXDSHeaders(t *testing.T) {
	want := map[string]string{"authorization": "Bearer hush", "x-team": "a:b"}
	got, err := NewXDSHeaders("Authorization:Bearer hush,x-team: a:b").Pairs()
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	got, err = ParseXDSHeaders([]byte("# of the control plane\n\nAuthorization: Bearer hush\r\nx-team:a:b\n"))
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	var many strings.Builder
	for i := range maxXDSHeaders + 1 {
		fmt.Fprintf(&many, "h%d:hush\n", i)
	}
	for text, problem := range map[string]string{
		"":                 "no header in it",
		"# hush":           "no header in it",
		"hush":             "header 1 is no name",
		"a:":               "header 1 is no name",
		"a:b\nhu sh:c":     "header 2 is no name",
		":path:hush":       "header 1 is no name",
		"grpc-status:hush": "gRPC sends itself",
		"key-bin:hush":     "not text",
		"a:hush\x01":       "no header has",
		"a:hush\nA:hush":   "twice",
		many.String():      "more than 64",
	} {
		if _, err := ParseXDSHeaders([]byte(text)); err == nil || !strings.Contains(err.Error(), problem) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%.20q: %v", text, err)
		}
	}
	if _, err := NewXDSHeaders("a").Pairs(); err == nil || !strings.HasPrefix(err.Error(), "--xds-headers: ") {
		t.Error(err)
	}
	h := NewXDSHeaders("a:hush")
	text, err := json.Marshal(h)
	if shown := fmt.Sprintf("%v %+v %#v %q %x %s %s", h, h, h, h, h, text, h.LogValue()); err != nil || strings.Contains(shown, "hush") {
		t.Error(shown, err)
	}
}

// FuzzXDSHeaders: what is read can be sent.
func FuzzXDSHeaders(f *testing.F) {
	f.Add("Authorization: Bearer x\n#\nb:c")
	f.Fuzz(func(t *testing.T, text string) {
		pairs, err := ParseXDSHeaders([]byte(text))
		for name, value := range pairs {
			if err != nil || !headerName.MatchString(name) || value == "" || strings.ContainsAny(value, "\r\n\x00") {
				t.Errorf("%q: %q %q, %v", text, name, value, err)
			}
		}
	})
}
