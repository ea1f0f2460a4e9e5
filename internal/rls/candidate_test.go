package rls

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/verdict"
)

// A limit on trial speaks for no descriptor, whatever it would say; a candidate that
// is enforced does.
func TestLimitsOnTrialAreNotTold(t *testing.T) {
	rule := &rules.Rule{ID: "d.user"}
	allowed := headgate.Verdict{
		Rule: rule, Limit: limit.Must(limit.PerMinute(100)), Hits: 1,
		Decision: limit.Decision{Allowed: true, Limit: 100, Remaining: 90},
	}
	onTrial := with(denied(), func(v *headgate.Verdict) { v.Rule, v.Effect, v.Role = rule, verdict.Trial, rules.Candidate })
	if s := statusOf(store.Hit, &headgate.Response{Verdicts: []headgate.Verdict{allowed, onTrial}}, 0, time.Now); s.code == codeOverLimit || s.remaining != 90 {
		t.Errorf("a candidate on trial: %+v", s)
	}
	allowed.Effect = verdict.Trial
	enforced := with(denied(), func(v *headgate.Verdict) { v.Rule, v.Role = rule, rules.Candidate })
	if s := statusOf(store.Hit, &headgate.Response{Verdicts: []headgate.Verdict{allowed, enforced}}, 0, time.Now); s.code != codeOverLimit || s.remaining != 0 || s.currentLimit.requests != 5 {
		t.Errorf("a candidate that is enforced: %+v", s)
	}
}
