package headgate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/denial"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/verdict"
)

// topUp grants hits for a descriptor, for a day from noon on.
func topUp(id, of string, hits int64) tenant.TopUp {
	return tenant.TopUp{ID: id, Descriptor: of, Hits: hits, Term: tenant.Term{From: noon, Until: noon.Add(24 * time.Hour)}}
}

// toppedUp is an account in tier pro, of which the default quota is 3/minute and
// 5/hour, and that of writes 2/minute.
func toppedUp(name string, topUps ...tenant.TopUp) tenant.Account {
	return tenant.Account{Subject: apiKey(name), Tiers: []tenant.Assignment{{Tier: "pro"}}, TopUps: topUps}
}

// beyond are accounts and their tiers: of pro, where each has what toppedUp says, and of
// pool, where it has a burst pool too.
func beyond(t testing.TB, accounts ...tenant.Account) *tenant.Snapshot {
	t.Helper()
	small := map[string]*tenant.Quota{tenant.Default: quota(tenant.Default, "3/minute", "5/hour"), writes: quota(writes, "2/minute")}
	hourly := func(n int64, name string) tenant.Limit {
		return tenant.Limit{Limit: limit.Must(limit.PerHour(n)), Name: name}
	}
	tiers, err := tenant.NewTiers([]tenant.Tier{
		{Name: "free", Quotas: map[string]*tenant.Quota{tenant.Default: quota(tenant.Default, "3/minute")}},
		{Name: "pro", Quotas: small},
		{Name: "pool", Quotas: small, Pool: &tenant.Pool{
			Limit: hourly(6, "burst_pool"), PerKey: &tenant.KeyCap{Entry: "user", Limit: hourly(4, "burst_pool/key")},
		}},
	}, "")
	if err != nil {
		t.Fatal(err)
	}
	for i := range accounts {
		if err := accounts[i].Validate(); err != nil {
			t.Fatal(err)
		}
	}
	return tenant.NewSnapshot(tiers, slices.Values(accounts))
}

// answered says what a response is made of: where each verdict comes from, its limit,
// and what is left.
func answered(r *headgate.Response) string {
	word := "passes"
	if !r.Allowed {
		word = "denied"
	}
	for i := range r.Verdicts {
		v := &r.Verdicts[i]
		if v.Limit == nil {
			continue
		}
		if v.By == verdict.BySkipping {
			word += fmt.Sprintf(", %v skipped", v.Source)
			continue
		}
		word += fmt.Sprintf(", %v %d/%d", v.Source, v.Decision.Remaining, v.Decision.Limit)
		if v.Role != rules.Main {
			word += " " + v.Role.String()
		}
		if !v.Decision.Allowed {
			word += " over"
		}
	}
	return word
}

// answers checks what b answers to requests of one hit, one after the other.
func (b *bench) answers(text string, want ...string) {
	b.t.Helper()
	for i, want := range want {
		if got := answered(b.check(on(text))); got != want {
			b.t.Errorf("%s, request %d: %s, want %s", text, i+1, got, want)
		}
	}
}

const toppedRules = `
domain: d
match: path
descriptors:
- key: api_key
  tenant: true
  descriptors:
  - key: op
- {key: plain, rate_limit: {unit: minute, requests_per_unit: 1}}
`

