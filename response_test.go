package headgate_test

import (
	"testing"

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
