package headgate_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/verdict"
)

// What a tenant has beyond its quota is no matter of the soft limit of the rule.
func TestSoftIsOfTheQuota(t *testing.T) {
	soft := &rules.Soft{Percent: 80}
	for source, want := range map[tenant.Source]*rules.Soft{
		tenant.FromRule: soft, tenant.FromTopUp: nil, tenant.FromPool: nil,
	} {
		v := headgate.Verdict{Rule: &rules.Rule{Telling: rules.Telling{Soft: soft}}, Limit: limit.Must(limit.PerMinute(10)), Source: source, Decision: limit.Decision{Allowed: true, Limit: 10, Remaining: 1}}
		if got := v.Soft(); got != want {
			t.Errorf("source %v: %v, want %v", source, got, want)
		}
	}
}

// A limit in shadow mode that nobody looked at has denied nothing.
func TestOutcomeOfWhatWasPassedOver(t *testing.T) {
	for by, want := range map[verdict.Decider]verdict.Outcome{
		verdict.ByStore: verdict.ShadowDenied, verdict.BySkipping: verdict.Allowed, verdict.ByReplacement: verdict.Allowed,
	} {
		r := headgate.Response{Allowed: true, DomainKnown: true, Verdicts: []headgate.Verdict{
			{Rule: &rules.Rule{}, Effect: verdict.RuleShadow, By: by}, {Rule: &rules.Rule{}, Decision: limit.Decision{Allowed: true}},
		}}
		if got := r.Outcome(); got != want {
			t.Errorf("decided by %d: %v, want %v", by, got, want)
		}
	}
}

// A request that is denied because all quota rules are over passes when the first of them has
// room, and is told to come back then; another rule that denies it counts as ever.
func TestSpeakerOfQuotaRules(t *testing.T) {
	over := func(name string, quota bool, after time.Duration) headgate.Verdict {
		return headgate.Verdict{
			Rule: &rules.Rule{Name: name, Quota: quota}, Limit: limit.Must(limit.PerMinute(1)),
			Decision: limit.Decision{RetryAfter: after, Never: after == 0},
		}
	}
	room := over("room", true, 0)
	room.Decision = limit.Decision{Allowed: true, Limit: 1, Remaining: 1}
	for name, tt := range map[string]struct {
		verdicts []headgate.Verdict
		want     string
	}{
		"the sooner one":          {[]headgate.Verdict{over("hour", true, time.Hour), over("second", true, time.Second)}, "second"},
		"one that never passes":   {[]headgate.Verdict{over("never", true, 0), over("second", true, time.Second)}, "second"},
		"another rule, later":     {[]headgate.Verdict{over("hour", true, time.Hour), over("second", true, time.Second), over("minute", false, time.Minute)}, "minute"},
		"another rule, earlier":   {[]headgate.Verdict{over("hour", true, time.Hour), over("minute", false, time.Minute)}, "hour"},
		"a quota rule with room":  {[]headgate.Verdict{over("hour", true, time.Hour), room, over("minute", false, time.Minute)}, "minute"},
		"none is over but others": {[]headgate.Verdict{room, over("minute", false, time.Minute)}, "minute"},
	} {
		r := headgate.Response{Verdicts: tt.verdicts}
		if got := r.Speaker(); got == nil || got.Rule.Name != tt.want {
			t.Errorf("%s: %+v speaks, want %s", name, got, tt.want)
		}
	}
}
