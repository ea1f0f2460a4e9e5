package headgate_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenantusage"
)

// usage reads what was used of b.
func (b *bench) usage() *tenantusage.Reader {
	return tenantusage.New(tenantusage.Options{Limiter: b.limiter, Store: b.store, Now: func() time.Time { return b.now }})
}

// usageOf returns what Usage tells. It holds that Look tells the same of a store that has the
// same, and asks it for nothing but peeks.
func usageOf(b *bench, subjects ...tenant.Subject) []tenantusage.Tenant {
	b.t.Helper()
	usage, err := b.usage().Usage(b.t.Context(), subjects)
	if err != nil || len(usage) != len(subjects) {
		b.t.Fatalf("%+v, %v", usage, err)
	}
	peeks := &lagging{Store: b.store, t: b.t}
	reader := tenantusage.New(tenantusage.Options{Limiter: b.limiter, Store: peeks.forbidden(), Peeks: peeks, Now: func() time.Time { return b.now }})
	looked, err := reader.Look(b.t.Context(), subjects)
	if err != nil || len(looked) != len(usage) {
		b.t.Fatalf("%+v, %v", looked, err)
	}
	for i := range usage {
		if want := peeks.heard; looked[i].Stale != want || usage[i].Stale != 0 {
			b.t.Errorf("what was looked at is marked %v, want %v, and what was asked for %v", looked[i].Stale, want, usage[i].Stale)
		}
		looked[i].Stale = 0
		if !reflect.DeepEqual(looked[i], usage[i]) {
			b.t.Errorf("looked at is\n%+v\nasked for was\n%+v", looked[i], usage[i])
		}
	}
	return usage
}

// lagging is a store that tells that it lags behind, a second more each time that it is asked.
type lagging struct {
	store.Store
	t     testing.TB
	heard time.Duration
}

func (l *lagging) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	for i := range takes {
		if takes[i].Op != store.Hit || takes[i].Hits != 0 {
			l.t.Errorf("who lags is asked to decide %+v", takes[i])
		}
	}
	l.heard += time.Second
	store.TellStale(ctx, l.heard)
	l.Store.Take(ctx, takes, results)
}

// forbidden returns a store that nobody may ask.
func (l *lagging) forbidden() store.Store { return forbidden{l.t} }

type forbidden struct{ t testing.TB }

func (f forbidden) Take(context.Context, []store.Take, []store.Result) {
	f.t.Error("the store that decides is asked for what is only looked at")
}

func (forbidden) Close() error { return nil }

// told says what a usage tells, in one line for each limit.
func told(u *tenantusage.Tenant) string {
	lines := []string{u.Tier}
	for i := range u.Limits {
		l := &u.Limits[i]
		text := fmt.Sprintf("%s %s by %s: ", l.Domain, tenant.DescriptorText(l.Descriptor), l.Source)
		switch {
		case l.Unlimited():
			text += "unlimited"
		case !l.Counted():
			text += string(l.Degraded)
		default:
			text += fmt.Sprintf("%d of %d/%s, %d left", l.Used, l.Quota, tenant.UnitText(l.Limit.Period), l.Remaining)
		}
		lines = append(lines, text)
	}
	return strings.Join(lines, "\n")
}

const usageRules = `
domain: d
match: %s
descriptors:
- key: api_key
  tenant: true
  concurrency: 3
  descriptors:
  - {key: op, value: slow, rate_limit: {unit: minute, requests_per_unit: 2}, ban: {after: 2, within: 1m, for: 1h}}
  - {key: op, value: free, rate_limit: {unlimited: true}}
  - {key: op, value: "r*", rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 5}}
  - key: zone
    value: eu
    descriptors:
    - {key: op, value: deep, rate_limit: {unit: hour, requests_per_unit: 9}}
- key: plain
  rate_limit: {unit: minute, requests_per_unit: 5}
`

