package telemetry

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/verdict"
)

func TestDenialsByRole(t *testing.T) {
	m := New(Build{}, Options{})
	ten := limit.Must(limit.PerMinute(10))
	for n, role := range roles {
		denies := headgate.Verdict{Role: role, Limit: ten}
		passes := headgate.Verdict{Limit: ten, Decision: limit.Decision{Allowed: true}}
		for range n + 1 {
			decided(m, headgate.Response{DomainKnown: true, Verdicts: []headgate.Verdict{passes, denies}})
		}
	}
	// These are denied by no count, or not at all.
	decided(m, headgate.Response{Verdicts: []headgate.Verdict{{Role: rules.Banning, Limit: ten, By: verdict.ByFailureMode, Degraded: store.Timeout}}})
	decided(m, headgate.Response{Allowed: true, Verdicts: []headgate.Verdict{{Role: rules.Banning, Limit: ten}}})
	expect(t, m, map[string]float64{
		`headgate_denied_requests_total{role="main"}`: 1, `headgate_denied_requests_total{role="concurrency"}`: 2, `headgate_denied_requests_total{role="secondary"}`: 3,
		`headgate_denied_requests_total{role="sustained"}`: 4, `headgate_denied_requests_total{role="ban"}`: 5, `headgate_denied_requests_total{role="candidate"}`: 6,
		`headgate_requests_total{outcome="denied"}`: 21,
	})
}

func TestSoftLimitsAndHoldsAreCounted(t *testing.T) {
	m := New(Build{}, Options{})
	ten := limit.Must(limit.PerMinute(10))
	for n, action := range softActions {
		v := headgate.Verdict{
			Rule: &rules.Rule{Telling: rules.Telling{Soft: &rules.Soft{Percent: 80, Action: action}}}, Limit: ten,
			Decision: limit.Decision{Allowed: true, Limit: 10, Remaining: 1},
		}
		for range n + 1 {
			decided(m, headgate.Response{Allowed: true, Verdicts: []headgate.Verdict{v}})
		}
		decided(m, headgate.Response{Verdicts: []headgate.Verdict{v, {Limit: ten}}}) // denied by another
	}
	for op, outcomes := range map[store.Op][]store.Reason{store.Renew: {"", "", store.Timeout}, store.Release: {"", store.Full}} {
		for _, reason := range outcomes {
			req := headgate.Request{Descriptors: []headgate.Descriptor{{Op: op}}}
			resp := headgate.Response{Allowed: true, Verdicts: []headgate.Verdict{{By: verdict.ByFailureMode, Degraded: reason, Decision: limit.Decision{Allowed: true}}}}
			m.Decided(&req, &resp, time.Microsecond)
		}
	}
	expect(t, m, map[string]float64{
		`headgate_soft_limits_total{action="warn"}`: 1, `headgate_soft_limits_total{action="delay"}`: 2,
		`headgate_soft_limits_total{action="degrade"}`: 3, `headgate_soft_limits_total{action="challenge"}`: 4,
		`headgate_holds_total{op="renew",outcome="done"}`: 2, `headgate_holds_total{op="renew",outcome="degraded"}`: 1,
		`headgate_holds_total{op="release",outcome="done"}`: 1, `headgate_holds_total{op="release",outcome="degraded"}`: 1,
		`headgate_requests_total{outcome="allowed"}`: 10, `headgate_requests_total{outcome="denied"}`: 4,
		`headgate_store_errors_total{reason="store_timeout"}`: 1, `headgate_store_errors_total{reason="store_full"}`: 1,
	})
}
