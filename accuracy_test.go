package headgate_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/reservation"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/denial"
	"github.com/headgate/headgate/store/local"
	"github.com/headgate/headgate/store/memstore"
)

// isReference reports whether t is on the reference of a bucket.
func isReference(t *store.Take) bool {
	return descriptor.Kind(t.Key[1])&descriptor.KindReference != 0
}

// accuracyOf returns the one report of b.
func (b *bench) accuracyOf(rule string) headgate.AccuracyReport {
	b.t.Helper()
	reports := b.limiter.Accuracy()
	i := slices.IndexFunc(reports, func(r headgate.AccuracyReport) bool { return r.Rule == rule })
	if i < 0 {
		b.t.Fatalf("no report of %q in %+v", rule, reports)
	}
	return reports[i]
}

// What is decided exactly by an algorithm that approximates nothing is never wrong,
// whatever is asked: also where other limits deny, hits are given back, charged,
// reserved and settled, or forgotten.
func TestExactDecisionsAreNeverWrong(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		algorithm := rapid.SampledFrom([]string{"fixed_window", "sub_windows", "sliding_log", "token_bucket", "gcra", "leaky_bucket", "leaky_queue"}).Draw(r, "algorithm")
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
			quota, algorithm, rapid.IntRange(1, 8).Draw(r, "other quota")), headgate.Options{AccuracySample: 1})
		var decided int64
		for range rapid.IntRange(1, 60).Draw(r, "requests") {
			b.now = b.now.Add(time.Duration(rapid.SampledFrom([]int{0, 0, 0, 1, 7, 31, 200}).Draw(r, "seconds")) * time.Second)
			d := on(rapid.SampledFrom([]string{"user:a", "user:b", "user:a,op:read"}).Draw(r, "descriptor"))
			d.Hits = rapid.Int64Range(0, 3).Draw(r, "hits")
			d.Op = rapid.SampledFrom([]store.Op{store.Hit, store.Hit, store.Hit, store.Hit, store.Refund, store.Charge, store.Reset}).Draw(r, "op")
			if d.Op == store.Hit && d.Hits > 0 && rapid.IntRange(0, 5).Draw(r, "reserve") == 0 {
				b.reserveAndSettle(d, rapid.Int64Range(0, 4).Draw(r, "used"))
				continue
			}
			if b.check(d); d.Op == store.Hit && d.Hits > 0 {
				decided++
			}
		}
		reports := b.limiter.Accuracy()
		if len(reports) != 2 {
			r.Fatalf("%+v", reports)
		}
		for _, report := range reports {
			want := headgate.AccuracyCounts{Decided: report.Decided}
			if report.AccuracyCounts != want || report.Decided > decided || report.Bound != 0 || report.Reference != algorithm {
				r.Fatalf("%+v of %d", report, decided)
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
		b := &bench{t: t, now: noon}
		buckets, err := memstore.New(memstore.Options{Now: func() limit.Micros { return limit.MicrosOf(b.now) }})
		if err != nil {
			r.Fatal(err)
		}
		var layers store.Store = &warped{buckets, map[int64]*limit.Limit{
			quota: limit.Must(limit.Spec{Algorithm: algorithm, Quota: really, Period: time.Minute}),
		}}
		if rapid.Bool().Draw(r, "remembers denials") {
			layers = denial.New(layers, denial.Options{Now: func() time.Time { return b.now }})
		}
		b.limiter, err = headgate.New(headgate.Options{Store: layers, AccuracySample: 1, Now: func() time.Time { return b.now }, Rules: load(t, fmt.Sprintf(`
domain: d
descriptors:
- {key: user, name: user, rate_limit: {unit: minute, requests_per_unit: %d, algorithm: %v}}
`, quota, algorithm))})
		if err != nil {
			r.Fatal(err)
		}
		logs := map[string]hitsLog{}
		var want headgate.AccuracyCounts
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
			if got := b.accuracyOf("user"); got.AccuracyCounts != want {
				r.Fatalf("at %v %s of %d, %d used, allowed %t:\n got %+v\nwant %+v", b.now, user, d.Hits, used, allowed, got.AccuracyCounts, want)
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
`, headgate.Options{AccuracySample: 1})
	for range 6 {
		b.check(on("user:a"), on("address:x"))
	}
	for range 4 {
		b.check(on("user:a"))
	}
	for rule, want := range map[string]int64{"user": 2 + 4, "address": 6} {
		if got := b.accuracyOf(rule).AccuracyCounts; got != (headgate.AccuracyCounts{Decided: want}) {
			t.Errorf("%s: %+v, want %d decided", rule, got, want)
		}
	}
}

// Takes on references stand behind all others, alone, and change nothing else of what
// the store is asked; nor do the answers change, whatever becomes of them.
func TestReferencesDisturbNothing(t *testing.T) {
	const yaml = `
domain: d
descriptors:
- {always: true, name: all, rate_limit: {unit: minute, requests_per_unit: 100}}
- {key: user, name: user, hot_keys: lease, rate_limit: {unit: minute, requests_per_unit: 3}}
- {key: leased, consistency: leased, rate_limit: {unit: minute, requests_per_unit: 100}}
- {key: slots, rate_limit: {unit: minute, requests_per_unit: 100}, concurrency: {limit: 5}}
- {key: free, unlimited: true}
- {key: strict, failure_mode: closed, rate_limit: {unit: hour, requests_per_unit: 4}}
`
	plain, sampled := &recording{Store: memory(t)}, &recording{Store: memory(t)}
	for name, fails := range map[string]func(*store.Take) bool{"": nil, "the store fails for references": isReference} {
		t.Run(name, func(t *testing.T) {
			plain.Store, sampled.Store, sampled.fails = memory(t), memory(t), fails
			without := newBench(t, yaml, headgate.Options{Store: plain})
			with := newBench(t, yaml, headgate.Options{Store: sampled, AccuracySample: 1})
			for i := range 8 {
				descriptors := []headgate.Descriptor{on("user:a"), on("leased:b"), on("free:c"), on("slots:s"), on("strict:d"), on("nobody:e")}
				if i == 6 {
					descriptors[0].Op, descriptors[1].Hits = store.Refund, 0
				}
				want, got := without.check(descriptors...), with.check(descriptors...)
				if len(got.Verdicts) != len(want.Verdicts) || got.Allowed != want.Allowed || got.Degraded() != store.NoReason {
					t.Fatalf("request %d:\n got %+v\nwant %+v", i, got, want)
				}
				for j := range want.Verdicts {
					if g, w := &got.Verdicts[j], &want.Verdicts[j]; g.Decision != w.Decision || g.Enforced != w.Enforced || g.Hits != w.Hits || g.Role != w.Role {
						t.Errorf("request %d: verdict %d is %+v, want %+v", i, j, g, w)
					}
				}
			}
			missed := with.accuracyOf("user").Missed
			if (missed > 0) != (fails != nil) {
				t.Errorf("%d missed", missed)
			}
		})
	}
}

// firstBatch keeps what is asked first, and not what follows up.
type firstBatch struct {
	store.Store
	takes []store.Take
}

func (f *firstBatch) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	if f.takes == nil {
		f.takes = slices.Clone(takes)
	}
	f.Store.Take(ctx, takes, results)
}

// The batch of a request is that of one without references, and these behind it.
func TestReferencesAreBehindTheBatch(t *testing.T) {
	const yaml = `
domain: d
descriptors:
- {key: user, name: user, rate_limit: {unit: minute, requests_per_unit: 3}}
- {key: other, name: other, consistency: synced, rate_limit: {unit: minute, requests_per_unit: 3000}}
- {key: slots, concurrency: {limit: 5}}
`
	plain, sampled := &firstBatch{Store: memory(t)}, &firstBatch{Store: memory(t)}
	without, with := newBench(t, yaml, headgate.Options{Store: plain}), newBench(t, yaml, headgate.Options{Store: sampled, AccuracySample: 1})
	for _, op := range []store.Op{store.Hit, store.Refund, store.Charge, store.Reset} {
		d := []headgate.Descriptor{on("user:a"), on("other:b"), on("slots:c")}
		d[0].Op, d[1].Op, d[2].Op = op, op, op
		plain.takes, sampled.takes = nil, nil
		without.check(d...)
		with.check(d...)
		n := len(plain.takes)
		if len(sampled.takes) != n+2 {
			t.Fatalf("op %d: %d takes, want %d", op, len(sampled.takes), n+2)
		}
		for i := range plain.takes {
			g, w := sampled.takes[i], plain.takes[i]
			if string(g.Key) != string(w.Key) || g.Group != w.Group || g.Shadow != w.Shadow || g.Hits != w.Hits || g.Op != w.Op || *g.Mode != *w.Mode {
				t.Errorf("op %d: take %d is %+v, want %+v", op, i, g, w)
			}
		}
		hits := int64(1)
		if op == store.Hit {
			hits = 0 // a peek, since they decide together
		}
		for i, l := range []limit.Algorithm{limit.SlidingLog, limit.SlidingWindow} {
			take := sampled.takes[n+i]
			if !isReference(&take) || take.Group != 0 || take.Op != op || take.Hits != hits || take.Limit.Algorithm != l || take.Mode != nil {
				t.Errorf("op %d: reference %d is %+v", op, i, take)
			}
		}
	}
	for name, d := range map[string]headgate.Descriptor{
		"a peek":         {Entries: on("user:a").Entries},
		"of the caller":  {Entries: on("user:a").Entries, Hits: 1, Limit: limit.Must(limit.PerMinute(5))},
		"renewal":        {Entries: on("slots:b").Entries, Hits: 1, Op: store.Renew},
		"release":        {Entries: on("slots:b").Entries, Op: store.Release},
		"without a rule": on("none:c"),
	} {
		sampled.takes = nil
		if with.check(d); slices.ContainsFunc(sampled.takes, func(t store.Take) bool { return isReference(&t) }) {
			t.Errorf("%s: %+v", name, sampled.takes)
		}
	}
}

// What a rule promises depends on its mode, its algorithm and the number of nodes.
func TestAccuracyBounds(t *testing.T) {
	const yaml = `
domain: d
descriptors:
- {key: exact, name: exact, rate_limit: {unit: minute, requests_per_unit: 100, algorithm: fixed_window}}
- {key: weighed, name: weighed, rate_limit: {unit: minute, requests_per_unit: 100}}
- {key: large, name: large, rate_limit: {unit: minute, requests_per_unit: 1001}}
- {key: leased, name: leased, consistency: leased, rate_limit: {unit: minute, requests_per_unit: 100, algorithm: gcra}}
- {key: synced, name: synced, consistency: synced, rate_limit: {unit: minute, requests_per_unit: 100}}
- {key: local, name: local, consistency: local, rate_limit: {unit: minute, requests_per_unit: 2, algorithm: token_bucket}}
- {key: whole, name: whole, consistency: local, local_share: whole, rate_limit: {unit: minute, requests_per_unit: 2, algorithm: sliding_log}}
- {key: free, name: free, unlimited: true}
- {key: denied, name: denied, rate_limit: {unit: minute, requests_per_unit: 2, count_denied: true}}
`
	type row struct {
		reference            string
		unknown, one, eleven float64
	}
	want := map[string]row{
		"exact": {"fixed_window", 0, 0, 0}, "weighed": {"sliding_log", 1, 1, 1}, "large": {"sliding_window", 0, 0, 0},
		"leased": {"gcra", 0, 0, 0}, "synced": {"sliding_log", -1, 1, 11}, "local": {"token_bucket", -1, 0, 4.5}, "whole": {"sliding_log", -1, 0, 10},
	}
	for i, nodes := range []func() int{nil, func() int { return 1 }, func() int { return 11 }} {
		b := newBench(t, yaml, headgate.Options{AccuracySample: 0.5, Nodes: nodes})
		reports := b.limiter.Accuracy()
		if len(reports) != len(want) {
			t.Errorf("%d reports, want %d: %+v", len(reports), len(want), reports)
		}
		for _, r := range reports {
			w := want[r.Rule]
			if bound := [3]float64{w.unknown, w.one, w.eleven}[i]; r.Bound != bound || r.Reference != w.reference || r.BoundText == "" || r.Domain != "d" {
				t.Errorf("%d: %+v, want bound %v by %s", i, r, bound, w.reference)
			}
		}
	}
}

// Counts are of all time, and of an hour up to now.
func TestAccuracyForgets(t *testing.T) {
	b := newBench(t, "domain: d\ndescriptors: [{key: user, name: user, rate_limit: {unit: minute, requests_per_unit: 5}}]", headgate.Options{AccuracySample: 1})
	for _, step := range []struct {
		later        time.Duration
		total, since int64
	}{{0, 1, 1}, {time.Minute, 2, 2}, {58 * time.Minute, 3, 3}, {time.Minute, 4, 3}, {-time.Minute, 5, 3}, {3 * time.Hour, 6, 1}} {
		b.now = b.now.Add(step.later)
		b.check(on("user:a"))
		if r := b.accuracyOf("user"); r.Decided != step.total || r.Recent.Decided != step.since {
			t.Errorf("at %v: %+v, want %d, %d of late", b.now, r, step.total, step.since)
		}
	}
}

// A rule that limits as before keeps its counts when rules are swapped.
func TestAccuracyOutlivesAReload(t *testing.T) {
	yaml := "domain: d\ndescriptors: [{key: user, name: user, rate_limit: {unit: minute, requests_per_unit: %d}}]"
	b := newBench(t, fmt.Sprintf(yaml, 5), headgate.Options{AccuracySample: 1})
	b.check(on("user:a"))
	for _, step := range []struct{ quota, want int64 }{{5, 1}, {6, 0}} {
		b.limiter.SetRules(load(t, fmt.Sprintf(yaml, step.quota)))
		if r := b.accuracyOf("user"); r.Decided != step.want {
			t.Errorf("quota %d: %+v, want %d decided", step.quota, r, step.want)
		}
	}
	b.limiter.SetRules(nil)
	if reports := b.limiter.Accuracy(); len(reports) != 0 {
		t.Errorf("without rules: %+v", reports)
	}
}

func TestAccuracySampleIsAShare(t *testing.T) {
	for _, share := range []float64{-0.1, 1.1, math.NaN(), math.Inf(1)} {
		if _, err := headgate.New(headgate.Options{Store: memory(t), AccuracySample: share}); err == nil {
			t.Errorf("%v is taken", share)
		}
	}
	b := newBench(t, "domain: d\ndescriptors: [{key: user, name: user, rate_limit: {unit: minute, requests_per_unit: 5}}]", headgate.Options{})
	if b.check(on("user:a")); b.limiter.Accuracy() != nil {
		t.Errorf("%+v", b.limiter.Accuracy())
	}
	half := newBench(t, "domain: d\ndescriptors: [{key: user, name: user, rate_limit: {unit: minute, requests_per_unit: 5}}]", headgate.Options{AccuracySample: 0.5})
	for i := range 2000 {
		half.check(on(fmt.Sprintf("user:u%d", i)))
	}
	if r := half.accuracyOf("user"); r.Decided < 900 || r.Decided > 1100 {
		t.Errorf("%d of 2000 keys are sampled", r.Decided)
	}
}

// What failure modes let pass and deny is measured where the reference is elsewhere and
// answers.
func TestMeasuresFailureModes(t *testing.T) {
	for mode, want := range map[string]headgate.AccuracyCounts{
		"open_unbounded": {Decided: 8, WrongAllowed: 5, Overshoot: 5.0 / 3},
		"open":           {Decided: 8},
		"closed":         {Decided: 8, WrongDenied: 8},
		"local":          {Decided: 8, WrongDenied: 7}, // all but the share of this node
	} {
		own, err := local.New(local.Options{Nodes: func() int { return 3 }, Now: func() limit.Micros { return limit.MicrosOf(noon) }})
		if err != nil {
			t.Fatal(err)
		}
		down := &recording{Store: memory(t), fails: func(t *store.Take) bool { return !isReference(t) }}
		b := newBench(t, fmt.Sprintf("domain: d\ndescriptors: [{key: user, name: user, failure_mode: %s, rate_limit: {unit: minute, requests_per_unit: 3}}]", mode),
			headgate.Options{Store: down, Fallback: own, AccuracySample: 1})
		for i := range 8 {
			b.now = b.now.Add(time.Duration(i) * time.Millisecond)
			b.check(on("user:a"))
		}
		if got := b.accuracyOf("user").AccuracyCounts; got != want {
			t.Errorf("%s: %+v, want %+v", mode, got, want)
		}
	}
}

// The quota of a tenant takes the place of the main limits, also in what is measured;
// what a top-up lets pass beyond it is no mistake.
func TestMeasuresQuotasOfTenants(t *testing.T) {
	b := newBench(t, toppedRules, headgate.Options{AccuracySample: 1})
	b.limiter.SetTenants(beyond(t, toppedUp("k", topUp("a", "", 2))))
	for i, allowed := range []bool{true, true, true, true, true, false} {
		if r := b.check(on("api_key:k")); r.Allowed != allowed {
			t.Fatalf("request %d: %s", i+1, answered(r))
		}
	}
	// Both quotas have decided but the two that a top-up has paid for, which only the
	// longer one let pass.
	got := b.limiter.Accuracy()
	if len(got) != 2 || got[0].AccuracyCounts != (headgate.AccuracyCounts{Decided: 10}) || got[0].Reference != "sliding_log" || got[0].Bound != 1 {
		t.Errorf("%+v", got)
	}
}

// Candidates and what is enforced in place of the main limits are not measured.
func TestCandidatesAreNotMeasured(t *testing.T) {
	for whose, want := range map[string]int64{"": 6, "percent: 100": 0} {
		b := newBench(t, fmt.Sprintf(candidateRules, whose), headgate.Options{AccuracySample: 1})
		for range 6 {
			b.check(on("user:a"))
		}
		if got := b.limiter.Accuracy()[0].AccuracyCounts; got != (headgate.AccuracyCounts{Decided: want}) {
			t.Errorf("%q: %+v, want %d decided", whose, got, want)
		}
	}
}

// BenchmarkAccuracy is what it costs a decision that keys are sampled, and that its key
// is.
func BenchmarkAccuracy(b *testing.B) {
	for _, c := range []struct {
		name  string
		share float64
	}{{"off", 0}, {"not sampled", 1e-12}, {"sampled", 1}} {
		b.Run(c.name, func(b *testing.B) {
			limiter := newBench(b, "domain: d\ndescriptors: [{key: api_key, rate_limit: {unit: minute, requests_per_unit: 1000000000}}]", headgate.Options{AccuracySample: c.share}).limiter
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
