package headgate_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/repeat"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/verdict"
)

const onceRules = `
domain: d
descriptors:
- {key: user, name: users, rate_limit: {unit: hour, requests_per_unit: 10, algorithm: fixed_window}}
- {key: bucket, rate_limit: {unit: second, requests_per_unit: 1, algorithm: token_bucket}}
- {key: busy, concurrency: {limit: 2, timeout: 1m}, rate_limit: {unit: hour, requests_per_unit: 100}}
- {key: banned, rate_limit: {unit: hour, requests_per_unit: 1}, ban: {after: 2, within: 1h, for: 2h}}
- {key: tried, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1, algorithm: fixed_window}}
- {key: queue, rate_limit: {unit: second, requests_per_unit: 1, algorithm: leaky_queue, max_delay: 10s}}
- {key: counted, rate_limit: {count_denied: true, unit: hour, requests_per_unit: 2, algorithm: fixed_window}}
- {key: closed, failure_mode: closed, rate_limit: {unit: hour, requests_per_unit: 10, algorithm: fixed_window}}
`

// onceBench is a bench whose time moves.
func onceBench(t *testing.T, o headgate.Options) *bench { return newBench(t, onceRules, o) }

// once decides one request by an id.
func (b *bench) once(id string, descriptors ...headgate.Descriptor) *headgate.Response {
	b.t.Helper()
	return b.onceBy(id, headgate.Request{Domain: "d", Descriptors: descriptors})
}

func (b *bench) onceBy(id string, req headgate.Request) *headgate.Response {
	b.t.Helper()
	responses := make([]headgate.Response, 1)
	if err := b.limiter.CheckOnce(context.Background(), []headgate.Request{req}, []string{id}, responses); err != nil {
		b.t.Fatal(err)
	}
	return &responses[0]
}

// asOp gives d an operation.
func asOp(d headgate.Descriptor, op store.Op) headgate.Descriptor {
	d.Op = op
	return d
}

// A repeat gets the first answer, whatever has happened since, and is charged nothing.
//
//promise:id-repeat
func TestF2RepeatGetsTheFirstAnswer(t *testing.T) {
	b := onceBench(t, headgate.Options{})
	first := b.once("1", some("user:u", 4))
	if v := first.Speaker(); !first.Allowed || v.Decision.Remaining != 6 || v.Rule.ID != "users" {
		t.Fatalf("%+v", first)
	}
	if !b.check(some("user:u", 6)).Allowed {
		t.Fatal("there are six left")
	}
	again := b.once("1", some("user:u", 4))
	if !reflect.DeepEqual(again, first) {
		t.Errorf("again: %+v\nfirst: %+v", again, first)
	}
	b.now = b.now.Add(20 * time.Second)
	again = b.once("1", some("user:u", 4))
	want := first.Verdicts[0].Decision
	want.ResetAfter -= 20 * time.Second
	if got := again.Verdicts[0].Decision; got != want {
		t.Errorf("20 s later: %+v, want %+v", got, want)
	}
	b.now = b.now.Add(40 * time.Second)
	if late := b.once("1", some("user:u", 4)); late.Allowed {
		t.Error("what was over is remembered")
	}
	if left := b.remaining("user:u"); left != 0 {
		t.Errorf("%d left", left)
	}
	if got := b.limiter.CheckIDs(); got != (repeat.Counts{First: 2, Repeated: 2}) {
		t.Errorf("%+v", got)
	}
}

// A denial is repeated until the request would pass, and no longer.
//
//promise:id-denied
func TestF2RepeatedDenial(t *testing.T) {
	b := onceBench(t, headgate.Options{})
	b.check(on("bucket:u"))
	first := b.once("1", on("bucket:u"))
	if first.Allowed || first.Speaker().Decision.RetryAfter != time.Second {
		t.Fatalf("%+v", first.Verdicts)
	}
	reset := asOp(on("bucket:u"), store.Reset)
	reset.Hits = 0
	b.check(reset)
	b.now = b.now.Add(999_999 * time.Microsecond)
	again := b.once("1", on("bucket:u"))
	if again.Allowed || again.Speaker().Decision.RetryAfter != time.Microsecond {
		t.Errorf("%+v", again.Verdicts)
	}
	b.now = b.now.Add(time.Microsecond)
	if later := b.once("1", on("bucket:u")); !later.Allowed || later.Speaker().Decision.Remaining != 0 {
		t.Errorf("%+v", later.Verdicts)
	}
	if got := b.once("never", some("bucket:u", 2)); got.Allowed || !got.Speaker().Decision.Never {
		t.Errorf("%+v", got)
	}
	if got := b.once("never", some("bucket:u", 2)); got.Allowed || !got.Speaker().Decision.Never {
		t.Errorf("again: %+v", got)
	}
}

