package spelling

import (
	"slices"
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	known := []string{"budget", "breaker", "url", "fail", "mail"}
	for name, want := range map[string]string{
		"bugdet": "budget", "ulr": "url", "budgets": "budget", "urls": "url", "breakers": "breaker", "": "", "password": "",
		"kail":                       "fail", // as near as mail, and before it
		strings.Repeat("budget", 20): "",
	} {
		for _, list := range [][]string{known, {"mail", "fail", "url", "breaker", "budget"}} {
			if got := Nearest(name, slices.Values(list)); got != want {
				t.Errorf("%q: %q, want %q", name, got, want)
			}
		}
	}
}

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"kitten", "sitting", 3}, {"flaw", "lawn", 2}, {"same", "same", 0}, {"teir", "tier", 1}, {"ab", "ba", 1}, {"ca", "abc", 3}, {"abcd", "badc", 2}} {
		if got := distance(tt.a, tt.b); got != tt.want {
			t.Errorf("%q, %q: %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
