package accuracy_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/reservation"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/accuracy"
	"github.com/headgate/headgate/store/denial"
	"github.com/headgate/headgate/store/local"
	"github.com/headgate/headgate/tenant"
)

// What is decided exactly by an algorithm that approximates nothing is never wrong,
// whatever is asked: also where other limits deny, hits are given back, charged,
// reserved and settled, or forgotten.
func TestExactDecisionsAreNeverWrong(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		algorithm := rapid.SampledFrom([]string{"fixed_window", "sliding_log", "token_bucket", "gcra", "leaky_bucket", "leaky_queue"}).Draw(r, "algorithm")
		quota := rapid.IntRange(1, 8).Draw(r, "quota")
		b := newBench(t, fmt.Sprintf(`
domain: d
consumption: %s
descriptors:
- key: user
  name: user
  shadow_mode: %t
  rate_limit: {unit: minute, requests_per_unit: %d, algorithm: %s}
  descriptors:
  - {key: op, name: op, rate_limit: {unit: minute, requests_per_unit: %d, algorithm: %[4]s}}
`, rapid.SampledFrom([]string{"all_or_nothing", "independent"}).Draw(r, "consumption"), rapid.Bool().Draw(r, "shadow"),
			quota, algorithm, rapid.IntRange(1, 8).Draw(r, "other quota")), 1, headgate.Options{})
		var decided int64
		for range rapid.IntRange(1, 60).Draw(r, "requests") {
			b.now = b.now.Add(time.Duration(rapid.SampledFrom([]int{0, 0, 0, 1, 7, 31, 200}).Draw(r, "seconds")) * time.Second)
			d := on(rapid.SampledFrom([]string{"user:a", "user:b", "user:a,op:read"}).Draw(r, "descriptor"))
			d.Hits = rapid.Int64Range(0, 3).Draw(r, "hits")
			d.Op = rapid.SampledFrom([]store.Op{store.Hit, store.Hit, store.Hit, store.Hit, store.Refund, store.Charge, store.Reset}).Draw(r, "op")
			if d.Op == store.Hit && d.Hits > 0 && rapid.IntRange(0, 5).Draw(r, "reserve") == 0 {
				b.reserveAndSettle(d, rapid.Int64Range(0, 4).Draw(r, "used"))
			} else {
				b.check(d)
			}
			if d.Op == store.Hit && d.Hits > 0 {
				decided++
			}
		}
		for _, rule := range []string{"user", "op"} {
			if got := b.counts(rule); got != (accuracy.Counts{Decided: got.Decided}) || got.Decided > decided {
				r.Fatalf("%s: %+v of %d", rule, got, decided)
			}
		}
	})
}

func (b *bench) reserveAndSettle(d headgate.Descriptor, used int64) {
	b.t.Helper()
	req, resp := headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{d}}, headgate.Response{}
	made, err := b.limiter.Reserve(b.t.Context(), &req, reservation.Options{}, &resp)
	if err != nil {
		b.t.Fatal(err)
	}
	if !resp.Allowed {
		return
	}
	if _, err := b.limiter.Commit(b.t.Context(), made, reservation.Actual{Hits: []int64{used}}, &resp); err != nil {
		b.t.Fatal(err)
	}
}

// warped decides by other limits than it is asked to, but for references.
type warped struct {
	store.Store
	limits map[int64]*limit.Limit // by the quota
}

func (w *warped) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	takes = slices.Clone(takes)
	for i := range takes {
		if l := w.limits[takes[i].Limit.Quota]; l != nil && !isReference(&takes[i]) {
			takes[i].Limit = l
		}
	}
	w.Store.Take(ctx, takes, results)
}

// hitsLog is the naive log of what passed, one instant for each hit.
type hitsLog []time.Time

// within returns how many hits are in the minute up to now.
func (l hitsLog) within(now time.Time) (n int64) {
	for _, at := range l {
		if at.After(now.Add(-time.Minute)) {
			n++
		}
	}
	return n
}

