// Package tenants_test decides by the example rules, tiers and accounts.
package tenants_test

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/quotas"
	"github.com/headgate/headgate/internal/tierfile"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/lint"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// accounts reads the lines of accounts.jsonl, with tiers that there are.
func accounts(t *testing.T, tiers *tenant.Tiers) []tenant.Account {
	t.Helper()
	var list []tenant.Account
	for text := range bytes.Lines(read(t, "accounts.jsonl")) {
		line, err := quotas.ParseLine(text)
		if err != nil {
			t.Fatal(err)
		}
		name, err := quotas.ParseName(line.Name, nil)
		if err != nil {
			t.Fatal(err)
		}
		r := sqltenant.Record{Subject: name.Subject}
		if err := line.Record(&r, tiers); err != nil {
			t.Fatal(err)
		}
		a, err := r.Account()
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, a)
	}
	return list
}

// newLimiter decides by the example, at the instant that now points to.
func newLimiter(t *testing.T, now *time.Time) *headgate.Limiter {
	t.Helper()
	set, err := rulefile.Load([]rulefile.File{{Name: "rules.yaml", Data: read(t, "rules.yaml")}}, rulefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range lint.Check(set) {
		t.Errorf("lint: %v", d)
	}
	tiers, err := tierfile.Load("tiers.yaml")
	if err != nil {
		t.Fatal(err)
	}
	buckets, err := memstore.New(memstore.Options{Now: func() limit.Micros { return limit.MicrosOf(*now) }})
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := headgate.New(headgate.Options{Store: buckets, Rules: set, Now: func() time.Time { return *now }})
	if err != nil {
		t.Fatal(err)
	}
	limiter.SetTenants(tenant.NewSnapshot(tiers, slices.Values(accounts(t, tiers))))
	return limiter
}

// check decides a request of one descriptor.
func check(t *testing.T, limiter *headgate.Limiter, text string, hits int64) *headgate.Response {
	t.Helper()
	entries, err := descriptor.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	responses := make([]headgate.Response, 1)
	if err := limiter.Check(t.Context(), []headgate.Request{{Domain: "api", Descriptors: []headgate.Descriptor{{Entries: entries, Hits: hits}}}}, responses); err != nil {
		t.Fatal(err)
	}
	return &responses[0]
}

func TestExample(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	limiter := newLimiter(t, &now)
	for _, test := range []struct {
		at                  time.Time
		request, wantLimits string
	}{
		{now, "tenant:new,endpoint:POST /v1/orders", "100/minute tier, 1000/hour tier, 20/minute rule"},
		{now, "tenant:acme,endpoint:POST /v1/orders", "1000/minute tier, 50000/hour tier, 50/minute tier"},
		{now, "tenant:acme,endpoint:GET /v1/orders", "1000/minute tier, 50000/hour tier"},
		{now, "tenant:globex,endpoint:POST /v1/orders", "10000/minute tier, 200/minute override"},
		{now, "tenant:globex,endpoint:GET /v1/status", "10000/minute tier, unlimited tier"},
		{now, "tenant:initech", "40/10s override"},
		{now.AddDate(0, 0, 1), "tenant:initech", "400/10s override"},
		{now.AddDate(0, 0, 8), "tenant:initech", "40/10s override"},
	} {
		now = test.at
		var got []string
		for _, v := range check(t, limiter, test.request, 1).Verdicts {
			switch {
			case v.Role != rules.Main:
			case v.Limit == nil:
				got = append(got, fmt.Sprintf("unlimited %v", v.Source))
			default:
				got = append(got, fmt.Sprintf("%d/%s %v", v.Limit.Quota, tenant.UnitText(v.Limit.Period), v.Source))
			}
		}
		if text := strings.Join(got, ", "); text != test.wantLimits {
			t.Errorf("%s at %v counts %s, want %s", test.request, test.at, text, test.wantLimits)
		}
	}
}

// TestBeyondQuotas: what the quotas deny is taken from the top-up of initech, and from
// the burst pool of globex, of which a user has a part.
func TestBeyondQuotas(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	limiter := newLimiter(t, &now)
	for _, test := range []struct {
		request string
		hits    int64
		want    string
	}{
		{"tenant:initech", 40, "override, 0 left"},
		{"tenant:initech", 600, "top_up, 400 left"},
		{"tenant:initech", 400, "top_up, 0 left"},
		{"tenant:initech", 1, "denied"},
		{"tenant:globex", 10_000, "tier, 0 left"},
		{"tenant:globex,user:ann", 500, "pool, 0 left"},
		{"tenant:globex,user:ann", 1, "denied"},
		{"tenant:globex,user:bob", 100, "pool, 400 left"},
	} {
		r := check(t, limiter, test.request, test.hits)
		v := r.Speaker()
		got := fmt.Sprintf("%v, %d left", v.Source, v.Decision.Remaining)
		if !r.Allowed {
			got = "denied"
		}
		if got != test.want {
			t.Errorf("%s, %d hits: %s, want %s", test.request, test.hits, got, test.want)
		}
	}
}
