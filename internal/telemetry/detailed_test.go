package telemetry

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/store/memstore"
)

// showing are Metrics of a limiter by rules, and what decides.
func showing(t *testing.T, rules string, o Options) (*Metrics, func(text string, hits int64)) {
	t.Helper()
	m, set := New(Build{}, o), load(t, rules)
	buckets, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m.RulesInForce(set, time.Now())
	limiter, err := headgate.New(headgate.Options{Store: buckets, Rules: set, Observer: m})
	if err != nil {
		t.Fatal(err)
	}
	return m, func(text string, hits int64) {
		t.Helper()
		entries, err := descriptor.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		requests := []headgate.Request{{Domain: "shop", Descriptors: []headgate.Descriptor{{Entries: entries, Hits: hits}}}}
		if err := limiter.Check(context.Background(), requests, make([]headgate.Response, 1)); err != nil {
			t.Fatal(err)
		}
	}
}

const showingRules = `
domain: shop
descriptors:
- key: tenant
  value_to_metric: true
  descriptors:
  - {key: route, value: "/v1/*", rate_limit: {unit: year, requests_per_unit: 3}}
  - {key: file, value: "a*", share_threshold: true, value_to_metric: true, rate_limit: {unit: year, requests_per_unit: 3}}
- key: user
  descriptors:
  - {key: ip, detailed_metric: true, rate_limit: {unit: year, requests_per_unit: 3}}
- {key: plain, rate_limit: {unit: year, requests_per_unit: 3}}
`

// detailed_metric shows the values of all levels, value_to_metric that of its own, and neither
// one that shares a bucket with others.
func TestValuesInNames(t *testing.T) {
	m, decide := showing(t, showingRules, Options{EnvoyNames: true, EnvoyCounts: true})
	decide("tenant:acme,route:/v1/orders", 2)
	decide("tenant:acme,route:/v1/users", 1)
	decide("tenant:a.b\\:c,route:/v1/users", 1)
	decide("tenant:acme,file:abc", 1)
	decide("user:ann,ip:10.0.0.1", 2)
	decide("user:ann,ip:10.0.0.1", 2)
	decide("plain:x", 1)
	lines := exposition(t, m, "text/plain")
	expectLines(t, lines,
		`ratelimit_service_rate_limit_total_hits{domain="shop",key1="tenant_acme",key2="route_/v1/*"} 3`,
		`ratelimit_service_rate_limit_total_hits{domain="shop",key1="tenant_a",key2="b_c"} 1`,
		`ratelimit_service_rate_limit_total_hits{domain="shop",key1="tenant_acme",key2="file_a*"} 1`,
		`ratelimit_service_rate_limit_total_hits{domain="shop",key1="user_ann",key2="ip_10_0_0_1"} 4`,
		`ratelimit_service_rate_limit_over_limit{domain="shop",key1="user_ann",key2="ip_10_0_0_1"} 2`,
		`ratelimit_service_rate_limit_total_hits{domain="shop",key1="plain"} 1`,
	)
	if text := strings.Join(lines, "\n"); strings.Contains(text, `key2="ip"`) || strings.Contains(text, `key1="tenant"`) {
		t.Error("a rule that shows values has a name without them, too")
	}
	counts := map[string]uint64{}
	for _, c := range m.EnvoyStatistics().Counts {
		counts[c.Name] = c.N
	}
	for name, want := range map[string]uint64{
		"ratelimit.service.rate_limit.shop.user_ann.ip_10_0_0_1.over_limit": 2, "ratelimit.service.rate_limit.shop.plain.within_limit": 1,
		"ratelimit.service.rate_limit.shop.tenant_a.b_c.route_/v1/*.total_hits": 1, "ratelimit_server.ShouldRateLimit.total_requests": 7,
	} {
		if counts[name] != want {
			t.Errorf("%s: %d, want %d", name, counts[name], want)
		}
	}
	if times := m.EnvoyStatistics().Times; times[0].Name != "ratelimit_server.ShouldRateLimit.response_time" || times[0].UpTo != 5*time.Millisecond {
		t.Errorf("%+v", times)
	}
}

// There are so many names, and what comes after them has one for each rule. Somebody is told,
// once.
func TestValuesInNamesAreBounded(t *testing.T) {
	told := 0
	m, decide := showing(t, showingRules, Options{EnvoyNames: true, OnOtherValues: func() { told++ }})
	long := strings.Repeat("ü", maxDetailedText)
	decide("user:"+long+",ip:1", 1)
	for i := range maxDetailed + 10 {
		decide(fmt.Sprintf("user:u%d,ip:1", i), 1)
	}
	lines := exposition(t, m, "text/plain")
	expectLines(t, lines, `ratelimit_service_rate_limit_total_hits{domain="shop",key1="user",key2="ip"} 11`, "headgate_metric_values_other_total 11")
	if told != 1 || len(m.detailed.paths) != maxDetailed+1 {
		t.Errorf("told %d times, %d names", told, len(m.detailed.paths))
	}
	for _, line := range lines {
		if len(line) > 400 {
			t.Errorf("a line of %d bytes", len(line))
		}
	}
}
