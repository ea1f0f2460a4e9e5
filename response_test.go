package headgate_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
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

// A request waits once, for as long as the longest of its delays, and not at all where nothing
// that is enforced lets it wait.
func TestDelayOfARequest(t *testing.T) {
	ten := limit.Must(limit.PerMinute(10))
	shaped := func(after time.Duration, effect verdict.Effect) headgate.Verdict {
		return headgate.Verdict{Rule: &rules.Rule{}, Limit: ten, Effect: effect, Decision: limit.Decision{Allowed: true, Limit: 10, Remaining: 9, Delay: after}}
	}
	above := func(action rules.SoftAction, after time.Duration) headgate.Verdict {
		soft := &rules.Soft{Percent: 80, Action: action, Delay: after}
		return headgate.Verdict{Rule: &rules.Rule{Telling: rules.Telling{Soft: soft}}, Limit: ten, Decision: limit.Decision{Allowed: true, Limit: 10, Remaining: 1}}
	}
	for name, tt := range map[string]struct {
		denied   bool
		verdicts []headgate.Verdict
		want     time.Duration
	}{
		"a queue and a soft limit": {verdicts: []headgate.Verdict{shaped(2*time.Second, verdict.Enforced), above(rules.Delay, time.Second)}, want: 2 * time.Second},
		"a soft limit and a queue": {verdicts: []headgate.Verdict{above(rules.Delay, 3*time.Second), shaped(2*time.Second, verdict.Enforced)}, want: 3 * time.Second},
		"a warning":                {verdicts: []headgate.Verdict{above(rules.Warn, time.Second)}},
		"in shadow mode":           {verdicts: []headgate.Verdict{shaped(2*time.Second, verdict.RuleShadow)}},
		"a denied request":         {denied: true, verdicts: []headgate.Verdict{shaped(2*time.Second, verdict.Enforced), {Rule: &rules.Rule{}, Limit: ten}}},
	} {
		r := headgate.Response{Allowed: !tt.denied, Verdicts: tt.verdicts}
		if got := r.Delay(); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// What metrics, logs and traces call a request.
func TestOutcomeOfARequest(t *testing.T) {
	passes, denies := limit.Decision{Allowed: true}, limit.Decision{}
	guess := func(d limit.Decision) headgate.Verdict {
		return headgate.Verdict{Rule: &rules.Rule{}, By: verdict.ByFailureMode, Degraded: store.Timeout, Decision: d}
	}
	said := func(effect verdict.Effect, d limit.Decision) headgate.Verdict {
		return headgate.Verdict{Rule: &rules.Rule{}, Effect: effect, Decision: d}
	}
	for _, tt := range []struct {
		name    string
		of      headgate.Response
		outcome verdict.Outcome
	}{
		{"no rule", headgate.Response{Allowed: true, DomainKnown: true}, verdict.Unmatched},
		{"no domain", headgate.Response{Allowed: true}, verdict.UnknownDomain},
		{"allowed", headgate.Response{Allowed: true, Verdicts: []headgate.Verdict{said(verdict.Enforced, passes)}}, verdict.Allowed},
		{"denied", headgate.Response{Verdicts: []headgate.Verdict{said(verdict.Enforced, passes), said(verdict.Enforced, denies)}}, verdict.Denied},
		{"let pass without the store", headgate.Response{Allowed: true, Verdicts: []headgate.Verdict{said(verdict.Enforced, passes), guess(passes)}}, verdict.DegradedAllowed},
		{"denied without the store", headgate.Response{Verdicts: []headgate.Verdict{said(verdict.Enforced, passes), guess(denies)}}, verdict.DegradedDenied},
		{"denied in shadow mode", headgate.Response{Allowed: true, Verdicts: []headgate.Verdict{said(verdict.RuleShadow, denies)}}, verdict.ShadowDenied},
		{"guessed on trial", headgate.Response{Allowed: true, Verdicts: []headgate.Verdict{{Rule: &rules.Rule{}, Effect: verdict.Trial, Degraded: store.Timeout}}}, verdict.Allowed},
		{"denied on trial", headgate.Response{Allowed: true, Verdicts: []headgate.Verdict{said(verdict.Trial, denies), said(verdict.Enforced, passes)}}, verdict.Allowed},
	} {
		if got := tt.of.Outcome(); got != tt.outcome {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.outcome)
		}
	}
}

// Clients are told of counts, of those in shadow mode only where no other is enforced, and of a
// limit that was not counted last; and each descriptor of its own limits.
func TestCountsSpeakFirst(t *testing.T) {
	ten := limit.Must(limit.PerMinute(10))
	counts := func(name string, effect verdict.Effect, left int64) headgate.Verdict {
		return headgate.Verdict{Name: name, Rule: &rules.Rule{}, Limit: ten, Effect: effect, Decision: limit.Decision{Allowed: true, Limit: 10, Remaining: left}}
	}
	enforced, shadow := counts("enforced", verdict.Enforced, 9), counts("shadow", verdict.RuleShadow, 1)
	guessed := headgate.Verdict{Name: "guessed", Rule: &rules.Rule{}, Limit: ten, By: verdict.ByFailureMode, Degraded: store.Timeout, Decision: limit.Decision{Allowed: true}}
	other := counts("other", verdict.Enforced, 0)
	other.Descriptor = 1
	for want, list := range map[string][2]headgate.Verdict{
		"enforced": {enforced, shadow}, "shadow": {shadow, guessed}, "guessed": {guessed, other}, "other": {other, enforced},
	} {
		for _, verdicts := range [][]headgate.Verdict{{list[0], list[1]}, {list[1], list[0]}} {
			r := headgate.Response{Allowed: true, Verdicts: verdicts}
			if got := r.SpeakerFor(list[0].Descriptor); got.Name != want {
				t.Errorf("of %s and %s: %s speaks, want %s", verdicts[0].Name, verdicts[1].Name, got.Name, want)
			}
		}
	}
	r := headgate.Response{Allowed: true, Verdicts: []headgate.Verdict{guessed, enforced}}
	if got := r.Speaker(); got.Name != "enforced" {
		t.Errorf("%s speaks, want enforced", got.Name)
	}
}