// An id is one of the domain and the entries; what else differs is refused, and leaves the
// first one alone.
func TestF2IDsBelongToAChecks(t *testing.T) {
	b := onceBench(t, headgate.Options{})
	b.once("1", on("user:u"))
	for name, other := range map[string]headgate.Request{
		"hits":       {Domain: "d", Descriptors: []headgate.Descriptor{some("user:u", 2)}},
		"operation":  {Domain: "d", Descriptors: []headgate.Descriptor{asOp(on("user:u"), store.Refund)}},
		"attributes": {Domain: "d", Descriptors: []headgate.Descriptor{on("user:u")}, Attributes: on("content_length:5").Entries},
		"limit":      {Domain: "d", Descriptors: []headgate.Descriptor{{Entries: on("user:u").Entries, Hits: 1, Limit: limit.Must(limit.PerHour(3))}}},
	} {
		// In a call of its own and beside the first one, which is then refused too.
		for _, requests := range [][]headgate.Request{{other}, {{Domain: "d", Descriptors: []headgate.Descriptor{on("user:v")}}, other}, {{Domain: "d", Descriptors: []headgate.Descriptor{on("user:u")}}, other}} {
			ids := []string{"1", "1"}[:len(requests)]
			if err := b.limiter.CheckOnce(t.Context(), requests, ids, make([]headgate.Response, len(requests))); !errors.Is(err, repeat.ErrConflict) {
				t.Errorf("%s, %d requests: %v", name, len(requests), err)
			}
		}
	}
	if left := b.remaining("user:u"); left != 9 {
		t.Errorf("%d left, want 9", left)
	}
	// Nobody is held up by what was refused: its claim is gone.
	if r := b.once("1", on("user:v")); r.Speaker().Decision.Remaining != 9 {
		t.Errorf("the same id for another user: %+v", r.Verdicts)
	}
	if got := b.limiter.CheckIDs().Abandoned; got != 0 {
		t.Errorf("%d were abandoned", got)
	}
	for _, id := range []string{"\x00", " ", "1 ", strings.Repeat("x", repeat.MaxID)} {
		if r := b.once(id, on("user:w")); !r.Allowed {
			t.Errorf("%q: denied", id)
		}
	}
	if left := b.remaining("user:w"); left != 6 {
		t.Errorf("%d left, want 6", left)
	}
	long := []string{strings.Repeat("x", repeat.MaxID+1)}
	if err := b.limiter.CheckOnce(t.Context(), []headgate.Request{{Domain: "d", Descriptors: []headgate.Descriptor{on("user:w")}}}, long, make([]headgate.Response, 1)); !errors.Is(err, repeat.ErrID) {
		t.Errorf("a long id: %v", err)
	}
}

// In one call, some with ids and some without: each is answered in its place, and one that
// is there twice is decided once.
func TestF2IDsInBatches(t *testing.T) {
	b := onceBench(t, headgate.Options{})
	b.once("old", on("user:u"))
	var requests []headgate.Request
	for _, d := range []headgate.Descriptor{on("user:u"), on("user:u"), on("user:u"), on("user:v"), on("user:u"), on("user:u")} {
		requests = append(requests, headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{d}})
	}
	responses := make([]headgate.Response, len(requests))
	for round, want := range [][]int64{{8, 9, 7, 9, 7, 6}, {5, 9, 7, 9, 7, 4}} {
		if err := b.limiter.CheckOnce(t.Context(), requests, []string{"", "old", "new", "new", "new", ""}, responses); err != nil {
			t.Fatal(err)
		}
		for i, want := range want {
			if got := responses[i].Speaker().Decision.Remaining; got != want {
				t.Errorf("round %d, request %d: %d left, want %d", round, i, got, want)
			}
		}
	}
	if err := b.limiter.CheckOnce(t.Context(), requests, []string{"1"}, responses); err == nil {
		t.Error("more requests than ids")
	}
	// None of the repeats is decided again.
	if err := b.limiter.CheckOnce(t.Context(), requests[1:4], []string{"old", "new", "new"}, responses[:3]); err != nil || responses[1].Speaker().Decision.Remaining != 7 {
		t.Errorf("%v, %+v", err, responses[1].Verdicts)
	}
}