// TestUsageTellsAllQuotas (I5): the default quota, that of each override in force, of the
// tier, and of each rule below with fixed values; in both ways to match.
func TestUsageTellsAllQuotas(t *testing.T) {
	for _, match := range []string{"path", "leaf"} {
		t.Run(match, func(t *testing.T) {
			b := newBench(t, fmt.Sprintf(usageRules, match), headgate.Options{})
			past := tenant.Term{Until: time.Unix(1, 0)}
			b.limiter.SetTenants(snapshot(t,
				tiered("pro", "pro", tenant.Override{Descriptor: "op:own", Quota: quota("op:own", "7/minute")},
					tenant.Override{Descriptor: "op:over", Quota: quota("op:over", "1/minute"), Term: past}),
				tiered("open", "open"), tiered("bare", "bare")))
			b.check(on("api_key:pro,op:own"))
			b.check(on("api_key:pro,op:own"))
			b.check(on("api_key:pro,op:write"))
			b.check(on("api_key:pro,op:slow"))
			all := "4 of 100/minute, 96 left\nd default by tier: 4 of 1000/hour, 996 left"
			if match == "leaf" {
				all = "0 of 100/minute, 100 left\nd default by tier: 0 of 1000/hour, 1000 left"
			}
			usage := usageOf(b, apiKey("pro"), apiKey("open"), apiKey("nobody"), descriptor.Entry{Key: "plain", Value: "x"})
			for i, want := range []string{
				"pro\nd default by tier: " + all + `
d op:own by override: 2 of 7/minute, 5 left
d op:write by tier: 1 of 20/minute, 19 left
d op:slow by rule: 1 of 2/minute, 1 left
d op:free by rule: unlimited
d zone:eu,op:deep by rule: 0 of 9/hour, 9 left`,
				`open
d default by tier: unlimited
d op:slow by rule: 0 of 2/minute, 2 left
d op:free by rule: unlimited
d zone:eu,op:deep by rule: 0 of 9/hour, 9 left`,
				`free
d default by tier: 0 of 10/minute, 10 left
d op:slow by rule: 0 of 2/minute, 2 left
d op:free by rule: unlimited
d zone:eu,op:deep by rule: 0 of 9/hour, 9 left`,
				"free",
			} {
				if got := told(&usage[i]); got != want {
					t.Errorf("%v:\n%s\nwant:\n%s", usage[i].Subject, got, want)
				}
			}
		})
	}
}

// TestUsageIsWhatWasCharged: after any requests, what is told of each descriptor is what
// a plain count of the requests that passed says; and it is told by peeks alone, to no
// observer.
func TestUsageIsWhatWasCharged(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seen, told := &recording{}, countingObserver{}
		b := newBench(t, fmt.Sprintf(usageRules, "path"), headgate.Options{Store: seen, Observer: told})
		b.limiter.SetTenants(snapshot(t, tiered("a", "pro", tenant.Override{Descriptor: "op:own", Quota: quota("op:own", "7/minute", "9/hour")}), tiered("b", "free")))
		counts := map[string]int64{}
		requests := rapid.IntRange(0, 40).Draw(rt, "requests")
		for range requests {
			name := rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "name")
			op := rapid.SampledFrom([]string{"", "op:own", "op:write", "op:slow", "op:free", "op:other"}).Draw(rt, "op")
			text := "api_key:" + name
			if op != "" {
				text += "," + op
			}
			d := on(text)
			d.Hits = rapid.Int64Range(0, 4).Draw(rt, "hits")
			if b.check(d).Allowed {
				counts[name] += d.Hits
				if op != "" {
					counts[name+" "+op] += d.Hits
				}
			}
		}
		for _, u := range usageOf(b, apiKey("a"), apiKey("b")) {
			for _, l := range u.Limits {
				key := strings.TrimSpace(u.Subject.Value + " " + l.Descriptor)
				if !l.Unlimited() && (l.Used != counts[key] || l.Remaining != l.Quota-l.Used) {
					rt.Errorf("%s: used %d, remaining %d of %d; want used %d", key, l.Used, l.Remaining, l.Quota, counts[key])
				}
			}
		}
		for _, take := range seen.takes {
			if take.Op != store.Hit || take.Hits != 0 {
				rt.Errorf("take %+v is no peek", take)
			}
		}
		if told["true"]+told["false"] != requests {
			rt.Errorf("the observer was told %v of %d requests", told, requests)
		}
	})
}

