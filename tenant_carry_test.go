package headgate_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/tenant"
)

// TestA11WhatATenantHasUsedCountsOn holds that no change of tier, override or rule
// gives a tenant a fresh budget: each row says what counts first, then what counts, and
// what is left by then of the second after so many hits.
//
//promise:multi-tenant
func TestA11WhatATenantHasUsedCountsOn(t *testing.T) {
	const none = ""
	for name, c := range map[string]struct {
		rule          string // the rate_limit of the rule
		before, after string // TIER or TIER OVERRIDE, tiers as someTiers has them
		hits          int
		left          int64
	}{
		"from the rule to an override":             {"5/minute", "bare", "bare 20/minute", 4, 16},
		"from an override to the rule":             {"5/minute", "bare 20/minute", "bare", 4, 1},
		"from the rule to a tier":                  {"5/minute", "bare", "free", 4, 6},
		"from a tier to a larger one":              {none, "free", "pro", 8, 92},
		"from a tier to a smaller one":             {none, "pro", "free", 8, 2},
		"more was used than there is now":          {none, "pro", "free", 30, 0},
		"to another window":                        {none, "free", "free 20/hour", 8, 12},
		"to another window than the rule's":        {"5/minute", "bare", "bare 20/hour", 4, 16},
		"the hour of a tier to an override's":      {none, "pro", "pro 500/hour", 30, 470},
		"the minute of a tier to an override's":    {none, "pro", "pro 200/minute", 30, 170},
		"a window of two that no other tier has":   {none, "pro", "free 50/day", 8, 42},
		"a window that neither rule nor tier has":  {none, "bare 10/minute", "bare 10/hour", 4, 6},
		"from an override to one of another quota": {none, "bare 10/minute", "bare 30/minute", 4, 26},
	} {
		t.Run(name, func(t *testing.T) {
			yaml := "domain: d\nmatch: path\ndescriptors:\n- key: api_key\n  tenant: true\n"
			if c.rule != none {
				quota, unit, _ := strings.Cut(c.rule, "/")
				yaml += "  rate_limit: {requests_per_unit: " + quota + ", unit: " + unit + "}\n"
			}
			b := newBench(t, yaml, headgate.Options{})
			b.limiter.SetTenants(snapshot(t, having("a", c.before)))
			if got := b.passed(c.hits, "api_key:a"); got != c.hits {
				t.Fatalf("%d of %d passed before the change", got, c.hits)
			}
			b.limiter.SetTenants(snapshot(t, having("a", c.after)))
			b.now = b.now.Add(time.Second)
			if got := b.remaining("api_key:a"); got != c.left {
				t.Errorf("%d left, want %d", got, c.left)
			}
			if got := b.remaining("api_key:b"); got == c.left {
				t.Errorf("another tenant has %d left too", got)
			}
		})
	}
}

// having returns an account of a tier and, after a space, a default quota of its own.
func having(name, what string) tenant.Account {
	tier, own, _ := strings.Cut(what, " ")
	if own == "" {
		return tiered(name, tier)
	}
	return tiered(name, tier, tenant.Override{Descriptor: tenant.Default, Quota: quota(tenant.Default, own)})
}

// TestA11WhatIsUsedBeforeAnythingIsKnownOfTenants holds that a process which counts
// before it has read what tenants may use goes on from that.
func TestA11WhatIsUsedBeforeAnythingIsKnownOfTenants(t *testing.T) {
	for _, match := range []string{"path", "leaf"} {
		b := newBench(t, "domain: d\nmatch: "+match+"\ndescriptors:\n- key: api_key\n  tenant: true\n  rate_limit: {requests_per_unit: 5, unit: minute}\n", headgate.Options{})
		if b.limiter.Tenants() != nil {
			t.Error("there are tenants before there are any")
		}
		b.passed(4, "api_key:a")
		b.limiter.SetTenants(snapshot(t, having("a", "bare 20/minute")))
		if got := b.remaining("api_key:a"); got != 16 {
			t.Errorf("%s: %d left, want 16", match, got)
		}
		b.limiter.SetTenants(nil)
		if got := b.remaining("api_key:a"); got != 1 {
			t.Errorf("%s: %d left without tenants, want 1", match, got)
		}
	}
}

