package headgate_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/verdict"
)

// noon is a whole minute, hour and half day.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// bench is a limiter over a memory store, both at a time that the test sets.
type bench struct {
	t       testing.TB
	now     time.Time
	limiter *headgate.Limiter
	store   store.Store // of limiter
}

func newBench(t testing.TB, yaml string, o headgate.Options) *bench {
	t.Helper()
	b := &bench{t: t, now: noon}
	buckets, err := memstore.New(memstore.Options{Now: func() limit.Micros { return limit.MicrosOf(b.now) }})
	if err != nil {
		t.Fatal(err)
	}
	if o.Store == nil {
		o.Store = buckets
	} else if seen, ok := o.Store.(*recording); ok && seen.Store == nil {
		seen.Store = buckets
	}
	o.Now = func() time.Time { return b.now }
	if yaml != "" {
		o.Rules = load(t, yaml)
	}
	limiter, err := headgate.New(o)
	if err != nil {
		t.Fatal(err)
	}
	b.limiter, b.store = limiter, o.Store
	return b
}

func load(t testing.TB, yaml string) *rules.Set {
	t.Helper()
	return testrules.Load(t, yaml)
}

// on makes a descriptor of one hit from its text form.
func on(text string) headgate.Descriptor {
	entries, err := descriptor.Parse(text)
	if err != nil {
		panic(err)
	}
	return headgate.Descriptor{Entries: entries, Hits: 1}
}

func (b *bench) check(descriptors ...headgate.Descriptor) *headgate.Response {
	b.t.Helper()
	requests := []headgate.Request{{Domain: "d", Descriptors: descriptors}}
	responses := make([]headgate.Response, 1)
	if err := b.limiter.Check(context.Background(), requests, responses); err != nil {
		b.t.Fatal(err)
	}
	return &responses[0]
}

// remaining peeks at what is left.
func (b *bench) remaining(text string) int64 {
	b.t.Helper()
	d := on(text)
	d.Hits = 0
	v := b.check(d).SpeakerFor(0)
	if v == nil {
		b.t.Fatalf("%s: no limit matched", text)
	}
	return v.Decision.Remaining
}

const orders = `
domain: d
match: path
descriptors:
- key: api_key
  rate_limit: {unit: minute, requests_per_unit: 5, name: per_key}
  descriptors:
  - key: op
    value: write
    rate_limit: {unit: minute, requests_per_unit: 2, name: writes}
`

func TestB3PathChargesEveryLimitOnTheWay(t *testing.T) {
	b := newBench(t, orders, headgate.Options{})
	r := b.check(on("api_key:k,op:write"))
	if !r.Allowed || len(r.Verdicts) != 2 {
		t.Fatalf("allowed=%v with %d verdicts, want true with 2", r.Allowed, len(r.Verdicts))
	}
	if v := r.SpeakerFor(0); v.Name != "writes" || v.Decision.Remaining != 1 {
		t.Errorf("decisive is %q with %d left, want writes with 1", v.Name, v.Decision.Remaining)
	}
	if got := b.remaining("api_key:k"); got != 4 {
		t.Errorf("the key has %d left, want 4", got)
	}
}

//promise:several-limits
func TestB4DeniedRequestBurnsNothing(t *testing.T) {
	b := newBench(t, orders, headgate.Options{})
	for range 2 {
		b.check(on("api_key:k,op:write"))
	}
	if r := b.check(on("api_key:k,op:write")); r.Allowed || r.Speaker().Name != "writes" {
		t.Fatalf("allowed=%v by %q, want a denial by writes", r.Allowed, r.Speaker().Name)
	}
	if got := b.remaining("api_key:k"); got != 3 {
		t.Errorf("the denied write left the key %d, want 3", got)
	}
}

func TestB4IndependentChargesTheOthers(t *testing.T) {
	b := newBench(t, "consumption: independent"+orders, headgate.Options{})
	for range 3 {
		b.check(on("api_key:k,op:write"))
	}
	if got := b.remaining("api_key:k"); got != 2 {
		t.Errorf("the key has %d left, want 2: the denied write counts there", got)
	}
}

