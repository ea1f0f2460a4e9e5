package forwardauth

import (
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/testrules"
)

// TestBoundsOfTheOriginal: what is as long as may be is taken, one byte more is not; nor
// is the control character that stands past the letters.
func TestBoundsOfTheOriginal(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Original
		want bool
	}{
		{"longest method", Original{Method: strings.Repeat("M", MaxMethod), URI: "/"}, true},
		{"longer method", Original{Method: strings.Repeat("M", MaxMethod+1), URI: "/"}, false},
		{"longest host", Original{Method: "GET", Host: strings.Repeat("h", MaxHost), URI: "/"}, true},
		{"longer host", Original{Method: "GET", Host: strings.Repeat("h", MaxHost+1), URI: "/"}, false},
		{"longest URI", Original{Method: "GET", URI: "/" + strings.Repeat("u", MaxURI-1)}, true},
		{"longer URI", Original{Method: "GET", URI: "/" + strings.Repeat("u", MaxURI)}, false},
		{"DEL in the host", Original{Method: "GET", Host: "a\x7fb", URI: "/"}, false},
		{"DEL in the URI", Original{Method: "GET", URI: "/a\x7fb"}, false},
	} {
		if _, err := c.o.Request(t.Context()); (err == nil) != c.want {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestFactsOfNewRules: after a reload the cost of requests is taken from what the new rules name,
// each once.
func TestFactsOfNewRules(t *testing.T) {
	var known facts
	for _, name := range []string{"X-Tokens", "X-Rows"} {
		set := testrules.Load(t, "domain: edge\ndescriptors:\n- {key: a, rate_limit: {unit: hour, requests_per_unit: 9}, cost: {from: header, name: "+name+"}}\n- {key: b, rate_limit: {unit: hour, requests_per_unit: 9}, cost: {from: header, name: "+name+"}}\n")
		for range 2 {
			if list := known.of(set); len(list) != 1 || list[0].header != name {
				t.Errorf("rules that name %s: %+v", name, list)
			}
		}
	}
	if list := known.of(nil); list != nil {
		t.Errorf("no rules: %+v", list)
	}
}
