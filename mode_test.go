package headgate_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/verdict"
)

// recording passes takes on and keeps a copy of the last batch. fails says which
// of them it answers with an error instead.
type recording struct {
	store.Store
	takes []store.Take
	calls int
	fails func(t *store.Take) bool
}

var errDown = &store.Error{Op: "take", Store: "test", Reason: store.Unavailable}

func (r *recording) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	r.calls++
	r.takes = append(r.takes[:0], takes...)
	r.Store.Take(ctx, takes, results)
	for i := range takes {
		if r.fails != nil && r.fails(&takes[i]) {
			results[i] = store.Result{Err: errDown}
		}
	}
}

func memory(t *testing.T) *memstore.Store {
	t.Helper()
	buckets, err := memstore.New(memstore.Options{Now: func() limit.Micros { return limit.MicrosOf(noon) }})
	if err != nil {
		t.Fatal(err)
	}
	return buckets
}

const oneOfEachMode = `
domain: d
match: leaf
descriptors:
- {always: true, name: all, consistency: local, local_share: whole, rate_limit: &l {unit: minute, requests_per_unit: 100}}
- {key: plain, rate_limit: *l}
- {key: large, rate_limit: {unit: minute, requests_per_unit: 100000}}
- {key: exact, consistency: exact, hot_keys: coalesce, remember_denials: true, rate_limit: *l}
- {key: leased, consistency: leased, lease_ttl: 2s, rate_limit: *l}
- {key: synced, consistency: synced, sync_interval: 1s, rate_limit: *l}
- {key: hot, name: hot, hot_keys: lease, rate_limit: *l}
- {key: spread, sub_buckets: 8, rate_limit: *l}
- {key: asks, remember_denials: false, rate_limit: *l}
`

func TestD1ToD6TakesSayTheModeOfTheirRule(t *testing.T) {
	seen := &recording{Store: memory(t)}
	b := newBench(t, oneOfEachMode, headgate.Options{Store: seen})
	for descriptor, want := range map[string]*store.Mode{
		"plain:x":  {Rule: "d.plain"},
		"large:x":  {Rule: "d.large", AutoLease: true},
		"exact:x":  {Rule: "d.exact"},
		"leased:x": {Rule: "d.leased", Consistency: store.Leased, LeaseTTL: 2 * time.Second},
		"synced:x": {Rule: "d.synced", Consistency: store.Synced, SyncInterval: time.Second},
		"hot:x":    {Rule: "hot", AutoLease: true},
		"spread:x": {Rule: "d.spread", SubBuckets: 8},
		"asks:x":   {Rule: "d.asks", AskAlways: true},
	} {
		want.Main = true
		b.check(on(descriptor))
		if len(seen.takes) != 2 {
			t.Fatalf("%s: %d takes, want one and the always rule's", descriptor, len(seen.takes))
		}
		if all := seen.takes[0].Mode; all == nil || *all != (store.Mode{Rule: "all", Main: true, Consistency: store.Local, Whole: true}) {
			t.Errorf("the always rule's mode is %+v", all)
		}
		if got := seen.takes[1].Mode; got == nil || *got != *want {
			t.Errorf("%s: mode is %+v, want %+v", descriptor, got, want)
		}
	}
}

// Of a rule the takes on main limits say so, unless these only watch.
func TestModesSayWhichTakesAreMain(t *testing.T) {
	const yaml = `
domain: d
match: path
descriptors:
- key: user
  rate_limit: {unit: minute, requests_per_unit: 101}
  secondary_limits: [{unit: hour, requests_per_unit: 102}]
  concurrency: {limit: 103}
  ban: {after: 104, within: 1m, for: 1h}
  candidate:
    rate_limit: {unit: minute, requests_per_unit: 105}
    %s
`
	for whose, want := range map[string]int64{"": 101, "percent: 100": 0} {
		seen := &recording{}
		b := newBench(t, fmt.Sprintf(yaml, whose), headgate.Options{Store: seen})
		b.check(on("user:a"))
		if len(seen.takes) != 5 {
			t.Fatalf("%q: %d takes, want 5", whose, len(seen.takes))
		}
		for _, take := range seen.takes {
			if main := take.Limit.Quota == want; take.Mode.Main != main || take.Mode.Rule != "d.user" {
				t.Errorf("%q: the limit of %d has mode %+v", whose, take.Limit.Quota, take.Mode)
			}
		}
	}
}