func TestSharedHeadOfPathIsChargedOnce(t *testing.T) {
	b := newBench(t, orders, headgate.Options{})
	b.check(on("api_key:k"), on("api_key:k,op:write"))
	if got := b.remaining("api_key:k"); got != 4 {
		t.Errorf("the key has %d left, want 4: one request is one hit", got)
	}
}

func TestEqualDescriptorsAreChargedEachAtTheLeaf(t *testing.T) {
	b := newBench(t, "domain: d\ndescriptors:\n- {key: a, rate_limit: {unit: minute, requests_per_unit: 5}}\n", headgate.Options{})
	b.check(on("a:1"), on("a:1"))
	if got := b.remaining("a:1"); got != 3 {
		t.Errorf("%d left, want 3", got)
	}
}

func TestB6ShadowCountsAndAllows(t *testing.T) {
	const yaml = "domain: d\ndescriptors:\n- {key: a, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}\n"
	b := newBench(t, yaml, headgate.Options{})
	b.check(on("a:1"))
	r := b.check(on("a:1"))
	if v := r.SpeakerFor(0); !r.Allowed || v.Decision.Allowed || v.Enforced() {
		t.Errorf("allowed=%v, verdict %+v; want allowed by a shadow verdict that denies", r.Allowed, v)
	}
	if r.Speaker() != nil {
		t.Error("a shadow verdict speaks for the request")
	}
}

func TestB6GlobalShadow(t *testing.T) {
	b := newBench(t, strings.ReplaceAll(orders, "5", "0"), headgate.Options{Shadow: true})
	if r := b.check(on("api_key:k")); !r.Allowed || r.Verdicts[0].Decision.Allowed {
		t.Errorf("allowed=%v, verdict allowed=%v; want an allowed request and a denying verdict", r.Allowed, r.Verdicts[0].Decision.Allowed)
	}
}

func TestA9SeveralLimitsOnOneDescriptor(t *testing.T) {
	b := newBench(t, `
domain: d
descriptors:
- key: a
  limits:
  - {unit: second, requests_per_unit: 2, algorithm: fixed_window}
  - {unit: day, requests_per_unit: 3, algorithm: fixed_window}
`, headgate.Options{})
	b.check(on("a:1"))
	b.check(on("a:1"))
	r := b.check(on("a:1"))
	if v := r.Speaker(); r.Allowed || v.Decision.RetryAfter != time.Second {
		t.Fatalf("third: allowed=%v retry %v, want the second's limit to deny for 1s", r.Allowed, v.Decision.RetryAfter)
	}
	b.now = b.now.Add(time.Second)
	if r := b.check(on("a:1")); !r.Allowed {
		t.Fatal("third a second later was denied: the denial burnt the day")
	}
	if v := b.check(on("a:1")).Speaker(); v.Limit.Quota != 3 || v.Decision.RetryAfter != 12*time.Hour-time.Second {
		t.Errorf("fourth: denied by %d for %v, want the day's limit to speak", v.Limit.Quota, v.Decision.RetryAfter)
	}
}

func TestA10RefundResetPeek(t *testing.T) {
	b := newBench(t, orders, headgate.Options{})
	b.check(on("api_key:k"))
	b.check(on("api_key:k"))
	refund := on("api_key:k")
	refund.Op = store.Refund
	if r := b.check(refund); !r.Allowed || r.Verdicts[0].Decision.Remaining != 4 {
		t.Errorf("after a refund: %+v, want 4 left", r.Verdicts[0].Decision)
	}
	reset := on("api_key:k")
	reset.Op = store.Reset
	if r := b.check(reset); r.Verdicts[0].Decision.Remaining != 5 {
		t.Errorf("after a reset: %+v, want 5 left", r.Verdicts[0].Decision)
	}
}