func TestI5TopUpPaysForWhatTheQuotaDenies(t *testing.T) {
	seen := &recording{}
	b := newBench(t, toppedRules, headgate.Options{Store: seen})
	b.limiter.SetTenants(beyond(t, toppedUp("k", topUp("a", "", 2))))
	b.answers("api_key:k", "passes, tier 2/3, tier 4/5", "passes, tier 1/3, tier 3/5", "passes, tier 0/3, tier 2/5")
	if seen.calls != 3 {
		t.Errorf("%d calls for what the quota lets pass, want 3", seen.calls)
	}
	r := b.check(on("api_key:k"))
	if got := answered(r); got != "passes, top_up 1/2, tier 1/5" {
		t.Errorf("beyond the quota: %s", got)
	}
	v := r.Verdicts[0]
	if d := v.Decision; d.ResetAfter != 24*time.Hour || d.RetryAfter != 0 || v.Limit.Quota != 2 || v.Limit.Period != 24*time.Hour ||
		v.Name != "top_up" || v.Source.String() != "top_up" || v.Hits != 1 || v.Tier != "pro" || !v.Counted() {
		t.Errorf("the verdict of a top-up is %+v", v)
	}
	if seen.calls != 5 {
		t.Errorf("%d calls, want one more than requests", seen.calls)
	}
	b.answers("api_key:k", "passes, top_up 0/2, tier 0/5")
	r = b.check(on("api_key:k"))
	if got := answered(r); got != "denied, tier 0/3 over, tier 0/5 over" {
		t.Errorf("when the top-up is used up: %s", got)
	}
	if d := r.Verdicts[0].Decision; d.RetryAfter <= 0 || d.RetryAfter > 2*time.Minute {
		t.Errorf("the denial is %+v, want that of the quota", d)
	}
	b.answers("api_key:other", "passes, tier 2/3", "passes, tier 1/3", "passes, tier 0/3", "denied, tier 0/3 over")
	b.now = noon.Add(24*time.Hour - time.Microsecond)
	b.answers("api_key:k", "passes, tier 2/3, tier 4/5", "passes, tier 1/3, tier 3/5", "passes, tier 0/3, tier 2/5", "denied, tier 0/3 over, tier 2/5")
}

// A quota that two of its limits deny takes one hit of the top-up; two quotas take one
// of each, or none.
func TestI5EveryDenialIsCovered(t *testing.T) {
	b := newBench(t, toppedRules, headgate.Options{})
	b.limiter.SetTenants(beyond(t, toppedUp("k", topUp("a", "", 9), topUp("w", writes, 2)), toppedUp("l", topUp("a", "", 9))))
	for range 6 {
		b.check(on("api_key:k"))
	}
	b.answers("api_key:k", "passes, top_up 5/9, top_up 5/9") // the hour is used up too
	b.answers("api_key:k,op:write",
		"passes, top_up 4/9, top_up 4/9, tier 1/2", "passes, top_up 3/9, top_up 3/9, tier 0/2",
		"passes, top_up 2/9, top_up 2/9, top_up 1/2", "passes, top_up 1/9, top_up 1/9, top_up 0/2",
		"denied, tier 0/3 over, tier 0/5 over, tier 0/2 over")
	b.answers("api_key:k", "passes, top_up 0/9, top_up 0/9") // nothing was charged for who was denied

	b.answers("api_key:l,op:write", "passes, tier 2/3, tier 4/5, tier 1/2", "passes, tier 1/3, tier 3/5, tier 0/2", "denied, tier 1/3, tier 3/5, tier 0/2 over")
	b.answers("api_key:l", "passes, tier 0/3, tier 2/5")
	// The default quota could be covered, that of writes cannot.
	b.answers("api_key:l,op:write", "denied, tier 0/3 over, tier 2/5, tier 0/2 over")
	// What is not of a tenant cannot.
	b.check(on("plain:x"))
	if got := answered(b.check(on("api_key:l"), on("plain:x"))); got != "denied, tier 0/3 over, tier 2/5, rule 0/1 over" {
		t.Errorf("beside a denial by a rule: %s", got)
	}
	b.answers("api_key:l", "passes, top_up 8/9, tier 1/5")
}