// A store that lets too much or too little pass is measured as a naive log of what
// passed has it.
func TestMeasuresWhatIsWrong(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		const quota = 10
		really := rapid.SampledFrom([]int64{5, 9, 11, 20}).Draw(r, "really")
		algorithm := rapid.SampledFrom([]limit.Algorithm{limit.SlidingLog, limit.SlidingWindow}).Draw(r, "algorithm")
		var b *bench
		now := func() time.Time { return b.now }
		var layers store.Store = &warped{memoryAt(t, now), map[int64]*limit.Limit{
			quota: limit.Must(limit.Spec{Algorithm: algorithm, Quota: really, Period: time.Minute}),
		}}
		if rapid.Bool().Draw(r, "remembers denials") {
			layers = denial.New(layers, denial.Options{Now: func() time.Time {
				if b == nil {
					return noon
				}
				return b.now
			}})
		}
		b = newBench(t, fmt.Sprintf(`
domain: d
descriptors:
- {key: user, name: user, rate_limit: {unit: minute, requests_per_unit: %d, algorithm: %v}}
`, quota, algorithm), 1, headgate.Options{Store: layers})
		logs := map[string]hitsLog{}
		var want accuracy.Counts
		for range rapid.IntRange(1, 100).Draw(r, "requests") {
			b.now = b.now.Add(time.Duration(rapid.SampledFrom([]int{0, 0, 0, 1, 7, 31, 200}).Draw(r, "seconds")) * time.Second)
			user := rapid.SampledFrom([]string{"user:a", "user:b"}).Draw(r, "user")
			d := on(user)
			d.Hits = rapid.Int64Range(1, 3).Draw(r, "hits")
			allowed, used := b.check(d).Allowed, logs[user].within(b.now)
			fits := used+d.Hits <= quota
			want.Decided++
			switch {
			case allowed && !fits:
				want.WrongAllowed++
				want.Overshoot = max(want.Overshoot, float64(used+d.Hits-quota)/quota)
			case !allowed && fits:
				want.WrongDenied++
			}
			if allowed {
				logs[user] = append(logs[user], slices.Repeat(hitsLog{b.now}, int(d.Hits))...)
			}
			if got := b.counts("user"); got != want {
				r.Fatalf("at %v %s of %d, %d used, allowed %t:\n got %+v\nwant %+v", b.now, user, d.Hits, used, allowed, got, want)
			}
		}
	})
}

// What others deny is no matter of a limit, and its reference forgets it.
func TestDeniedByAnotherRule(t *testing.T) {
	b := newBench(t, `
domain: d
descriptors:
- {key: user, name: user, rate_limit: {unit: minute, requests_per_unit: 5, algorithm: sliding_log}}
- {key: address, name: address, rate_limit: {unit: minute, requests_per_unit: 2, algorithm: sliding_log}}
`, 1, headgate.Options{})
	for range 6 {
		b.check(on("user:a"), on("address:x"))
	}
	for range 4 {
		b.check(on("user:a"))
	}
	for rule, want := range map[string]int64{"user": 2 + 4, "address": 6} {
		if got := b.counts(rule); got != (accuracy.Counts{Decided: want}) {
			t.Errorf("%s: %+v, want %d decided", rule, got, want)
		}
	}
}

// Counts are of all time, and of an hour up to now.
func TestAccuracyForgets(t *testing.T) {
	b := newBench(t, "domain: d\ndescriptors: [{key: user, name: user, rate_limit: {unit: minute, requests_per_unit: 5}}]", 1, headgate.Options{})
	for _, step := range []struct {
		later        time.Duration
		total, since int64
	}{{0, 1, 1}, {time.Minute, 2, 2}, {58 * time.Minute, 3, 3}, {time.Minute, 4, 3}, {-time.Minute, 5, 3}, {3 * time.Hour, 6, 1}} {
		b.now = b.now.Add(step.later)
		b.check(on("user:a"))
		if r := b.layer.Report("user"); r.Decided != step.total || r.Recent.Decided != step.since {
			t.Errorf("at %v: %+v, want %d, %d of late", b.now, r, step.total, step.since)
		}
	}
}

// What is no longer wanted is forgotten, and counted anew when it is asked for again.
func TestForget(t *testing.T) {
	b := newBench(t, "domain: d\ndescriptors: [{key: user, name: user, rate_limit: &l {unit: minute, requests_per_unit: 5}}, {key: op, name: op, rate_limit: *l}]", 1, headgate.Options{})
	for range 2 {
		b.check(on("user:a"), on("op:b"))
	}
	b.layer.Forget(func(rule string) bool { return rule == "op" })
	if user, op := b.layer.Report("user"), b.counts("op"); user != (accuracy.Report{}) || op.Decided != 2 {
		t.Errorf("%+v, %+v", user, op)
	}
	b.check(on("user:a"))
	if user := b.counts("user"); user.Decided != 1 {
		t.Errorf("%+v", user)
	}
}