func TestRefundIsAllowedWhereTheLimitIsStillOver(t *testing.T) {
	b := newBench(t, "domain: d\ndescriptors:\n- {key: a, rate_limit: {unit: minute, requests_per_unit: 1, count_denied: true}}\n", headgate.Options{})
	for range 4 {
		b.check(on("a:1"))
	}
	refund := on("a:1")
	refund.Op = store.Refund
	if r := b.check(refund); !r.Allowed || r.Verdicts[0].Decision.RetryAfter != 0 {
		t.Errorf("allowed=%v, %+v; want an allowed refund", r.Allowed, r.Verdicts[0].Decision)
	}
	if b.check(on("a:1")).Allowed {
		t.Error("three hits of one allowed are still there, but a fifth passed")
	}
}

func TestResetForgetsTheInnermostLimitAlone(t *testing.T) {
	b := newBench(t, orders+`- {always: true, name: global, rate_limit: {unit: minute, requests_per_unit: 9}}
`, headgate.Options{})
	b.check(on("api_key:k,op:write"))
	reset := on("api_key:k,op:write")
	reset.Op = store.Reset
	if r := b.check(reset); !r.Allowed {
		t.Error("the reset was denied")
	}
	left := map[string]int64{}
	peek := on("api_key:k,op:write")
	peek.Hits = 0
	for _, v := range b.check(peek).Verdicts {
		left[v.Rule.ID] = v.Decision.Remaining
	}
	if left["writes"] != 2 || left["per_key"] != 4 || left["global"] != 8 {
		t.Errorf("left after the reset: %v, want 2 writes, and 4 per key and 8 in all as before", left)
	}
}

func TestRefundAndHitOnOneSharedHead(t *testing.T) {
	b := newBench(t, orders, headgate.Options{})
	for range 3 {
		b.check(on("api_key:k"))
	}
	refund := on("api_key:k,op:write")
	refund.Op = store.Refund
	refund.Hits = 2
	b.check(on("api_key:k"), refund)
	if got := b.remaining("api_key:k"); got != 3 {
		t.Errorf("%d left, want 3: three hits and one more, two given back", got)
	}
}

func TestAlwaysRuleCountsEveryRequestOfTheDomain(t *testing.T) {
	b := newBench(t, `
domain: d
descriptors:
- {always: true, name: global, rate_limit: {unit: second, requests_per_unit: 2}}
- {key: a, rate_limit: {unit: second, requests_per_unit: 100}}
`, headgate.Options{})
	b.check(on("a:1"))
	b.check(on("unknown:x"))
	if r := b.check(on("a:2")); r.Allowed || r.SpeakerFor(0).Rule.ID != "global" {
		t.Errorf("allowed=%v, want a denial by the aggregate", r.Allowed)
	}
}

func TestCostFromEntry(t *testing.T) {
	b := newBench(t, `
domain: d
descriptors:
- {key: user, cost: {from: entry, name: tokens, max: 40}, rate_limit: {unit: minute, requests_per_unit: 100}}
`, headgate.Options{})
	for _, c := range []struct {
		tokens string
		left   int64
	}{{"30", 70}, {"junk", 69}, {"1000000000000000000000", 29}, {"-5", 28}, {"0", 28}} {
		b.check(on("user:u,tokens:" + c.tokens))
		if got := b.remaining("user:u"); got != c.left {
			t.Fatalf("after %s tokens %d left, want %d", c.tokens, got, c.left)
		}
	}
}

func TestReplacesAndUnlimited(t *testing.T) {
	b := newBench(t, `
domain: d
descriptors:
- {key: a, rate_limit: {unit: minute, requests_per_unit: 0, name: strict}}
- {key: vip, rate_limit: {unlimited: true, replaces: [{name: strict}]}}
`, headgate.Options{})
	if b.check(on("a:1")).Allowed {
		t.Error("a alone passed a quota of 0")
	}
	r := b.check(on("a:1"), on("vip:1"))
	if !r.Allowed || r.Verdicts[0].By != verdict.ByReplacement || r.Verdicts[1].Limit != nil {
		t.Errorf("with vip: allowed=%v verdicts %+v, want the limit replaced", r.Allowed, r.Verdicts)
	}
}

