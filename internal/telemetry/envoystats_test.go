package telemetry

import (
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/verdict"
)

// The statistics for statsd have the names that envoyproxy/ratelimit has for them, all levels
// of a path among them, and no others; times are told by the bound above them.
func TestStatsdNames(t *testing.T) {
	m := New(Build{}, Options{EnvoyCounts: true})
	set := load(t, envoyRules)
	m.RulesInForce(set, time.Now())
	for outcome, times := range map[ReloadOutcome]int{ReloadLoaded: 1, ReloadRefused: 2, ReloadLastGood: 4} {
		for range times {
			m.Reloaded(outcome)
		}
	}
	tenant := set.Rules()[0]
	says := func(v headgate.Verdict, took time.Duration) {
		v.Rule, v.Limit, v.Hits, v.Decision.Limit = tenant, tenant.Limits[0].Limit, 1, 10
		m.Decided(&headgate.Request{}, &headgate.Response{Allowed: !v.OverLimit(), DomainKnown: true, Verdicts: []headgate.Verdict{v}}, took)
	}
	says(headgate.Verdict{Decision: limit.Decision{Allowed: true, Remaining: 9}}, 5*time.Millisecond)
	says(headgate.Verdict{}, 7*time.Millisecond)
	says(headgate.Verdict{By: verdict.ByFailureMode, Degraded: store.Timeout, Decision: limit.Decision{Allowed: true}}, time.Minute)

	m.Unfit()
	m.Unfit()
	got := m.EnvoyStatistics()
	want := map[string]uint64{
		"ratelimit_server.ShouldRateLimit.total_requests":              3,
		"ratelimit.service.call.should_rate_limit.redis_error":         1,
		"ratelimit.service.call.should_rate_limit.service_error":       2,
		"ratelimit.service.config_load_success":                        1,
		"ratelimit.service.config_load_error":                          6,
		"ratelimit.service.rate_limit.edge.a.tenant_acme.total_hits":   3,
		"ratelimit.service.rate_limit.edge.a.tenant_acme.within_limit": 1,
		"ratelimit.service.rate_limit.edge.a.tenant_acme.over_limit":   1,
	}
	for _, path := range []string{"tenant_acme", "route.ip_10_0_0_1", "tenant_a_b_c*"} {
		for _, stat := range []string{"total_hits", "over_limit", "near_limit", "within_limit", "shadow_mode", "total_negative_hits"} {
			name := "ratelimit.service.rate_limit.edge.a." + path + "." + stat
			want[name] += 0
		}
	}
	for _, c := range got.Counts {
		if n, known := want[c.Name]; !known || n != c.N {
			t.Errorf("%s is %d, want %d (known: %t)", c.Name, c.N, n, known)
		}
		if delete(want, c.Name); strings.ContainsAny(c.Name, ":|\n") {
			t.Errorf("%q has a mark of statsd in it", c.Name)
		}
	}
	if len(want) > 0 {
		t.Errorf("not there: %v", want)
	}
	times := map[time.Duration]uint64{}
	for _, one := range got.Times {
		if one.Name != "ratelimit_server.ShouldRateLimit.response_time" {
			t.Errorf("a time is called %s", one.Name)
		}
		times[one.UpTo] += one.N
	}
	// What is longer than the longest bound is told by that one.
	if times[5*time.Millisecond] != 1 || times[10*time.Millisecond] != 1 || times[10*time.Second] != 1 {
		t.Errorf("times: %v", times)
	}
}