func TestSampleIsAShare(t *testing.T) {
	for _, share := range []float64{0, -0.1, 1.1, math.NaN(), math.Inf(1)} {
		if _, err := accuracy.New(memory(t), accuracy.Options{Sample: share}); err == nil {
			t.Errorf("%v is taken", share)
		}
	}
	if _, err := accuracy.New(nil, accuracy.Options{Sample: 1}); err == nil {
		t.Error("no store is taken")
	}
	half := newBench(t, "domain: d\ndescriptors: [{key: user, name: user, rate_limit: {unit: minute, requests_per_unit: 5}}]", 0.5, headgate.Options{})
	for i := range 2000 {
		half.check(on(fmt.Sprintf("user:u%d", i)))
	}
	if got := half.counts("user"); got.Decided < 900 || got.Decided > 1100 {
		t.Errorf("%d of 2000 keys are sampled", got.Decided)
	}
}

// Whatever answers in place of the store, what that did not decide is missed: neither the
// bucket nor its reference counts it.
func TestWhatTheStoreDoesNotDecideIsMissed(t *testing.T) {
	for mode, passes := range map[string]int{"open_unbounded": 8, "open": 3, "closed": 0, "local": 1} {
		own, err := local.New(local.Options{Nodes: func() int { return 3 }, Now: func() limit.Micros { return limit.MicrosOf(noon) }})
		if err != nil {
			t.Fatal(err)
		}
		down := &recording{Store: memory(t), fails: func(t *store.Take) bool { return !isReference(t) }}
		b := newBench(t, fmt.Sprintf("domain: d\ndescriptors: [{key: user, name: user, failure_mode: %s, rate_limit: {unit: minute, requests_per_unit: 3}}]", mode),
			1, headgate.Options{Store: down, Fallback: own})
		passed := 0
		for range 8 {
			if b.check(on("user:a")).Allowed {
				passed++
			}
		}
		if got := b.counts("user"); got != (accuracy.Counts{Missed: 8}) || passed != passes {
			t.Errorf("%s: %+v, %d passed, want %d", mode, got, passed, passes)
		}
	}
}

// A reference forgets what it was asked for hits that the store did not decide.
func TestReferencesCountNothingThatTheStoreDoesNot(t *testing.T) {
	seen := &recording{Store: memory(t)}
	b := newBench(t, "domain: d\ndescriptors: [{key: user, name: user, rate_limit: {unit: minute, requests_per_unit: 3}}]", 1, headgate.Options{Store: seen})
	seen.fails = func(t *store.Take) bool { return !isReference(t) && t.Op == store.Hit }
	seen.Store = uncharged{seen.Store, seen.fails}
	for range 5 {
		b.check(on("user:a"))
	}
	seen.fails, seen.Store = nil, seen.Store.(uncharged).Store
	for range 4 {
		b.check(on("user:a"))
	}
	if got := b.counts("user"); got != (accuracy.Counts{Missed: 5, Decided: 4}) {
		t.Errorf("%+v", got)
	}
}

// uncharged makes peeks of some takes.
type uncharged struct {
	store.Store
	are func(*store.Take) bool
}

func (u uncharged) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	takes = slices.Clone(takes)
	for i := range takes {
		if u.are(&takes[i]) {
			takes[i].Hits = 0
		}
	}
	u.Store.Take(ctx, takes, results)
}

// The quota of a tenant takes the place of the main limits, also in what is measured.
func TestMeasuresQuotasOfTenants(t *testing.T) {
	b := newBench(t, "domain: d\ndescriptors: [{key: api_key, name: api_key, tenant: true}]", 1, headgate.Options{})
	quota := &tenant.Quota{Limits: []tenant.Limit{{Limit: limit.Must(limit.PerMinute(3))}, {Limit: limit.Must(limit.PerHour(5))}}}
	tiers, err := tenant.NewTiers([]tenant.Tier{{Name: "pro", Quotas: map[string]*tenant.Quota{tenant.Default: quota}}}, "pro")
	if err != nil {
		t.Fatal(err)
	}
	account := tenant.Account{
		Subject: tenant.Subject{Key: "api_key", Value: "k"}, Tiers: []tenant.Assignment{{Tier: "pro"}},
		TopUps: []tenant.TopUp{{ID: "a", Hits: 2, Term: tenant.Term{From: noon, Until: noon.Add(24 * time.Hour)}}},
	}
	b.limiter.SetTenants(tenant.NewSnapshot(tiers, func(yield func(tenant.Account) bool) { yield(account) }))
	for i, allowed := range []bool{true, true, true, true, true, false} {
		if r := b.check(on("api_key:k")); r.Allowed != allowed {
			t.Fatalf("request %d: %+v", i+1, r)
		}
	}
	// Both quotas have decided all six: where the shorter one denied and a top-up has
	// paid, it has denied all the same, and the longer one let pass.
	got := b.layer.Report("api_key")
	if got.Counts != (accuracy.Counts{Decided: 12}) || got.Last == nil || got.Last.Algorithm != limit.SlidingWindow {
		t.Errorf("%+v", got)
	}
}