func TestQuotaModeDeniesOnlyWhenAllAreOver(t *testing.T) {
	b := newBench(t, `
domain: d
descriptors:
- {key: a, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
- {key: b, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 2}}
`, headgate.Options{})
	for i, want := range []bool{true, true, false} {
		r := b.check(on("a:1"), on("b:1"))
		if r.Allowed != want {
			t.Errorf("request %d: allowed=%v, want %v", i, r.Allowed, want)
		}
		if v := r.Speaker(); v.OverLimit() == want {
			t.Errorf("request %d: allowed=%v, but the decisive verdict is %+v", i, want, v.Decision)
		}
	}
}

func TestValidity(t *testing.T) {
	b := newBench(t, `
domain: d
descriptors:
- {key: a, valid_from: 2026-01-01T12:00:00Z, valid_until: 2026-01-01T13:00:00Z, rate_limit: {unit: minute, requests_per_unit: 0}}
`, headgate.Options{})
	for _, c := range []struct {
		at      time.Time
		allowed bool
	}{{noon.Add(-1), true}, {noon, false}, {noon.Add(time.Hour - 1), false}, {noon.Add(time.Hour), true}} {
		b.now = c.at
		if r := b.check(on("a:1")); r.Allowed != c.allowed {
			t.Errorf("at %v: allowed=%v, want %v", c.at, r.Allowed, c.allowed)
		}
	}
}

func TestCallerLimit(t *testing.T) {
	b := newBench(t, orders, headgate.Options{})
	own := on("api_key:k")
	own.Limit = limit.Must(limit.PerMinute(1))
	b.check(own)
	if r := b.check(own); r.Allowed {
		t.Error("the caller's limit of 1 let a second hit pass")
	}
	if got := b.remaining("api_key:k"); got != 5 {
		t.Errorf("the rule's bucket has %d left, want 5: the two must not share", got)
	}
	elsewhere := []headgate.Request{{Domain: "nowhere", Descriptors: []headgate.Descriptor{own}}}
	responses := make([]headgate.Response, 1)
	if err := b.limiter.Check(t.Context(), elsewhere, responses); err != nil {
		t.Fatal(err)
	}
	if r := responses[0]; !r.Allowed || r.DomainKnown || len(r.Verdicts) != 0 {
		t.Errorf("in an unknown domain: %+v, want no limit", r)
	}
}

func TestBatchIsDecidedInOrder(t *testing.T) {
	b := newBench(t, orders, headgate.Options{})
	requests := make([]headgate.Request, 7)
	for i := range requests {
		requests[i] = headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{on("api_key:k")}}
	}
	responses := make([]headgate.Response, len(requests))
	if err := b.limiter.Check(t.Context(), requests, responses); err != nil {
		t.Fatal(err)
	}
	for i := range responses {
		if want := i < 5; responses[i].Allowed != want {
			t.Errorf("request %d: allowed=%v, want %v", i, responses[i].Allowed, want)
		}
	}
}

func TestMalformedRequestsChangeNothing(t *testing.T) {
	b := newBench(t, orders, headgate.Options{})
	good := on("api_key:k")
	with := func(change func(*headgate.Descriptor)) headgate.Descriptor {
		d := on("api_key:k")
		change(&d)
		return d
	}
	for name, c := range map[string]struct {
		req  headgate.Request
		want error
	}{
		"no domain":      {headgate.Request{Descriptors: []headgate.Descriptor{good}}, headgate.ErrNoDomain},
		"no descriptors": {headgate.Request{Domain: "d"}, headgate.ErrNoDescriptors},
		"too many":       {headgate.Request{Domain: "d", Descriptors: make([]headgate.Descriptor, 10_000)}, headgate.ErrDescriptor},
		"empty key":      {headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{{Entries: []descriptor.Entry{{Value: "x"}}}}}, headgate.ErrDescriptor},
		"negative hits":  {headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{with(func(d *headgate.Descriptor) { d.Hits = -1 })}}, headgate.ErrHits},
		"too many hits":  {headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{with(func(d *headgate.Descriptor) { d.Hits = math.MaxInt64 })}}, headgate.ErrHits},
		"unknown op":     {headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{with(func(d *headgate.Descriptor) { d.Op = 9 })}}, headgate.ErrDescriptor},
	} {
		requests := []headgate.Request{{Domain: "d", Descriptors: []headgate.Descriptor{good}}, c.req}
		if err := b.limiter.Check(t.Context(), requests, make([]headgate.Response, 2)); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", name, err, c.want)
		}
	}
	if got := b.remaining("api_key:k"); got != 5 {
		t.Errorf("malformed batches charged the good request beside them: %d left, want 5", got)
	}
}