// TestA11UnderAnOverrideTheTierCountsOn holds that what is used under an override of one
// window has been used of the others that the tier has, when the override gets one of
// these, and when it ends; and that the tier holds nobody back meanwhile.
func TestA11UnderAnOverrideTheTierCountsOn(t *testing.T) {
	tiers, err := tenant.NewTiers([]tenant.Tier{{Name: "free", Quotas: map[string]*tenant.Quota{
		tenant.Default: quota(tenant.Default, "10/minute", "40/hour"), writes: quota(writes, "5/minute", "30/hour"),
	}}}, "")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		text, during, after string
		hits                int
		left                int64
	}{
		"to the hour":                  {"api_key:a", "60/minute", "30/hour", 25, 5},
		"its end":                      {"api_key:a", "60/minute", "", 35, 5},
		"its end, with more than both": {"api_key:a", "60/minute", "", 50, 0},
		"of the hour to the minute":    {"api_key:a", "50/hour", "30/minute", 7, 23},
		"of writes":                    {"api_key:a,op:write", "60/minute", "", 27, 3},
	} {
		for _, match := range []string{"path", "leaf"} {
			t.Run(name+"/"+match, func(t *testing.T) {
				b := newBench(t, "domain: d\nmatch: "+match+"\ndescriptors:\n- key: api_key\n  tenant: true\n", headgate.Options{})
				having := func(text string) {
					account := tenant.Account{Subject: apiKey("a")}
					for _, of := range []string{tenant.Default, writes} {
						if text != "" {
							account.Overrides = append(account.Overrides, tenant.Override{Descriptor: of, Quota: quota(of, text)})
						}
					}
					b.limiter.SetTenants(tenant.NewSnapshot(tiers, slices.Values([]tenant.Account{account})))
				}
				having(c.during)
				if got := b.passed(c.hits, c.text); got != c.hits {
					t.Fatalf("%d of %d passed under the override", got, c.hits)
				}
				b.now = b.now.Add(2 * time.Minute) // the minute is over
				if c.during == "50/hour" {
					b.now = b.now.Add(-2 * time.Minute)
				}
				having(c.after)
				if got := b.remaining(c.text); got != c.left {
					t.Errorf("%d left, want %d", got, c.left)
				}
			})
		}
	}
}

// TestA11TheTierCountsARequestOnce holds that descriptors of one request that share a
// quota are charged once, and as the dearest of them, also to what the tier counts under
// an override.
func TestA11TheTierCountsARequestOnce(t *testing.T) {
	tiers, err := tenant.NewTiers([]tenant.Tier{{Name: "free", Quotas: map[string]*tenant.Quota{
		tenant.Default: quota(tenant.Default, "10/minute", "40/hour"),
	}}}, "")
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, "domain: d\nmatch: path\ndescriptors:\n- key: api_key\n  tenant: true\n", headgate.Options{})
	account := tenant.Account{Subject: apiKey("a"), Overrides: []tenant.Override{{Descriptor: tenant.Default, Quota: quota(tenant.Default, "100/minute")}}}
	b.limiter.SetTenants(tenant.NewSnapshot(tiers, slices.Values([]tenant.Account{account})))
	cheap, dear := on("api_key:a,op:read"), on("api_key:a,op:write")
	cheap.Hits, dear.Hits = 3, 25
	if !b.check(cheap, dear).Allowed {
		t.Fatal("denied under the override")
	}
	b.now = b.now.Add(2 * time.Minute)
	b.limiter.SetTenants(tenant.NewSnapshot(tiers, slices.Values([]tenant.Account(nil))))
	for _, v := range b.check(on("api_key:a")).Verdicts {
		if v.Limit.Period == time.Hour && v.Decision.Remaining != 40-25-1 {
			t.Errorf("%d of the hour are left, want %d", v.Decision.Remaining, 40-25-1)
		}
	}
}