// Candidates and what is enforced in place of the main limits are not measured.
func TestCandidatesAreNotMeasured(t *testing.T) {
	for whose, want := range map[string]int64{"": 6, "percent: 100": 0} {
		b := newBench(t, fmt.Sprintf(`
domain: d
descriptors:
- key: user
  name: user
  rate_limit: {unit: minute, requests_per_unit: 4, algorithm: fixed_window}
  candidate:
    rate_limit: {unit: minute, requests_per_unit: 2, algorithm: fixed_window}
    %s
`, whose), 1, headgate.Options{})
		for range 6 {
			b.check(on("user:a"))
		}
		if got := b.counts("user"); got != (accuracy.Counts{Decided: want}) {
			t.Errorf("%q: %+v, want %d decided", whose, got, want)
		}
	}
}

// BenchmarkCheck is what it costs a decision that keys are sampled, and that its key is.
func BenchmarkCheck(b *testing.B) {
	for _, c := range []struct {
		name  string
		share float64
	}{{"off", 0}, {"not sampled", 1e-12}, {"sampled", 1}} {
		b.Run(c.name, func(b *testing.B) {
			limiter := newBench(b, "domain: d\ndescriptors: [{key: api_key, rate_limit: {unit: minute, requests_per_unit: 1000000000}}]", c.share, headgate.Options{}).limiter
			requests, responses := []headgate.Request{{Domain: "d", Descriptors: []headgate.Descriptor{on("api_key:0123456789abcdef")}}}, make([]headgate.Response, 1)
			b.ReportAllocs()
			for b.Loop() {
				if err := limiter.Check(b.Context(), requests, responses); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// nothing is a store that decides nothing.
type nothing struct{ store.Store }

func (nothing) Take(context.Context, []store.Take, []store.Result) {}

// BenchmarkNotSampled is what a batch pays whose keys are not in the sample.
func BenchmarkNotSampled(b *testing.B) {
	layer, err := accuracy.New(nothing{}, accuracy.Options{Sample: 1e-12})
	if err != nil {
		b.Fatal(err)
	}
	for name, s := range map[string]store.Store{"without": nothing{}, "with": layer} {
		for _, limits := range []int{1, 4} {
			takes, results := make([]store.Take, limits), make([]store.Result, limits)
			for i := range takes {
				takes[i] = store.Take{Key: fmt.Appendf(nil, "00 a key as long as most: 0123456789abcde%d", i), Limit: limit.Must(limit.PerMinute(5)), Hits: 1, Mode: mainMode}
			}
			b.Run(fmt.Sprintf("%s/limits=%d", name, limits), func(b *testing.B) {
				for b.Loop() {
					s.Take(b.Context(), takes, results)
				}
			})
		}
	}
}

// A dry run charges no reference, and is no decision.
func TestDryRunsAreNotMeasured(t *testing.T) {
	b := newBench(t, "domain: d\ndescriptors: [{key: user, name: user, rate_limit: {unit: minute, requests_per_unit: 2}}]", 1, headgate.Options{})
	for range 4 {
		var before, after headgate.Response
		if err := b.limiter.DryRun(t.Context(), &headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{on("user:a")}}, &before, &after); err != nil {
			t.Fatal(err)
		}
		b.check(on("user:a"))
	}
	if got := b.counts("user"); got != (accuracy.Counts{Decided: 4}) {
		t.Errorf("%+v", got)
	}
}

// What is leased over regions is not measured: no store sees all of its hits.
func TestRegionsAreNotMeasured(t *testing.T) {
	b := newBench(t, "domain: d\ndescriptors: [{key: user, name: user, regions: leased, failure_mode: closed, rate_limit: {unit: minute, requests_per_unit: 2}}]", 1, headgate.Options{})
	b.check(on("user:a"))
	if got := b.counts("user"); got != (accuracy.Counts{}) {
		t.Errorf("%+v", got)
	}
}