// failing is a store that cannot decide: it answers every take with err, or
// panics when err is nil.
type failing struct{ err error }

func (f failing) Take(_ context.Context, _ []store.Take, results []store.Result) {
	if f.err == nil {
		panic("a bug")
	}
	for i := range results {
		results[i] = store.Result{Err: f.err}
	}
}

func (failing) Close() error { return nil }

//promise:bounded-latency degraded-is-marked
func TestE1FailureMode(t *testing.T) {
	const yaml = `
domain: d
descriptors:
- {key: open, rate_limit: {unit: minute, requests_per_unit: 5}}
- {key: closed, failure_mode: closed, rate_limit: {unit: minute, requests_per_unit: 5}}
- {key: sensitive, sensitive: true, rate_limit: {unit: minute, requests_per_unit: 5}}
`
	for reason, broken := range map[store.Reason]failing{
		store.Timeout:  {&store.Error{Op: "take", Store: "redis", Reason: store.Timeout}},
		store.Internal: {},
	} {
		b := newBench(t, yaml, headgate.Options{Store: broken})
		for key, allowed := range map[string]bool{"open": true, "closed": false, "sensitive": false} {
			r := b.check(on(key + ":1"))
			v := r.SpeakerFor(0)
			if r.Allowed != allowed || r.Degraded() != reason || v.Counted() || v.Decision.Limit != 5 {
				t.Errorf("%s, %s: allowed=%v degraded=%q %+v", key, reason, r.Allowed, r.Degraded(), v.Decision)
			}
			if !allowed && v.Decision.RetryAfter <= 0 {
				t.Errorf("%s, %s: denied without a retry-after", key, reason)
			}
		}
		refund := on("closed:1")
		refund.Op = store.Refund
		if r := b.check(refund); !r.Allowed {
			t.Errorf("%s: a refund was denied", reason)
		}
	}
}

func TestPanicWhileMatchingIsAnswered(t *testing.T) {
	b := newBench(t, "", headgate.Options{Rules: load(t, strings.ReplaceAll(orders, "match: path", `match: path
`)+"  valid_from: 2020-01-01T00:00:00Z\n")})
	limiter, err := headgate.New(headgate.Options{
		Store: failing{}, Rules: b.limiter.Rules(), Now: func() time.Time { panic("a bug") },
	})
	if err != nil {
		t.Fatal(err)
	}
	b.limiter = limiter
	if r := b.check(on("api_key:k")); !r.Allowed || r.Degraded() != store.Internal {
		t.Errorf("allowed=%v degraded=%q, want allowed and internal", r.Allowed, r.Degraded())
	}
}

func TestSpeakerOrder(t *testing.T) {
	verdict := func(name string, d limit.Decision) headgate.Verdict {
		return headgate.Verdict{Name: name, Limit: limit.Must(limit.PerMinute(1)), Decision: d}
	}
	r := headgate.Response{Verdicts: []headgate.Verdict{
		verdict("roomy", limit.Decision{Allowed: true, Remaining: 9}),
		verdict("tight", limit.Decision{Allowed: true, Remaining: 1, ResetAfter: time.Second}),
		verdict("tight and long", limit.Decision{Allowed: true, Remaining: 1, ResetAfter: time.Minute}),
		verdict("short", limit.Decision{RetryAfter: time.Second}),
		verdict("long", limit.Decision{RetryAfter: time.Hour}),
		verdict("never", limit.Decision{Never: true}),
	}}
	for _, want := range []string{"never", "long", "short", "tight and long", "tight", "roomy"} {
		v := r.Speaker()
		if v.Name != want {
			t.Fatalf("%q speaks, want %q", v.Name, want)
		}
		for i := range r.Verdicts {
			if r.Verdicts[i].Name == want {
				r.Verdicts = append(r.Verdicts[:i], r.Verdicts[i+1:]...)
				break
			}
		}
	}
}