func TestModesAreSwappedWithTheRules(t *testing.T) {
	const file = "domain: d\ndescriptors:\n- {key: other, rate_limit: &l {unit: minute, requests_per_unit: 9}}\n- {key: k, MODE rate_limit: *l}\n"
	seen := &recording{Store: memory(t)}
	b := newBench(t, "", headgate.Options{Store: seen})
	for _, want := range []store.Consistency{store.Leased, store.Exact, store.Synced} {
		b.limiter.SetRules(load(t, strings.Replace(file, "MODE", "consistency: "+want.String()+",", 1)))
		b.check(on("k:x"))
		got := store.Exact
		if mode := seen.takes[0].Mode; mode != nil {
			got = mode.Consistency
		}
		if got != want {
			t.Errorf("consistency is %v, want %v", got, want)
		}
	}
}

func TestTheBoundsOfModesAreThoseOfStores(t *testing.T) {
	for name, pair := range map[string][2]time.Duration{
		"default sync interval": {rules.DefaultSyncInterval, store.DefaultSyncInterval},
		"least sync interval":   {rules.MinSyncInterval, store.MinSyncInterval},
		"most sync interval":    {rules.MaxSyncInterval, store.MaxSyncInterval},
		"default lease ttl":     {rules.DefaultLeaseTTL, store.DefaultLeaseTTL},
		"least lease ttl":       {rules.MinLeaseTTL, store.MinLeaseTTL},
		"most lease ttl":        {rules.MaxLeaseTTL, store.MaxLeaseTTL},
		"most sub-buckets":      {rules.MaxSubBuckets, store.MaxSubBuckets},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s is %v in rules and %v in stores", name, pair[0], pair[1])
		}
	}
}

// skipping answers every take but the first as a store does that remembers the
// first one's denial.
type skipping struct{ store.Store }

func (skipping) Take(_ context.Context, takes []store.Take, results []store.Result) {
	results[0].Decision = limit.Decision{Limit: 5, RetryAfter: time.Second}
	for i := range takes[1:] {
		results[i+1] = store.Result{Skipped: true, Decision: limit.Decision{Allowed: true, Limit: 5}}
	}
}

func TestD5SkippedLimitsHaveNoCountsAndDoNotSpeak(t *testing.T) {
	b := newBench(t, orders, headgate.Options{Store: skipping{}})
	r := b.check(on("api_key:k,op:write"))
	if r.Allowed || len(r.Verdicts) != 2 {
		t.Fatalf("allowed=%v with %d verdicts, want a denial with 2", r.Allowed, len(r.Verdicts))
	}
	first, second := &r.Verdicts[0], &r.Verdicts[1]
	if first.By == verdict.BySkipping || !first.Counted() || second.By != verdict.BySkipping || second.Counted() || second.OverLimit() {
		t.Errorf("verdicts are %+v and %+v", first, second)
	}
	if r.Speaker() != first || r.Degraded() != store.NoReason {
		t.Errorf("%+v speaks, degraded %q", r.Speaker(), r.Degraded())
	}
	// The mark does not stay in the memory that is used again.
	b = newBench(t, orders, headgate.Options{})
	for _, v := range b.check(on("api_key:k,op:write")).Verdicts {
		if v.By == verdict.BySkipping || !v.Counted() {
			t.Errorf("verdict is %+v", v)
		}
	}
}

// reserving denies as a store does whose reserve for times without its home is used.
type reserving struct{ store.Store }

