package forwardauth

import (
	"strings"
	"testing"
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