// Many repeat one check at one time, on two nodes: it is charged once, and all get one
// answer.
//
//promise:id-several-at-once
func TestF2RepeatsAtOneTime(t *testing.T) {
	buckets := shared(t)
	nodes := [2]*bench{newBench(t, onceRules, headgate.Options{Store: buckets, AnswersAwaited: time.Minute}), newBench(t, onceRules, headgate.Options{Store: buckets, AnswersAwaited: time.Minute})}
	for _, id := range []string{"1", "2", "3"} {
		var all sync.WaitGroup
		var left [16]atomic.Int64
		for i := range left {
			all.Go(func() {
				responses := make([]headgate.Response, 1)
				req := headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{on("user:u")}}
				if err := nodes[i%2].limiter.CheckOnce(context.Background(), []headgate.Request{req}, []string{id}, responses); err != nil {
					t.Error(err)
					return
				}
				left[i].Store(responses[0].Speaker().Decision.Remaining)
			})
		}
		all.Wait()
		for i := range left {
			if got, want := left[i].Load(), left[0].Load(); got != want {
				t.Errorf("id %s: one has %d left, another one %d", id, got, want)
			}
		}
	}
	if left := nodes[0].remaining("user:u"); left != 7 {
		t.Errorf("%d left, want 7", left)
	}
}

// Whatever a limit is for, a repeat changes nothing and is told what was told.
//
//promise:id-every-mode
func TestF2RepeatsOfEveryKind(t *testing.T) {
	b := onceBench(t, headgate.Options{})
	t.Run("holds", func(t *testing.T) {
		hold := func(id string, h limit.Hold) *headgate.Response {
			return b.onceBy(id, headgate.Request{Domain: "d", Hold: h, Descriptors: []headgate.Descriptor{on("busy:u")}})
		}
		first := hold("1", 11)
		// The repeat has drawn another hold, and is told the first one.
		if again := hold("1", 12); first.Hold != 11 || again.Hold != 11 || again.HoldFor != time.Minute || b.free("busy:u") != 1 {
			t.Errorf("%+v, %+v, %d free", first, again, b.free("busy:u"))
		}
		b.release(11, "busy:u")
		if again := hold("1", 12); !again.Allowed || again.Hold != 11 || b.free("busy:u") != 2 {
			t.Errorf("after the release: %+v, %d free", again, b.free("busy:u"))
		}
		b.take(1, "busy:u")
		b.take(2, "busy:u")
		if denied := hold("2", 13); denied.Allowed || denied.Hold != 0 {
			t.Errorf("%+v", denied)
		}
		b.release(1, "busy:u")
		if denied := hold("2", 13); denied.Allowed {
			t.Error("a denial for want of a slot is not repeated")
		}
		b.now = b.now.Add(repeat.MaxSlotDenied)
		if later := hold("2", 13); !later.Allowed || later.Hold != 13 {
			t.Errorf("a second later: %+v", later)
		}
	})
	t.Run("bans", func(t *testing.T) {
		b.check(on("banned:u"))
		for range 5 {
			if r := b.once("1", on("banned:u")); r.Speaker().Role != rules.Main {
				t.Fatalf("a denial was counted again: %+v", r.Speaker())
			}
		}
		b.once("2", on("banned:u"))
		if r := b.once("3", on("banned:u")); r.Speaker().Role != rules.Banning {
			t.Errorf("two denials: %+v", r.Speaker())
		}
	})
	t.Run("shadow", func(t *testing.T) {
		b.check(on("tried:u"))
		for range 2 {
			if r := b.once("1", on("tried:u")); !r.Allowed || r.Outcome() != verdict.ShadowDenied {
				t.Errorf("%v", r.Outcome())
			}
		}
	})
	t.Run("refunds", func(t *testing.T) {
		b.check(some("user:refunded", 8))
		for range 3 {
			b.once("1", asOp(some("user:refunded", 5), store.Refund))
		}
		if left := b.remaining("user:refunded"); left != 7 {
			t.Errorf("%d left, want 7", left)
		}
		for range 3 {
			b.once("2", asOp(some("user:refunded", 2), store.Charge))
		}
		if left := b.remaining("user:refunded"); left != 5 {
			t.Errorf("%d left, want 5", left)
		}
	})
	t.Run("queues", func(t *testing.T) {
		b.check(on("queue:u"))
		first := b.once("1", on("queue:u"))
		b.now = b.now.Add(300 * time.Millisecond)
		if again := b.once("1", on("queue:u")); first.Delay() != time.Second || again.Delay() != 700*time.Millisecond {
			t.Errorf("delays of %v, and 300 ms later %v", first.Delay(), again.Delay())
		}
	})
	t.Run("count_denied", func(t *testing.T) {
		b.check(some("counted:u", 2))
		for range 3 {
			if b.once("1", on("counted:u")).Allowed {
				t.Error("allowed")
			}
		}
	})
	t.Run("peeks", func(t *testing.T) {
		first := b.once("1", some("user:peeked", 0))
		b.check(on("user:peeked"))
		if again := b.once("1", some("user:peeked", 0)); !reflect.DeepEqual(first, again) {
			t.Errorf("%+v", again)
		}
	})
	t.Run("nothing matches", func(t *testing.T) {
		for range 2 {
			if r := b.once("1", on("none:u")); !r.Allowed || r.Outcome() != verdict.Unmatched {
				t.Errorf("%v", r.Outcome())
			}
		}
	})
}