func (reserving) Take(_ context.Context, _ []store.Take, results []store.Result) {
	for i := range results {
		results[i] = store.Result{Basis: store.OnReserve, Decision: limit.Decision{Limit: 5, RetryAfter: time.Second}}
	}
}

// A denial by a reserve says so to those who watch, and is one of the store for all others.
func TestDenialsByAReserve(t *testing.T) {
	b := newBench(t, orders, headgate.Options{Store: reserving{}})
	r := b.check(on("api_key:k,op:write"))
	for i := range r.Verdicts {
		if v := &r.Verdicts[i]; v.By != verdict.ByReserve || !v.Counted() || !v.TookPart() || v.Outcome() != verdict.Denied {
			t.Errorf("%+v", v)
		}
	}
	if r.Allowed || r.Degraded() != store.NoReason || r.Outcome() != verdict.Denied {
		t.Errorf("%+v", r)
	}
}

// A skipped limit says less than one with counts, and less than a degraded one.
func TestSkippedRanksLast(t *testing.T) {
	five := limit.Must(limit.PerMinute(5))
	skipped := headgate.Verdict{Limit: five, By: verdict.BySkipping, Decision: limit.Decision{Allowed: true}}
	for name, other := range map[string]headgate.Verdict{
		"counts":   {Limit: five, Decision: limit.Decision{Allowed: true, Remaining: 3}},
		"shadow":   {Limit: five, Effect: verdict.RuleShadow, Decision: limit.Decision{Allowed: true, Remaining: 3}},
		"degraded": {Limit: five, By: verdict.ByFailureMode, Degraded: store.Timeout, Decision: limit.Decision{Allowed: true}},
		"local":    {Limit: five, Degraded: store.Timeout, By: verdict.ByLocalShare, Decision: limit.Decision{Allowed: true, Remaining: 3}},
	} {
		for _, list := range [][]headgate.Verdict{{skipped, other}, {other, skipped}} {
			r := headgate.Response{Allowed: true, Verdicts: list}
			if got := r.SpeakerFor(0); got.By == verdict.BySkipping {
				t.Errorf("%s: the skipped one speaks", name)
			}
		}
	}
}

const localRules = `
domain: d
match: path
descriptors:
- key: own
  failure_mode: local
  rate_limit: {unit: minute, requests_per_unit: 2}
- key: open
  failure_mode: open_unbounded
  rate_limit: {unit: minute, requests_per_unit: 2}
- key: closed
  failure_mode: closed
  rate_limit: {unit: minute, requests_per_unit: 2}
- key: a
  failure_mode: local
  rate_limit: {unit: minute, requests_per_unit: 5}
  descriptors:
  - key: b
    failure_mode: local
    rate_limit: {unit: minute, requests_per_unit: 2}
`

func always(*store.Take) bool { return true }

//promise:away-local
func TestE1FailureModeLocalAsksTheFallback(t *testing.T) {
	down := &recording{Store: memory(t), fails: always}
	own := &recording{Store: memory(t)}
	b := newBench(t, localRules, headgate.Options{Store: down, Fallback: own})
	for i, want := range []bool{true, true, false} {
		r := b.check(on("own:x"))
		v := r.Speaker()
		if r.Allowed != want || v.Degraded != store.Unavailable || v.By != verdict.ByLocalShare || v.Guessed() || !v.Counted() || v.Decision.Limit != 2 {
			t.Errorf("hit %d: allowed=%v by %+v, want %v", i+1, r.Allowed, v, want)
		}
		if want && v.Decision.Remaining != int64(1-i) || !want && v.Decision.RetryAfter <= 0 {
			t.Errorf("hit %d has counts %+v", i+1, v.Decision)
		}
	}
	own.calls = 0
	if r := b.check(on("open:x")); !r.Allowed || !r.Speaker().Guessed() || r.Speaker().Counted() {
		t.Errorf("open: %+v", r.Speaker())
	}
	if r := b.check(on("closed:x")); r.Allowed || !r.Speaker().Guessed() {
		t.Errorf("closed: %+v", r.Speaker())
	}
	if own.calls != 0 {
		t.Errorf("the fallback was asked %d times for rules that do not fail locally", own.calls)
	}
	down.fails = nil
	if r := b.check(on("own:y")); !r.Allowed || r.Degraded() != store.NoReason || own.calls != 0 {
		t.Errorf("healed: allowed=%v degraded=%q, the fallback was asked %d times", r.Allowed, r.Degraded(), own.calls)
	}
}