func TestSetRulesKeepsCounters(t *testing.T) {
	b := newBench(t, orders, headgate.Options{})
	b.check(on("api_key:k"))
	b.limiter.SetRules(load(t, strings.Replace(orders, "requests_per_unit: 5", "requests_per_unit: 3", 1)))
	if got := b.remaining("api_key:k"); got != 2 {
		t.Errorf("%d left after the limit went from 5 to 3 with one used, want 2", got)
	}
}

func TestA6WaitShapes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "domain: d\ndescriptors:\n- {key: a, rate_limit: {unit: second, requests_per_unit: 10, algorithm: leaky_queue, max_delay: 100ms}}\n", headgate.Options{MaxWaiting: 1})
		req := headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{on("a:1")}}
		var resp headgate.Response
		wait := func(ctx context.Context) error { b.now = time.Now(); return b.limiter.Wait(ctx, &req, &resp) }

		start := time.Now()
		if err := wait(t.Context()); err != nil || !resp.Allowed || time.Since(start) != 0 {
			t.Fatalf("first: %v after %v", err, time.Since(start))
		}
		if err := wait(t.Context()); err != nil || !resp.Allowed || time.Since(start) != 100*time.Millisecond {
			t.Fatalf("second: %v after %v, want 100ms", err, time.Since(start))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := wait(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("third gave %v, want canceled", err)
		}
		if err := wait(t.Context()); err != nil || !resp.Allowed || time.Since(start) != 200*time.Millisecond {
			t.Fatalf("fourth: %v allowed=%v after %v; the one that gave up must not hold its place", err, resp.Allowed, time.Since(start))
		}
	})
}

func TestKeyed(t *testing.T) {
	buckets, err := memstore.New(memstore.Options{Now: func() limit.Micros { return limit.MicrosOf(noon) }})
	if err != nil {
		t.Fatal(err)
	}
	k := headgate.NewKeyed(buckets, limit.Must(limit.PerMinute(2)))
	ctx := t.Context()
	for i, want := range []bool{true, true, false} {
		if d := k.Take(ctx, "user", 1); d.Allowed != want {
			t.Errorf("take %d: %+v", i, d)
		}
	}
	if d := k.Refund(ctx, "user", 1); d.Remaining != 1 {
		t.Errorf("refund: %+v", d)
	}
	if d := k.Reset(ctx, "user"); d.Remaining != 2 {
		t.Errorf("reset: %+v", d)
	}
	if d := k.Take(ctx, "user", -1); d.Allowed || !d.Never {
		t.Errorf("negative hits: %+v", d)
	}
	broken := headgate.NewKeyed(failing{&store.Error{Reason: store.Timeout}}, limit.Must(limit.PerMinute(2)))
	if d := broken.Take(ctx, "user", 1); !d.Allowed || d.Degraded != store.Timeout {
		t.Errorf("open: %+v", d)
	}
	if d := broken.FailClosed().Take(ctx, "user", 1); d.Allowed {
		t.Errorf("closed: %+v", d)
	}
}

// countingObserver counts decisions by outcome.
type countingObserver map[string]int

func (c countingObserver) Decided(_ *headgate.Request, resp *headgate.Response, _ time.Duration) {
	c[fmt.Sprint(resp.Allowed)]++
}

func TestObserverSeesEveryDecision(t *testing.T) {
	seen := countingObserver{}
	b := newBench(t, orders, headgate.Options{Observer: seen})
	for range 7 {
		b.check(on("api_key:k"))
	}
	if seen["true"] != 5 || seen["false"] != 2 {
		t.Errorf("observed %v, want 5 allowed and 2 denied", seen)
	}
}