// All hits of a request go to one top-up: the first to expire that has enough.
func TestI5TopUpsAreUsedInOrder(t *testing.T) {
	b := newBench(t, toppedRules, headgate.Options{})
	soon, late := topUp("z", "", 3), topUp("a", "", 7)
	late.Term.Until = late.Term.Until.Add(time.Hour)
	b.limiter.SetTenants(beyond(t, toppedUp("k", late, soon)))
	b.admitted("api_key:k", 3)
	two := on("api_key:k")
	two.Hits = 2
	for i, want := range []string{"passes, top_up 1/3, tier 0/5", "passes, top_up 5/7, top_up 5/7", "passes, top_up 3/7, top_up 3/7"} {
		if got := answered(b.check(two)); got != want {
			t.Errorf("request %d: %s, want %s", i+1, got, want)
		}
	}
	b.answers("api_key:k", "passes, top_up 0/3, top_up 0/3", "passes, top_up 2/7, top_up 2/7")
	// One more than four are not asked.
	var many []tenant.TopUp
	for i := range 4 {
		many = append(many, topUp(fmt.Sprint("n", i), "", 1))
	}
	last := topUp("last", "", 1)
	last.Term.Until = last.Term.Until.Add(time.Hour)
	b.limiter.SetTenants(beyond(t, toppedUp("m", append(many, last)...)))
	if got := b.admitted("api_key:m", 20); got != 3+4 {
		t.Errorf("%d pass, want 3 by the quota and 4 by top-ups", got)
	}
}