func TestFallbackGetsOnlyWhatFailedInOrderAndGroups(t *testing.T) {
	isOwn := func(t *store.Take) bool { return t.Limit.Quota == 2 }
	down := &recording{Store: memory(t), fails: isOwn}
	own := &recording{Store: memory(t)}
	b := newBench(t, localRules, headgate.Options{Store: down, Fallback: own})
	r := b.check(on("a:x,b:y"), on("own:z"))
	if len(down.takes) != 3 || len(own.takes) != 2 {
		t.Fatalf("the store was asked %d takes and the fallback %d, want 3 and 2", len(down.takes), len(own.takes))
	}
	if !slices.EqualFunc(own.takes, down.takes[1:], sameTake) || own.takes[0].Group == 0 {
		t.Errorf("the fallback got %+v, want %+v", own.takes, down.takes[1:])
	}
	for i, want := range []bool{false, true, true} {
		if v := &r.Verdicts[i]; (v.By == verdict.ByLocalShare) != want || !v.Counted() || (v.Degraded != store.NoReason) != want {
			t.Errorf("verdict %d is %+v, want local %v", i, v, want)
		}
	}
	// All or nothing holds among what the fallback decides.
	b.check(on("own:z"))
	if r := b.check(on("a:x,b:y"), on("own:z")); r.Allowed {
		t.Fatal("the third own:z passed")
	}
	if v := b.check(func() headgate.Descriptor { d := on("a:x,b:y"); d.Hits = 0; return d }()).Verdicts[1]; v.Decision.Remaining != 1 {
		t.Errorf("a denied request left b %d, want 1: charged by the first alone", v.Decision.Remaining)
	}
}

// halfDown is a store in two parts, of which one may be away: the one with the
// limits of two. Parts decide their takes of a group without each other.
type halfDown struct {
	store.Store
	down bool
}

func (h *halfDown) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	for i := range takes {
		results[i] = store.Result{Err: errDown}
	}
	var rest []store.Take
	for _, take := range takes {
		if !h.down || take.Limit.Quota != 2 {
			rest = append(rest, take)
		}
	}
	some := make([]store.Result, len(rest))
	h.Store.Take(ctx, rest, some)
	for i := range takes {
		if !h.down || takes[i].Limit.Quota != 2 {
			results[i], some = some[0], some[1:]
		}
	}
}

