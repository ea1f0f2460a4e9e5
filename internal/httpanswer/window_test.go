package httpanswer

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
)

// Only limits that count hits have a window to tell of.
func TestWindowSeconds(t *testing.T) {
	hourly := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 10, Period: time.Hour})
	for role, want := range map[rules.Role]int64{rules.Main: 3600, rules.Candidate: 3600, rules.Sustained: 0, rules.Banning: 0} {
		s := Summary{Verdict: &headgate.Verdict{Limit: hourly, Role: role}}
		if got := s.WindowSeconds(); got != want {
			t.Errorf("role %v: %d, want %d", role, got, want)
		}
	}
	for name, v := range map[string]*headgate.Verdict{"none speaks": nil, "unlimited": {Role: rules.Main}} {
		if s := (Summary{Verdict: v}); s.WindowSeconds() != 0 {
			t.Errorf("%s: %d, want 0", name, s.WindowSeconds())
		}
	}
}