// The pool comes first. Each key may take its part of it, and no more.
func TestI5BurstPool(t *testing.T) {
	b := newBench(t, toppedRules, headgate.Options{})
	account := toppedUp("k", topUp("a", "", 2))
	account.Tiers[0].Tier = "pool"
	pooled := toppedUp("p")
	pooled.Tiers[0].Tier = "pool"
	b.limiter.SetTenants(beyond(t, account, pooled))
	b.admitted("api_key:k", 3)
	var got []string
	for _, user := range []string{"u", "u", "u", "u", "u", "v", "", "u", "v"} {
		d := on("api_key:k")
		if user != "" {
			d = on("api_key:k,user:" + user)
		}
		got = append(got, answered(b.check(d)))
	}
	want := []string{
		"passes, pool 3/4, tier 1/5", "passes, pool 2/4, tier 0/5", "passes, pool 1/4, pool 1/4", "passes, pool 0/4, pool 0/4",
		"passes, top_up 1/2, top_up 1/2", // the key has its part
		"passes, pool 1/6, pool 1/6", "passes, pool 0/6, pool 0/6",
		"passes, top_up 0/2, top_up 0/2", "denied, tier 0/3 over, tier 0/5 over",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	// The key may stand in another descriptor; two quotas of one request take one hit.
	for range 3 {
		b.check(on("api_key:p,op:write"))
	}
	r := b.check(on("api_key:p,op:write"), on("user:u"))
	if got := answered(r); got != "passes, pool 3/4, tier 1/5, pool 3/4" {
		t.Errorf("two quotas: %s", got)
	}
	if v := r.Verdicts[0]; v.Name != "burst_pool/key" || v.Limit.Quota != 4 {
		t.Errorf("the cap of a key speaks as %+v", v)
	}
	b.now = b.now.Add(2 * time.Hour) // the pool refills, the top-up does not
	b.admitted("api_key:k", 3)
	b.answers("api_key:k", "passes, pool 3/4, tier 1/5")
}

// With match: leaf each descriptor takes its own.
func TestI5LeavesAreCoveredEach(t *testing.T) {
	b := newBench(t, strings.Replace(toppedRules, "match: path", "match: leaf", 1), headgate.Options{})
	b.limiter.SetTenants(beyond(t, toppedUp("k", topUp("a", "", 9), topUp("w", writes, 9))))
	b.answers("api_key:k", "passes, tier 2/3, tier 4/5", "passes, tier 1/3, tier 3/5")
	if got := answered(b.check(on("api_key:k,op:a"), on("api_key:k,op:b"))); got != "passes, tier 0/3, tier 2/5, top_up 8/9, tier 1/5" {
		t.Errorf("the second of two: %s", got)
	}
	if got := answered(b.check(on("api_key:k,op:a"), on("api_key:k,op:b"))); got != "passes, top_up 7/9, tier 0/5, top_up 6/9, top_up 6/9" {
		t.Errorf("both: %s", got)
	}
	b.answers("api_key:k,op:write", "passes, tier 1/2", "passes, tier 0/2", "passes, top_up 8/9")
}

// What was charged with consumption: independent is not charged again.
func TestI5IndependentConsumption(t *testing.T) {
	b := newBench(t, "consumption: independent"+toppedRules, headgate.Options{})
	b.limiter.SetTenants(beyond(t, toppedUp("k", topUp("a", "", 1))))
	b.answers("api_key:k", "passes, tier 2/3, tier 4/5", "passes, tier 1/3, tier 3/5", "passes, tier 0/3, tier 2/5",
		"passes, top_up 0/1, tier 1/5", "denied, tier 0/3 over, tier 0/5", "denied, tier 0/3 over, tier 0/5 over")
}

// A rule without a quota in its place is the quota of the tenant.
func TestI5TopUpOnTheLimitOfARule(t *testing.T) {
	b := newBench(t, `
domain: d
descriptors:
- key: api_key
  tenant: true
  descriptors:
  - {key: op, value: write, rate_limit: {unit: minute, requests_per_unit: 1}}
`, headgate.Options{})
	b.limiter.SetTenants(tenant.NewSnapshot(new(tenant.Tiers), slices.Values([]tenant.Account{toppedUp("k", topUp("w", writes, 1))})))
	b.answers("api_key:k,op:write", "passes, rule 0/1", "passes, top_up 0/1", "denied, rule 0/1 over")
}

// What is only told, asked or given back takes nothing of a top-up.
func TestI5WhatTopUpsAreNotFor(t *testing.T) {
	for name, c := range map[string]struct {
		yaml, want string
		change     func(*headgate.Descriptor)
	}{
		"shadow": {yaml: strings.Replace(toppedRules, "tenant: true", "tenant: true\n  shadow_mode: true", 1), want: "passes, tier 0/3 over, tier 1/5"},
		"peek":   {change: func(d *headgate.Descriptor) { d.Hits = 0 }, want: "passes, tier 0/3, tier 2/5"},
		"refund": {change: func(d *headgate.Descriptor) { d.Op = store.Refund }, want: "passes, tier 1/3, tier 3/5"},
		"reset":  {change: func(d *headgate.Descriptor) { d.Op = store.Reset }, want: "passes, tier 3/3, tier 5/5"},
		"never":  {change: func(d *headgate.Descriptor) { d.Hits = 10 }, want: "denied, tier 0/3 over, tier 2/5 over"},
	} {
		if c.yaml == "" {
			c.yaml = toppedRules
		}
		b := newBench(t, c.yaml, headgate.Options{})
		b.limiter.SetTenants(beyond(t, toppedUp("k", topUp("a", "", 9))))
		b.admitted("api_key:k", 3)
		d := on("api_key:k")
		if c.change != nil {
			c.change(&d)
		}
		if got := answered(b.check(d)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		b.limiter.SetRules(load(t, toppedRules))
		d = on("api_key:k")
		d.Hits = 9
		if got := answered(b.check(d)); got != "passes, top_up 0/9, top_up 0/9" {
			t.Errorf("%s: all of the top-up should be left: %s", name, got)
		}
	}
}

// A denial that a top-up covers counts towards no ban; one that it does not, does.
func TestI5BansAndTopUps(t *testing.T) {
	b := newBench(t, strings.Replace(toppedRules, "tenant: true", "tenant: true\n  ban: {after: 2, within: 1h, for: 1h}", 1), headgate.Options{})
	b.limiter.SetTenants(beyond(t, toppedUp("k", topUp("a", "", 5))))
	b.admitted("api_key:k", 3+4)
	b.answers("api_key:k", "passes, top_up 0/5, top_up 0/5, rule 2/2 ban",
		"denied, tier 0/3 over, tier 0/5 over, rule 2/2 ban", "denied, tier 0/3 over, tier 0/5 over, rule 1/2 ban",
		"denied, tier 0/3 over, tier 0/5 over, rule 0/2 ban over")
	// Who is banned is not asked for top-ups.
	b.limiter.SetTenants(beyond(t, toppedUp("k", topUp("b", "", 5))))
	b.answers("api_key:k", "denied, tier 0/3 over, tier 0/5 over, rule 0/2 ban over")
}

// A request that passes by a top-up has one slot, one that is denied all the same has
// none; whatever the consumption.
func TestI5SlotsAndTopUps(t *testing.T) {
	for _, consumption := range []string{"all_or_nothing", "independent"} {
		yaml := "consumption: " + consumption + strings.Replace(toppedRules, "tenant: true", "tenant: true\n  concurrency: 9", 1)
		b := newBench(t, yaml, headgate.Options{})
		b.limiter.SetTenants(beyond(t, toppedUp("k", topUp("a", "", 1))))
		for hold := limit.Hold(1); hold <= 4; hold++ {
			if r := b.by(hold, store.Hit, 1, "api_key:k"); !r.Allowed || r.Hold != hold || r.HoldFor != time.Minute {
				t.Fatalf("%s: request %d: %s, hold %d for %v", consumption, hold, answered(r), r.Hold, r.HoldFor)
			}
		}
		if got := b.free("api_key:k"); got != 5 {
			t.Errorf("%s: %d slots are free, want 5", consumption, got)
		}
		if r := b.by(5, store.Hit, 1, "api_key:k"); r.Allowed || r.Hold != 0 {
			t.Errorf("%s: the top-up is used up: %s, hold %d", consumption, answered(r), r.Hold)
		}
		if got := b.free("api_key:k"); got != 5 {
			t.Errorf("%s: %d slots are free after a denial, want 5", consumption, got)
		}
		b.release(4, "api_key:k")
		if got := b.free("api_key:k"); got != 6 {
			t.Errorf("%s: %d slots are free after a release, want 6", consumption, got)
		}
	}
}

// When the store does not answer the second time, the first answer stays, and what was
// charged of the rest is given back.
func TestI5StoreErrorsAndTopUps(t *testing.T) {
	isTopUp := func(t *store.Take) bool { return t.Limit.Algorithm == limit.SubWindows }
	for _, consumption := range []string{"all_or_nothing", "independent"} {
		seen := &recording{}
		b := newBench(t, "consumption: "+consumption+strings.Replace(toppedRules, "tenant: true", "tenant: true\n  concurrency: 9", 1), headgate.Options{Store: seen})
		b.limiter.SetTenants(beyond(t, toppedUp("k", topUp("a", "", 5))))
		b.admitted("api_key:k", 3)
		seen.fails = isTopUp
		for hold := limit.Hold(1); hold <= 2; hold++ {
			r := b.by(hold, store.Hit, 1, "api_key:k")
			if r.Allowed || r.Hold != 0 || r.Degraded() != store.NoReason || r.Verdicts[0].Source != tenant.FromTier || r.Verdicts[0].Decision.RetryAfter == 0 {
				t.Errorf("%s: %s, hold %d", consumption, answered(r), r.Hold)
			}
		}
		seen.fails = nil
		if got := b.free("api_key:k"); got != 9 {
			t.Errorf("%s: %d slots are free, want 9", consumption, got)
		}
		if d := b.check(headgate.Descriptor{Entries: on("api_key:k").Entries}).Verdicts[1].Decision; consumption == "all_or_nothing" && d.Remaining != 2 {
			t.Errorf("%d are left in the hour, want 2: what could not be decided was charged", d.Remaining)
		}
		// With the store as a whole away, nothing is asked a second time.
		seen.fails, seen.calls = func(*store.Take) bool { return true }, 0
		if r := b.check(on("api_key:k")); !r.Allowed || seen.calls != 1 {
			t.Errorf("%s: the store is away: %s in %d calls", consumption, answered(r), seen.calls)
		}
	}
}

// A denial that is remembered does not hide a top-up that is new, nor a top-up that is
// used up one that is not.
func TestI5RememberedDenialsAndTopUps(t *testing.T) {
	seen := &recording{Store: memory(t)}
	b := newBench(t, toppedRules, headgate.Options{Store: denial.New(seen, denial.Options{})})
	b.limiter.SetTenants(beyond(t, toppedUp("k")))
	b.admitted("api_key:k,op:write", 3)
	b.answers("api_key:k,op:write", "denied, tier skipped, tier skipped, tier 0/2 over")
	seen.calls = 0
	b.check(on("api_key:k,op:write"))
	if seen.calls != 0 {
		t.Fatalf("%d calls: the test is about nothing", seen.calls)
	}
	soon, late := topUp("w", writes, 1), topUp("x", writes, 9)
	late.Term.Until = late.Term.Until.Add(time.Hour)
	b.limiter.SetTenants(beyond(t, toppedUp("k", soon)))
	b.answers("api_key:k,op:write", "passes, tier 0/3, tier 2/5, top_up 0/1")
	// Of the default quota, which denies now too, nobody has heard: writes are
	// remembered, and the others of the group are not looked at.
	b.limiter.SetTenants(beyond(t, toppedUp("k", soon, late, topUp("a", "", 5))))
	b.answers("api_key:k,op:write", "passes, top_up 4/5, tier 1/5, top_up 8/9", "passes, top_up 3/5, tier 0/5, top_up 7/9", "passes, top_up 2/5, top_up 2/5, top_up 6/9")
	// When all is used up, and that is remembered, nobody is asked.
	b.limiter.SetTenants(beyond(t, toppedUp("k", soon)))
	b.check(on("api_key:k,op:write"))
	seen.calls = 0
	b.check(on("api_key:k,op:write"))
	if seen.calls != 0 {
		t.Errorf("%d calls for what is remembered to be used up", seen.calls)
	}
}

// Several requests of one call are asked together.
func TestI5TopUpsOfABatch(t *testing.T) {
	seen := &recording{}
	b := newBench(t, toppedRules, headgate.Options{Store: seen})
	b.limiter.SetTenants(beyond(t, toppedUp("k", topUp("a", "", 3)), toppedUp("l", topUp("a", "", 1)), toppedUp("m")))
	var requests []headgate.Request
	for range 5 {
		for _, name := range []string{"k", "l", "m"} {
			requests = append(requests, headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{on("api_key:" + name)}})
		}
	}
	responses := make([]headgate.Response, len(requests))
	if err := b.limiter.Check(t.Context(), requests, responses); err != nil {
		t.Fatal(err)
	}
	passed := map[string]int{}
	for i := range requests {
		if responses[i].Allowed {
			passed[requests[i].Descriptors[0].Entries[0].Value]++
		}
	}
	if fmt.Sprint(passed) != "map[k:5 l:4 m:3]" || seen.calls != 2 {
		t.Errorf("%v pass in %d calls, want k 5, l 4, m 3 in 2", passed, seen.calls)
	}
}

// What a tenant was granted, it has once, whatever domains and rules count it.
func TestI5TopUpsCountOnceForAllDomains(t *testing.T) {
	b := newBench(t, toppedRules, headgate.Options{})
	set, err := rulefile.Load([]rulefile.File{{Name: "d.yaml", Data: []byte(toppedRules)}, {Name: "e.yaml", Data: []byte(strings.Replace(toppedRules, "domain: d", "domain: e", 1))}}, rulefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b.limiter.SetRules(set)
	b.limiter.SetTenants(beyond(t, toppedUp("k", topUp("a", "", 4))))
	passed := b.admitted("api_key:k", 5)
	responses := make([]headgate.Response, 1)
	for range 9 {
		if err := b.limiter.Check(t.Context(), []headgate.Request{{Domain: "e", Descriptors: []headgate.Descriptor{on("api_key:k")}}}, responses); err != nil {
			t.Fatal(err)
		}
		if responses[0].Allowed {
			passed++
		}
	}
	if passed != 3+3+4 {
		t.Errorf("%d pass, want 3 by the quota of each domain and 4 by the top-up", passed)
	}
}

// Beside what a top-up covers, what else is asked of a request is asked again as it
// stands: a denial in shadow mode holds nothing back, one that no top-up is for does,
// and where the store could not decide all of it nothing is asked.
func TestI5WhatStandsBesideTopUps(t *testing.T) {
	for name, c := range map[string]struct {
		beside, want string
		fails        bool
		calls        int
	}{
		"nothing":        {"", "passes, top_up 8/9, tier 1/5", false, 2},
		"in shadow mode": {"{key: plain, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 0}}", "passes, top_up 8/9, tier 1/5, rule 0/0 over", false, 2},
		"denies":         {"{key: plain, rate_limit: {unit: minute, requests_per_unit: 0}}", "denied, tier 0/3 over, tier 2/5, rule 0/0 over", false, 1},
		"slots": {"{key: plain, concurrency: 1, rate_limit: {unit: minute, requests_per_unit: 9}}",
			"denied, tier 0/3 over, tier 2/5, rule 8/9, rule 0/1 concurrency over", false, 1},
		"quota mode, one of two over": {"{key: plain, quota_mode: true, limits: [{unit: minute, requests_per_unit: 0}, {unit: hour, requests_per_unit: 9}]}",
			"passes, top_up 8/9, tier 1/5, rule 0/0 over, rule 8/9", false, 2},
		"quota mode, over": {"{key: plain, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 0}}", "denied, tier 0/3 over, tier 2/5, rule 0/0 over", false, 1},
		"not decided":      {"{key: plain, rate_limit: {unit: day, requests_per_unit: 9}}", "denied, tier 0/3 over, tier 2/5, rule 0/9", true, 1},
	} {
		seen := &recording{}
		yaml := toppedRules[:strings.Index(toppedRules, "- {key: plain")]
		if c.beside != "" {
			yaml += "- " + c.beside + "\n"
		}
		b := newBench(t, yaml, headgate.Options{Store: seen})
		b.limiter.SetTenants(beyond(t, toppedUp("k", topUp("a", "", 9))))
		b.admitted("api_key:k", 3)
		if name == "slots" {
			b.take(1, "plain:x")
		}
		if c.fails {
			seen.fails = func(t *store.Take) bool { return t.Limit.Period == 24*time.Hour }
		}
		seen.calls = 0
		got := answered(b.by(2, store.Hit, 1, "api_key:k", "plain:x"))
		if got != c.want || seen.calls != c.calls {
			t.Errorf("%s: %s in %d calls, want %s in %d", name, got, seen.calls, c.want, c.calls)
		}
		seen.fails = nil
		if v := b.check(headgate.Descriptor{Entries: on("api_key:k").Entries}); c.calls == 1 && v.Verdicts[1].Decision.Remaining != 2 {
			t.Errorf("%s: who is denied was charged: %s", name, answered(v))
		}
	}
}

// A top-up is counted in the shared store, however the rule is: two nodes use it to the
// last hit, and not one more.
func TestI5TopUpsOfRulesInOtherModes(t *testing.T) {
	for _, mode := range []string{"consistency: leased", "consistency: synced", "consistency: local", "hot_keys: lease", "sub_buckets: 4", "failure_mode: local"} {
		yaml := strings.Replace(toppedRules, "tenant: true", "tenant: true\n  "+mode, 1)
		buckets := shared(t)
		nodes := []*bench{layered(t, buckets, 2, yaml), layered(t, buckets, 2, yaml)}
		used := int64(0)
		for i := range 60 {
			b := nodes[i%2]
			if i < 2 {
				b.limiter.SetTenants(beyond(t, toppedUp("k", topUp("a", "", 20))))
			}
			r := b.check(on("api_key:k"))
			if r.Allowed && slices.ContainsFunc(r.Verdicts, func(v headgate.Verdict) bool { return v.Source == tenant.FromTopUp }) {
				used++
			}
		}
		if used != 20 {
			t.Errorf("%s: %d hits of the top-up are used, want 20", mode, used)
		}
	}
}