// A request that is denied because one of its limits could not be decided gives
// back what the others were charged; one that passes all the same does not.
func TestDeniedWithoutTheStoreBurnsNothing(t *testing.T) {
	buckets := &halfDown{Store: memory(t)}
	b := newBench(t, `
domain: d
match: path
descriptors:
- {key: day, rate_limit: {unit: day, requests_per_unit: 10}}
- {key: billed, rate_limit: {unit: day, requests_per_unit: 10, count_denied: true, algorithm: fixed_window}}
- {key: open, failure_mode: open_unbounded, rate_limit: {unit: second, requests_per_unit: 2}}
- {key: closed, failure_mode: closed, rate_limit: {unit: second, requests_per_unit: 2}}
- {key: own, failure_mode: local, rate_limit: {unit: second, requests_per_unit: 2}}
- {key: bounded, rate_limit: {unit: second, requests_per_unit: 2}}
`, headgate.Options{Store: buckets, Fallback: memory(t)})
	used := func(descriptor string) int64 {
		t.Helper()
		peek := on(descriptor)
		peek.Hits = 0
		d := b.check(peek).Verdicts[0].Decision
		return d.Limit - d.Remaining
	}
	for _, c := range []struct {
		other  string
		passes int64 // of five, before the second is over
	}{{"open:x", 5}, {"closed:x", 0}, {"own:x", 2}, {"bounded:x", 2}} {
		day := "day:" + c.other[:2]
		buckets.down = true
		passed := int64(0)
		for range 5 {
			if b.check(on(day), on(c.other)).Allowed {
				passed++
			}
		}
		buckets.down = false
		if got := used(day); passed != c.passes || got != passed {
			t.Errorf("%s: %d passed and %d are charged, want %d", c.other, passed, got, c.passes)
		}
	}
	buckets.down = true
	b.check(on("billed:x"), on("closed:x"))
	if buckets.down = false; used("billed:x") != 1 {
		t.Error("a limit that counts denied hits was given one back")
	}
	// Where the store has denied one itself nothing was charged.
	for range 10 {
		b.check(on("day:full"))
	}
	b.check(on("day:y"))
	buckets.down = true
	if r := b.check(on("day:full"), on("day:y"), on("closed:y")); r.Allowed {
		t.Fatal("passes")
	}
	if buckets.down = false; used("day:y") != 1 || used("day:full") != 10 {
		t.Errorf("%d and %d are charged, want 1 and 10", used("day:y"), used("day:full"))
	}
}

func sameTake(a, b store.Take) bool {
	return a.Group == b.Group && a.Limit == b.Limit && a.Hits == b.Hits && a.Op == b.Op && string(a.Key) == string(b.Key)
}

func TestRefundsAndResetsGoToTheFallbackToo(t *testing.T) {
	b := newBench(t, localRules, headgate.Options{Store: &recording{Store: memory(t), fails: always}, Fallback: memory(t)})
	b.check(on("own:x"))
	b.check(on("own:x"))
	back := on("own:x")
	back.Op = store.Refund
	if r := b.check(back); !r.Allowed || r.Speaker().Decision.Remaining != 1 {
		t.Errorf("refund: %+v", r.Speaker())
	}
	back.Op = store.Reset
	if r := b.check(back); !r.Allowed || r.Speaker().Decision.Remaining != 2 {
		t.Errorf("reset: %+v", r.Speaker())
	}
}

type panicking struct{ store.Store }

func (panicking) Take(context.Context, []store.Take, []store.Result) { panic("bug") }

func TestFailureModeLocalWithoutUsableFallbackIsOpen(t *testing.T) {
	for name, fallback := range map[string]store.Store{
		"none": nil, "fails too": &recording{Store: memory(t), fails: always}, "panics": panicking{},
	} {
		b := newBench(t, localRules, headgate.Options{Store: &recording{Store: memory(t), fails: always}, Fallback: fallback})
		for range 3 {
			r := b.check(on("own:x"))
			if v := r.Speaker(); !r.Allowed || v.By.Local() || !v.Guessed() || v.Degraded != store.Unavailable {
				t.Errorf("%s: allowed=%v by %+v", name, r.Allowed, v)
			}
		}
		if got, want := b.limiter.LacksFallback(), fallback == nil; got != want {
			t.Errorf("%s: LacksFallback is %v", name, got)
		}
	}
	b := newBench(t, orders, headgate.Options{})
	if b.limiter.LacksFallback() {
		t.Error("a fallback is missed though no rule fails locally")
	}
	b.limiter.SetRules(load(t, localRules))
	if !b.limiter.LacksFallback() {
		t.Error("no fallback is missed though a rule fails locally")
	}
}

// A panic of the store is a failure like any other.
func TestE3PanicOfTheStoreFailsLocally(t *testing.T) {
	b := newBench(t, localRules, headgate.Options{Store: panicking{}, Fallback: memory(t)})
	r := b.check(on("own:x"))
	if v := r.Speaker(); !r.Allowed || v.By != verdict.ByLocalShare || v.Degraded != store.Internal || v.Decision.Remaining != 1 {
		t.Errorf("allowed=%v by %+v", r.Allowed, v)
	}
}