// Each limit is charged once also where not all are, or none, in a group.
func TestF2RepeatsOfIndependentLimits(t *testing.T) {
	b := newBench(t, `
domain: d
consumption: independent
descriptors:
- {key: wide, rate_limit: {unit: hour, requests_per_unit: 10, algorithm: fixed_window}}
- {key: narrow, rate_limit: {unit: hour, requests_per_unit: 1, algorithm: fixed_window}}
`, headgate.Options{})
	for _, id := range []string{"1", "1", "2", "2", "2"} {
		if r := b.once(id, on("wide:u"), on("narrow:u")); r.Allowed != (id == "1") {
			t.Errorf("id %s: allowed=%v", id, r.Allowed)
		}
	}
	if left := b.remaining("wide:u"); left != 8 {
		t.Errorf("%d left, want 8: a denied request is charged there too, once", left)
	}
}

// What a burst pool and a top-up have let pass is charged there once, and told so again.
func TestF2RepeatsBeyondTheQuota(t *testing.T) {
	b := newBench(t, toppedRules, headgate.Options{})
	b.limiter.SetTenants(beyond(t, toppedUp("acme", topUp("1", tenant.Default, 5))))
	b.answers("api_key:acme", "passes, tier 2/3, tier 4/5", "passes, tier 1/3, tier 3/5", "passes, tier 0/3, tier 2/5")
	var all []string
	for range 3 {
		all = append(all, answered(b.once("1", on("api_key:acme"))))
	}
	all = append(all, answered(b.once("2", on("api_key:acme"))))
	if all[0] != all[1] || all[0] != all[2] || !strings.Contains(all[0], "top_up 4/5") || !strings.Contains(all[3], "top_up 3/5") {
		t.Errorf("%q", all)
	}
}

// In every mode a repeat is charged once, though no store is asked for most of them.
//
//promise:id-every-mode
func TestF2RepeatsInEveryMode(t *testing.T) {
	buckets := shared(t)
	b := layered(t, buckets, 1, layerRules)
	l, err := headgate.New(headgate.Options{Store: b.store, Answers: buckets, Rules: b.limiter.Rules()})
	if err != nil {
		t.Fatal(err)
	}
	b.limiter = l
	for _, key := range []string{"exact", "leased", "synced", "local", "whole", "hot", "spread", "asks"} {
		for _, id := range []string{"1", "2", "3", "4", "5"} {
			for range 4 {
				if !b.once(id, some(key+":x", 10)).Allowed {
					t.Fatalf("%s: denied", key)
				}
			}
		}
		if got := b.admitted(key+":x", 80); got > 50 || got < 43 {
			t.Errorf("%s: %d of the 50 that are left are admitted", key, got)
		}
	}
}

