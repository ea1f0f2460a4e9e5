package rls

import (
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
)

// A limit that watches speaks for no descriptor, whatever it would say; a candidate that
// is enforced does.
func TestWatchedLimitsAreNotTold(t *testing.T) {
	rule := &rules.Rule{ID: "d.user"}
	allowed := headgate.Verdict{
		Rule: rule, Limit: limit.Must(limit.PerMinute(100)), Enforced: true, Hits: 1,
		Decision: limit.Decision{Allowed: true, Limit: 100, Remaining: 90},
	}
	watched := with(denied(), func(v *headgate.Verdict) { v.Rule, v.Enforced, v.Watched, v.Role = rule, false, true, rules.Candidate })
	if s := statusOf(store.Hit, []headgate.Verdict{allowed, watched}); s.code == codeOverLimit || s.remaining != 90 {
		t.Errorf("a candidate that watches: %+v", s)
	}
	allowed.Enforced, allowed.Watched = false, true
	enforced := with(denied(), func(v *headgate.Verdict) { v.Rule, v.Role = rule, rules.Candidate })
	if s := statusOf(store.Hit, []headgate.Verdict{allowed, enforced}); s.code != codeOverLimit || s.remaining != 0 || s.currentLimit.requests != 5 {
		t.Errorf("a candidate that is enforced: %+v", s)
	}
}