// TestResetsOfUsageAreNoDecisions: an operator who resets what a tenant has used is
// counted by no observer.
func TestResetsOfUsageAreNoDecisions(t *testing.T) {
	told := countingObserver{}
	b := newBench(t, fmt.Sprintf(usageRules, "path"), headgate.Options{Observer: told})
	b.limiter.SetTenants(snapshot(t, tiered("a", "pro")))
	b.check(some("api_key:a", 4))
	before := maps.Clone(told)
	if err := b.usage().Reset(t.Context(), "", apiKey("a")); err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(told, before) {
		t.Errorf("the observer was told %v, and %v before the reset", told, before)
	}
	for _, l := range usageOf(b, apiKey("a"))[0].Limits {
		if l.Used != 0 {
			t.Errorf("%s: %d are used after the reset", l.Descriptor, l.Used)
		}
	}
}

// TestUsageWindows: what the window of each algorithm is.
func TestUsageWindows(t *testing.T) {
	b := newBench(t, `
domain: d
descriptors:
- key: api_key
  tenant: true
  descriptors:
  - {key: op, value: month, rate_limit: {requests_per_unit: 9, unit: month, algorithm: fixed_window, time_zone: Europe/Berlin}}
`, headgate.Options{})
	a := tenant.Account{Subject: apiKey("a")}
	for name, spec := range map[string]limit.Spec{
		"fixed":   {Algorithm: limit.FixedWindow, Quota: 9, Period: time.Minute},
		"sliding": {Quota: 9, Period: time.Minute},
		"log":     {Algorithm: limit.SlidingLog, Quota: 9, Period: time.Hour},
		"bucket":  {Algorithm: limit.TokenBucket, Quota: 6, Period: time.Minute},
	} {
		a.Overrides = append(a.Overrides, tenant.Override{Descriptor: "op:" + name, Quota: &tenant.Quota{Limits: []tenant.Limit{{Limit: limit.Must(spec)}}}})
	}
	b.limiter.SetTenants(snapshot(t, a))
	b.now = noon.Add(20 * time.Second)
	for _, text := range []string{"fixed", "sliding", "log", "bucket", "month"} {
		b.check(on("api_key:a,op:" + text))
	}
	month := time.Date(2025, 12, 31, 23, 0, 0, 0, time.UTC)
	type window struct {
		start, end time.Time
		reset      time.Duration
	}
	want := map[string]window{
		"op:fixed":   {noon, noon.Add(time.Minute), 40 * time.Second},
		"op:sliding": {b.now.Add(-time.Minute), b.now, 100 * time.Second},
		"op:log":     {b.now.Add(-time.Hour), b.now, time.Hour},
		"op:bucket":  {b.now.Add(-time.Minute), b.now, 10 * time.Second},
		"op:month":   {month, month.AddDate(0, 0, 31), month.AddDate(0, 0, 31).Sub(b.now)},
	}
	for _, u := range usageOf(b, apiKey("a"))[0].Limits {
		if w, ok := want[u.Descriptor]; ok && (w != window{u.Start, u.End, u.ResetAfter} || u.Used != 1) {
			t.Errorf("%s: %v to %v, reset after %v, used %d; want %+v", u.Descriptor, u.Start, u.End, u.ResetAfter, u.Used, w)
		}
		delete(want, u.Descriptor)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
}

// TestUsageBeyondQuotas: what was used of the burst pool and of each top-up in force is
// told too, and stays when quotas are reset.
func TestUsageBeyondQuotas(t *testing.T) {
	b := newBench(t, fmt.Sprintf(usageRules, "path"), headgate.Options{})
	pool := &tenant.Pool{Limit: tenant.Limit{Limit: limit.Must(limit.PerHour(4)), Name: "spare"}}
	tiers, err := tenant.NewTiers([]tenant.Tier{{Name: "free", Pool: pool, Quotas: map[string]*tenant.Quota{tenant.Default: quota(tenant.Default, "10/minute")}}}, "")
	if err != nil {
		t.Fatal(err)
	}
	topUp := func(id, of string, from, until time.Duration) tenant.TopUp {
		return tenant.TopUp{ID: id, Descriptor: of, Hits: 100, Term: tenant.Term{From: noon.Add(from), Until: noon.Add(until)}}
	}
	a := tenant.Account{Subject: apiKey("a"), TopUps: []tenant.TopUp{
		topUp("late", tenant.Default, -time.Hour, 9*time.Hour), topUp("soon", tenant.Default, -time.Hour, time.Hour),
		topUp("over", tenant.Default, -2*time.Hour, -time.Hour), topUp("user", "user:7", 0, time.Hour),
	}}
	if err := a.Validate(); err != nil {
		t.Fatal(err)
	}
	b.limiter.SetTenants(tenant.NewSnapshot(tiers, slices.Values([]tenant.Account{a})))
	for i := range 17 { // 10 by the quota, 4 by the pool, 3 by the top-up that ends first
		if !b.check(on("api_key:a,op:other")).Allowed {
			t.Fatalf("request %d was denied", i)
		}
	}
	beyond := func() string {
		var parts []string
		for _, l := range usageOf(b, apiKey("a"))[0].Beyond {
			parts = append(parts, fmt.Sprintf("%s %s %s %d/%d until %s", l.Source, tenant.DescriptorText(l.Descriptor), l.Name, l.Used, l.Quota, l.End.Format("15:04")))
		}
		return strings.Join(parts, "; ")
	}
	want := fmt.Sprintf("%s default spare 4/4 until 12:00; %s default soon 3/100 until 13:00; %[2]s default late 0/100 until 21:00; %[2]s user:7 user 0/100 until 13:00", tenant.FromPool, tenant.FromTopUp)
	if got := beyond(); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if err := b.usage().Reset(t.Context(), "", apiKey("a")); err != nil {
		t.Fatal(err)
	}
	if got := beyond(); got != want {
		t.Errorf("after a reset: %s", got)
	}
}

// TestResetAndRefundUsage: one descriptor is forgotten, with its ban, or all are; hits
// are given back to all limits that were charged; and what nothing counts is refused.
func TestResetAndRefundUsage(t *testing.T) {
	b := newBench(t, fmt.Sprintf(usageRules, "path"), headgate.Options{})
	b.limiter.SetTenants(snapshot(t, tiered("pro", "pro")))
	used := func() string {
		var parts []string
		for _, l := range usageOf(b, apiKey("pro"))[0].Limits {
			if !l.Unlimited() {
				parts = append(parts, fmt.Sprint(l.Used))
			}
		}
		return strings.Join(parts, " ") // default twice, op:write, op:slow, zone:eu,op:deep
	}
	want := func(when, want string) {
		t.Helper()
		if got := used(); got != want {
			t.Errorf("%s: used %s, want %s", when, got, want)
		}
	}
	for range 4 { // two of which are denied, and lead to a ban
		b.check(on("api_key:pro,op:slow"))
	}
	b.check(on("api_key:pro,op:write"))
	b.check(on("api_key:pro,user:7"))
	want("after hits", "4 4 1 2 0")
	if b.check(on("api_key:pro,op:slow")).Allowed {
		t.Fatal("not banned")
	}
	reset := func(texts ...string) error { return b.usage().Reset(t.Context(), "", apiKey("pro"), texts...) }
	for _, err := range []error{
		reset("op:nothing"), reset("op:write", "op:nothing"), b.usage().Reset(t.Context(), "other", apiKey("pro")),
		b.usage().Reset(t.Context(), "", tenant.Subject{Key: "plain", Value: "x"}),
		b.usage().Refund(t.Context(), "d", apiKey("pro"), "op:nothing", 1), b.usage().Refund(t.Context(), "other", apiKey("pro"), "op:write", 1),
	} {
		if !errors.Is(err, tenantusage.ErrNoQuota) {
			t.Errorf("%v", err)
		}
	}
	want("after what was refused", "4 4 1 2 0")
	if err := b.usage().Refund(t.Context(), "d", apiKey("pro"), "op:write", 1); err != nil {
		t.Fatal(err)
	}
	want("after a refund", "3 3 0 2 0")
	if err := reset("op:slow", "user:7"); err != nil {
		t.Fatal(err)
	}
	want("after a reset of one", "3 3 0 0 0")
	if b.remaining("api_key:pro,user:7") != 5 {
		t.Error("a key of any value was not reset")
	}
	if !b.check(on("api_key:pro,op:slow")).Allowed {
		t.Error("still banned")
	}
	if err := reset(); err != nil {
		t.Fatal(err)
	}
	want("after a reset of all", "0 0 0 0 0")
	if got := b.usage().Domains("api_key"); !slices.Equal(got, []string{"d"}) || b.usage().Domains("plain") != nil {
		t.Errorf("domains %v", got)
	}
}

// TestUsageOfStoreThatFails: it is told for each limit, and a reset is an error.
func TestUsageOfStoreThatFails(t *testing.T) {
	for _, broken := range []error{&store.Error{Op: "take", Reason: store.Unavailable, Err: errors.New("away")}, nil} {
		b := newBench(t, fmt.Sprintf(usageRules, "path"), headgate.Options{Store: failing{broken}})
		b.limiter.SetTenants(snapshot(t, tiered("pro", "pro")))
		for _, l := range usageOf(b, apiKey("pro"))[0].Limits {
			if !l.Unlimited() && (l.Counted() || l.Degraded == store.NoReason || l.Used != 0 || l.Quota == 0) {
				t.Errorf("%+v", l)
			}
		}
		if err := b.usage().Reset(t.Context(), "", apiKey("pro")); err == nil || errors.Is(err, tenantusage.ErrNoQuota) {
			t.Errorf("reset: %v", err)
		}
		if err := b.usage().Refund(t.Context(), "d", apiKey("pro"), tenant.Default, 1); err == nil || errors.Is(err, tenantusage.ErrNoQuota) {
			t.Errorf("refund: %v", err)
		}
	}
}

// TestUsageIsBounded: in subjects, and in quotas together.
func TestUsageIsBounded(t *testing.T) {
	b := newBench(t, fmt.Sprintf(usageRules, "path"), headgate.Options{})
	many := tiered("many", "pro")
	for i := range 1000 {
		text := fmt.Sprintf("op:%d", i)
		many.Overrides = append(many.Overrides, tenant.Override{Descriptor: text, Quota: quota(text, "1/minute")})
	}
	b.limiter.SetTenants(snapshot(t, many))
	if u := usageOf(b, apiKey("many"))[0]; len(u.Limits) < 1000 || u.Cut {
		t.Errorf("%d limits, cut %v", len(u.Limits), u.Cut)
	}
	subjects := slices.Repeat([]tenant.Subject{apiKey("many")}, tenantusage.MaxSubjects)
	if u := usageOf(b, subjects...)[99]; len(u.Limits) != tenantusage.MaxQuotas/tenantusage.MaxSubjects+1 || !u.Cut {
		t.Errorf("%d limits, cut %v", len(u.Limits), u.Cut)
	}
	if _, err := b.usage().Usage(t.Context(), append(subjects, apiKey("x"))); err == nil {
		t.Error("101 subjects")
	}
	if u := usageOf(newBench(t, "", headgate.Options{}), apiKey("many"))[0]; len(u.Limits) != 0 {
		t.Errorf("without rules: %+v", u)
	}
}

// BenchmarkUsage tells how long a hundred tenants with four limits each take.
func BenchmarkUsage(b *testing.B) {
	l := newBench(b, fmt.Sprintf(usageRules, "path"), headgate.Options{})
	l.limiter.SetTenants(snapshot(b, tiered("pro", "pro")))
	subjects := slices.Repeat([]tenant.Subject{apiKey("pro")}, tenantusage.MaxSubjects)
	for b.Loop() {
		if _, err := l.usage().Usage(b.Context(), subjects); err != nil {
			b.Fatal(err)
		}
	}
}