// Rules may change in between: the answer is the first one all the same.
func TestF2RulesChangeBeforeTheRepeat(t *testing.T) {
	b := onceBench(t, headgate.Options{})
	first := b.once("1", some("user:u", 4))
	for name, yaml := range map[string]string{
		"another limit": strings.Replace(onceRules, "requests_per_unit: 10,", "requests_per_unit: 3,", 1),
		"another name":  strings.Replace(onceRules, "name: users", "name: others", 1),
		"no rule":       "domain: d\ndescriptors: []",
	} {
		b.limiter.SetRules(load(t, yaml))
		again := b.once("1", some("user:u", 4))
		v := again.Speaker()
		if !again.Allowed || v.Decision != first.Speaker().Decision || v.Limit == nil || v.Limit.Quota != 10 || (v.Rule != nil) != (name == "another limit") {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// An answer that is too long to be remembered whole is by what speaks for it.
//
//promise:id-long-answers
func TestF2LongAnswers(t *testing.T) {
	b := onceBench(t, headgate.Options{})
	var many []headgate.Descriptor
	for i := range 30 {
		many = append(many, on("user:"+strings.Repeat("u", i+1)), on("busy:"+strings.Repeat("u", i+1)))
	}
	b.check(some("user:uuu", 4))
	first := b.once("1", many...)
	again := b.once("1", many...)
	if !again.Allowed || len(first.Verdicts) < 60 || len(again.Verdicts) != 1 || again.Speaker().Decision != first.Speaker().Decision {
		t.Errorf("%d verdicts, then %d: %+v", len(first.Verdicts), len(again.Verdicts), again.Speaker())
	}
	if left := b.remaining("user:uuu"); left != 5 {
		t.Errorf("%d left", left)
	}
}

// Who lacks a right is refused before anything is claimed, and when rights are seen to be
// missing only by the rules, no claim is left.
func TestF2RightsBeforeClaims(t *testing.T) {
	b := onceBench(t, headgate.Options{})
	var refusedOf []string
	door := b.limiter.Door(headgate.DoorOptions{Name: "test", Rights: headgate.Rights{Check: true}, OnRefused: func(r *headgate.Request, _ *headgate.RightsError) {
		refusedOf = append(refusedOf, r.Origin.Front)
	}})
	for name, d := range map[string]headgate.Descriptor{
		"limit":  {Entries: on("user:u").Entries, Hits: 1, Limit: limit.Must(limit.PerHour(3))},
		"refund": asOp(on("user:v"), store.Refund),
	} {
		requests := []headgate.Request{{Domain: "d", Descriptors: []headgate.Descriptor{d}}}
		for range 2 {
			var refused *headgate.RightsError
			if err := door.CheckOnce(t.Context(), requests, []string{"1"}, make([]headgate.Response, 1)); !errors.As(err, &refused) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	// In a batch it is told which one is refused, also where another one is not decided now.
	batch := []headgate.Request{
		{Domain: "d", Descriptors: []headgate.Descriptor{on("user:v")}}, {Domain: "d", Descriptors: []headgate.Descriptor{on("user:v")}},
		{Domain: "d", Descriptors: []headgate.Descriptor{asOp(on("user:v"), store.Refund)}},
	}
	b.once("old", on("user:v"))
	var refused *headgate.RightsError
	if err := door.CheckOnce(t.Context(), batch, []string{"old", "new", "refund"}, make([]headgate.Response, 3)); !errors.As(err, &refused) || refused.Request != 2 {
		t.Errorf("a batch: %v", err)
	}
	if len(refusedOf) != 5 || refusedOf[0] != "test" {
		t.Errorf("told of %q", refusedOf)
	}
	if got := b.limiter.CheckIDs(); got != (repeat.Counts{First: 1}) {
		t.Errorf("%+v", got)
	}
	responses := make([]headgate.Response, 1)
	if err := door.CheckOnce(t.Context(), []headgate.Request{{Domain: "d", Descriptors: []headgate.Descriptor{on("user:v")}}}, []string{"1"}, responses); err != nil || !responses[0].Allowed {
		t.Errorf("%v", err)
	}
}

// Who may not give back is refused as well where another one has given back by the same id,
// and what stands beside it in a batch is not charged.
func TestF2RightsOfRepeats(t *testing.T) {
	b := onceBench(t, headgate.Options{})
	b.check(on("user:v"))
	refund := asOp(on("user:v"), store.Refund)
	b.once("refund", refund)
	door := b.limiter.Door(headgate.DoorOptions{Rights: headgate.Rights{Check: true}})
	batch := []headgate.Request{{Domain: "d", Descriptors: []headgate.Descriptor{on("user:w")}}, {Domain: "d", Descriptors: []headgate.Descriptor{refund}}}
	for i, requests := range [][]headgate.Request{batch[1:], batch} {
		ids := []string{"new", "refund"}[2-len(requests):]
		var refused *headgate.RightsError
		if err := door.CheckOnce(t.Context(), requests, ids, make([]headgate.Response, len(requests))); !errors.As(err, &refused) || refused.Request != i {
			t.Errorf("%d requests: %v", len(requests), err)
		}
	}
	if left := b.remaining("user:w"); left != 10 {
		t.Errorf("%d left of what stood beside it", left)
	}
}

// Observers are told of the first one alone; a repeat has its name.
//
//promise:id-observers
func TestF2RepeatsAndObservers(t *testing.T) {
	told := &names{}
	b := onceBench(t, headgate.Options{Recorder: &namer{}, Observer: told})
	first, again := b.once("1", on("user:u")), b.once("1", on("user:u"))
	if len(*told) != 1 || first.ID.IsZero() || first.ID != again.ID {
		t.Errorf("told of %v; %v, then %v", *told, first.ID, again.ID)
	}
}
