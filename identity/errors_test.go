package identity

import (
	"strings"
	"testing"
)

func TestReasons(t *testing.T) {
	seen := map[string]bool{}
	for r := range reasons {
		if name := r.String(); name == "" || seen[name] {
			t.Errorf("reason %d is called %q", r, name)
		} else {
			seen[name] = true
		}
		if r.Ours() != (r == TokenNoKeys) {
			t.Errorf("%v: ours %v", r, r.Ours())
		}
	}
	if got := reasons.String(); !strings.HasPrefix(got, "reason ") {
		t.Errorf("%q", got)
	}
}
