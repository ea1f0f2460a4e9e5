package headgate_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/verdict"
)

// by decides one request that is held by hold.
func (b *bench) by(hold limit.Hold, op store.Op, hits int64, texts ...string) *headgate.Response {
	b.t.Helper()
	req := headgate.Request{Domain: "d", Hold: hold}
	for _, text := range texts {
		d := on(text)
		d.Op, d.Hits = op, hits
		req.Descriptors = append(req.Descriptors, d)
	}
	responses := make([]headgate.Response, 1)
	if err := b.limiter.Check(context.Background(), []headgate.Request{req}, responses); err != nil {
		b.t.Fatal(err)
	}
	return &responses[0]
}

func (b *bench) take(hold limit.Hold, texts ...string) bool {
	b.t.Helper()
	return b.by(hold, store.Hit, 1, texts...).Allowed
}

func (b *bench) release(hold limit.Hold, texts ...string) {
	b.t.Helper()
	if r := b.by(hold, store.Release, 0, texts...); !r.Allowed || r.Hold != 0 {
		b.t.Fatalf("a release was answered %+v", r)
	}
}

// free returns how many slots are free.
func (b *bench) free(text string) int64 {
	b.t.Helper()
	for _, v := range b.by(0, store.Hit, 0, text).Verdicts {
		if v.Role == rules.InFlight {
			return v.Decision.Remaining
		}
	}
	b.t.Fatalf("%s has no limit on concurrency", text)
	return 0
}

const twoSlots = `
domain: d
descriptors:
- {key: user, concurrency: {limit: 2, timeout: 3s, hold: request_id}, rate_limit: {unit: hour, requests_per_unit: 100}}
`

func TestA8SlotsAreTakenAndReleased(t *testing.T) {
	b := newBench(t, twoSlots, headgate.Options{})
	for hold := limit.Hold(1); hold <= 2; hold++ {
		r := b.by(hold, store.Hit, 1, "user:u")
		if !r.Allowed || r.Hold != hold || r.HoldFor != 3*time.Second {
			t.Fatalf("holder %d: allowed=%v, holds by %d for %v", hold, r.Allowed, r.Hold, r.HoldFor)
		}
		if v := r.Speaker(); v.Role != rules.Main || v.Decision.Remaining != 100-int64(hold) {
			t.Errorf("holder %d: %v speaks with %d left, want main with %d", hold, v.Role, v.Decision.Remaining, 100-hold)
		}
	}
	r := b.by(3, store.Hit, 1, "user:u")
	if v := r.Speaker(); r.Allowed || r.Hold != 0 || v.Role != rules.InFlight || v.Decision.RetryAfter != 3*time.Second {
		t.Fatalf("a third: allowed=%v, holds by %d, %v says %+v", r.Allowed, r.Hold, v.Role, v.Decision)
	}
	if got := b.remaining("user:u"); got != 98 {
		t.Errorf("%d hits left, want 98: the third was denied, and burnt nothing", got)
	}
	if !b.take(2, "user:u") {
		t.Error("a holder that asks again is denied by its own slot")
	}
	if !b.take(4, "user:other") {
		t.Error("another user has no slot")
	}
	b.release(1, "user:u")
	b.release(1, "user:u") // once more does no harm
	if got := b.free("user:u"); got != 1 || !b.take(3, "user:u") {
		t.Errorf("%d slots are free after a release, want 1", got)
	}
}

func TestA8SlotOfADeadHolderLapsesAndARenewedOneDoesNot(t *testing.T) {
	b := newBench(t, twoSlots, headgate.Options{})
	b.take(1, "user:u")
	b.take(2, "user:u")
	b.now = b.now.Add(2 * time.Second)
	if r := b.by(2, store.Renew, 0, "user:u"); !r.Allowed || r.Hold != 2 || r.HoldFor != 3*time.Second {
		t.Fatalf("a renewal was answered %+v", r)
	}
	b.now = b.now.Add(time.Second - time.Microsecond)
	if b.take(3, "user:u") {
		t.Error("a slot came back before its timeout")
	}
	b.now = b.now.Add(time.Microsecond)
	if !b.take(3, "user:u") {
		t.Error("the slot of the dead holder did not come back")
	}
	if b.take(4, "user:u") {
		t.Error("the renewed slot was lost")
	}
}

func TestA8HoldIsNamedByAnEntry(t *testing.T) {
	b := newBench(t, twoSlots, headgate.Options{})
	for i, id := range []string{"", "a", "b", "b"} {
		text := "user:u,request_id:" + id
		r := b.by(0, store.Hit, 1, text)
		if want := limit.HoldOf(id); (r.Hold != want) == r.Allowed {
			t.Errorf("request %d, id %q: allowed=%v, holds by %d, want %d", i, id, r.Allowed, r.Hold, want)
		}
	}
	if b.take(0, "user:u,request_id:c") {
		t.Error("a third id found a slot")
	}
	b.by(0, store.Release, 0, "request_id:a,user:u")
	if got := b.free("user:u"); got != 1 {
		t.Errorf("%d slots are free after one was released by its entry, want 1", got)
	}
	// What gives hits back, such as the last call of Envoy for a stream, frees the
	// slot too.
	b.by(0, store.Refund, 1, "user:u,request_id:b")
	if got := b.free("user:u"); got != 2 {
		t.Errorf("%d slots are free after a refund, want 2", got)
	}
}

// Descriptors that share the head of a path share its slot, also when only one of
// them says by which id.
func TestSharedHeadOfPathIsHeldOnce(t *testing.T) {
	for _, texts := range [][]string{
		{"user:u,request_id:a", "user:u,op:x"}, {"user:u,op:x", "user:u,request_id:a"}, {"user:u,request_id:a", "request_id:a,user:u,op:x"},
	} {
		b := newBench(t, `
domain: d
match: path
descriptors:
- key: user
  concurrency: {limit: 1, hold: request_id}
  descriptors: [{key: op, rate_limit: {unit: minute, requests_per_unit: 9}}]
`, headgate.Options{})
		if r := b.by(0, store.Hit, 1, texts...); !r.Allowed || r.Hold != limit.HoldOf("a") || b.free("user:u") != 0 {
			t.Errorf("%q: allowed=%v, holds by %d, %d slots are free", texts, r.Allowed, r.Hold, b.free("user:u"))
		}
		b.by(0, store.Release, 0, texts...)
		if got := b.free("user:u"); got != 1 {
			t.Errorf("%q: %d slots are free after the release, want 1", texts, got)
		}
	}
}

func TestWhoWillNotReleaseHoldsNothing(t *testing.T) {
	b := newBench(t, twoSlots, headgate.Options{})
	for range 5 {
		if r := b.by(0, store.Hit, 1, "user:u"); !r.Allowed || r.Hold != 0 {
			t.Fatalf("allowed=%v, holds by %d", r.Allowed, r.Hold)
		}
		if r := b.by(9, store.Hit, 0, "user:u"); !r.Allowed || r.Hold != 0 {
			t.Fatalf("a peek: allowed=%v, holds by %d", r.Allowed, r.Hold)
		}
	}
	if got := b.free("user:u"); got != 2 {
		t.Errorf("%d slots are free, want 2", got)
	}
	b.take(1, "user:u")
	b.take(2, "user:u")
	if b.take(0, "user:u") {
		t.Error("passes though no slot is free")
	}
}

func TestRenewAndReleaseTouchNothingElse(t *testing.T) {
	seen := &recording{Store: memory(t)}
	b := newBench(t, orders+`- {key: user, concurrency: 2, rate_limit: {unit: minute, requests_per_unit: 5}, ban: {after: 2, within: 1m, for: 1m}}
- {key: free, rate_limit: {unlimited: true}}
`, headgate.Options{Store: seen})
	for _, op := range []store.Op{store.Renew, store.Release} {
		if r := b.by(7, op, 5, "api_key:k,op:write", "user:u", "free:x"); !r.Allowed || len(seen.takes) != 1 || seen.takes[0].Op != op || seen.takes[0].Hold != 7 || len(r.Verdicts) != 1 {
			t.Errorf("op %d: takes %+v, verdicts %+v", op, seen.takes, r.Verdicts)
		}
		seen.takes, seen.calls = nil, 0
		if r := b.by(0, op, 5, "user:u"); !r.Allowed || seen.calls != 0 || len(r.Verdicts) != 0 {
			t.Errorf("op %d of nobody: takes %+v", op, seen.takes)
		}
	}
}

// A request that is denied holds nothing, though its limits are charged each on
// its own.
func TestDeniedRequestHoldsNothing(t *testing.T) {
	for _, consumption := range []string{"independent", "all_or_nothing"} {
		seen := &recording{Store: memory(t)}
		b := newBench(t, "consumption: "+consumption+`
domain: d
descriptors:
- {key: user, concurrency: 2}
- {key: shadow, shadow_mode: true, concurrency: 2}
- {key: strict, rate_limit: {unit: minute, requests_per_unit: 0}}
`, headgate.Options{Store: seen})
		for hold := limit.Hold(1); hold < 5; hold++ {
			if r := b.by(hold, store.Hit, 1, "user:u", "strict:x", "shadow:u"); r.Allowed || r.Hold != 0 {
				t.Fatalf("%s: allowed=%v, holds by %d", consumption, r.Allowed, r.Hold)
			}
		}
		if user, shadow := b.free("user:u"), b.free("shadow:u"); user != 2 || shadow != 2 {
			t.Errorf("%s: %d and %d slots are free, want 2 and 2", consumption, user, shadow)
		}
		calls := seen.calls
		if r := b.by(9, store.Hit, 1, "user:u", "shadow:u"); !r.Allowed || r.Hold != 9 || seen.calls != calls+1 {
			t.Errorf("%s: allowed=%v, holds by %d, in %d calls", consumption, r.Allowed, r.Hold, seen.calls-calls)
		}
	}
}

func TestSlotsInShadowModeAreCountedAndNotEnforced(t *testing.T) {
	b := newBench(t, strings.Replace(twoSlots, "key: user,", "key: user, shadow_mode: true,", 1), headgate.Options{})
	b.take(1, "user:u")
	b.take(2, "user:u")
	r := b.by(3, store.Hit, 1, "user:u")
	if v := &r.Verdicts[1]; !r.Allowed || r.Hold != 0 || v.Role != rules.InFlight || v.Decision.Allowed || v.Enforced() {
		t.Errorf("a third: allowed=%v, holds by %d, %+v", r.Allowed, r.Hold, v)
	}
}

// What a store cannot decide follows the failure mode of its rule. It may have taken
// a slot all the same, because the answer alone may have been lost: whoever passes
// releases it, and of who is denied nothing stays.
func TestSlotsWithoutTheStore(t *testing.T) {
	seen := &recording{Store: memory(t), fails: func(t *store.Take) bool { return t.Limit.Quota == 3 }}
	own := memory(t)
	b := newBench(t, `
domain: d
descriptors:
- {key: user, concurrency: 2}
- {key: open, concurrency: 3}
- {key: closed, failure_mode: closed, concurrency: 3}
- {key: local, failure_mode: local, concurrency: 3}
- {key: strict, rate_limit: {unit: minute, requests_per_unit: 0}}
`, headgate.Options{Store: seen, Fallback: own})
	if r := b.by(1, store.Hit, 1, "open:x"); !r.Allowed || r.Hold != 1 || r.HoldFor != time.Minute || r.Degraded() != store.Unavailable {
		t.Errorf("open: %+v", r)
	}
	if r := b.by(1, store.Renew, 0, "open:x"); r.Hold != 1 || r.Degraded() != store.Unavailable {
		t.Errorf("renewed while the store is away: %+v", r)
	}
	b.release(1, "open:x")
	// Nothing stays of what is denied because a part of the store is away.
	if r := b.by(2, store.Hit, 1, "closed:x", "user:u"); r.Allowed || r.Hold != 0 || b.free("user:u") != 2 {
		t.Errorf("closed: %+v, %d slots are free", r, b.free("user:u"))
	}
	seen.fails = nil
	if open, closed := b.free("open:x"), b.free("closed:x"); open != 3 || closed != 3 {
		t.Errorf("%d and %d slots are free when the store is back, want 3 and 3", open, closed)
	}
	seen.fails = func(t *store.Take) bool { return t.Limit.Quota == 3 }
	for hold := limit.Hold(1); hold <= 3; hold++ {
		if r := b.by(hold, store.Hit, 1, "local:x"); !r.Allowed || r.Hold != hold || r.Verdicts[0].By != verdict.ByLocalShare {
			t.Errorf("local: %+v", r)
		}
	}
	if b.take(4, "local:x") {
		t.Error("a fourth holder on a node of three")
	}
	b.release(3, "local:x")
	if r := b.by(4, store.Hit, 1, "local:x", "strict:x"); r.Allowed || b.free("local:x") != 1 {
		t.Errorf("denied by the store: %+v, %d slots of the node are free", r, b.free("local:x"))
	}
	// What was taken while the store was away is freed when it is back.
	seen.fails = nil
	b.release(1, "local:x")
	seen.fails = always
	if got := b.free("local:x"); got != 2 {
		t.Errorf("%d slots of the node are free, want 2", got)
	}
}

// A holder renews by HoldFor, so that is the shortest of all slots that it has; and a minute at
// most where its time counts over hours, which would be charged late else.
func TestHoldForIsOfTheSlotThatLapsesFirst(t *testing.T) {
	b := newBench(t, `
domain: d
descriptors:
- {key: short, concurrency: {limit: 9, timeout: 3s, hold: request_id}}
- {key: long, concurrency: {limit: 9, timeout: 1h, hold: request_id}}
- {key: hours, secondary_limits: [{name: sustained, concurrency: 2, over: 1h}]}
`, headgate.Options{})
	for hold, tt := range []struct {
		texts []string
		want  time.Duration
	}{
		{[]string{"short:u", "long:u"}, 3 * time.Second},
		{[]string{"long:u", "short:u"}, 3 * time.Second},
		{[]string{"long:u"}, time.Hour},
		{[]string{"hours:u"}, time.Minute},
		{[]string{"hours:u", "short:u"}, 3 * time.Second},
		{[]string{"long:u", "hours:u"}, time.Minute},
	} {
		r := b.by(limit.Hold(hold+1), store.Hit, 1, tt.texts...)
		if !r.Allowed || r.HoldFor != tt.want {
			t.Errorf("%v: allowed=%v, it holds for %v, want %v", tt.texts, r.Allowed, r.HoldFor, tt.want)
		}
	}
}

func TestSustainedConcurrencyCountsTime(t *testing.T) {
	b := newBench(t, `
domain: d
descriptors:
- {key: user, secondary_limits: [{name: sustained, concurrency: 2, over: 10s}]}
`, headgate.Options{})
	r := b.by(1, store.Hit, 40, "user:u") // its cost says nothing about its time
	if !r.Allowed || r.Hold != 1 || r.HoldFor != 10*time.Second || r.Verdicts[0].Hits != 1 {
		t.Fatalf("admitted: %+v", r)
	}
	if r := b.by(1, store.Renew, 12_000, "user:u"); !r.Allowed || r.Hold != 1 || r.Verdicts[0].Decision.Remaining != 7_999 {
		t.Errorf("renewed: %+v", r)
	}
	if r := b.by(1, store.Release, 50_000, "user:u"); !r.Allowed || r.Hold != 0 {
		t.Errorf("released: %+v", r)
	}
	if r := b.by(2, store.Hit, 1, "user:u"); r.Allowed || r.Hold != 0 || r.Speaker().Role != rules.Sustained {
		t.Errorf("after 62 of 20 s: %+v", r)
	}
	b.now = b.now.Add(time.Minute)
	if !b.take(2, "user:u") {
		t.Error("denied when all is long ago")
	}
}

func TestTurnKeepsWhatFindsTheSlots(t *testing.T) {
	req := headgate.Request{Domain: "d", Hold: 5, Descriptors: []headgate.Descriptor{on("a:b"), on("c:d")}}
	req.Turn(store.Release, 1500*time.Microsecond)
	for _, d := range req.Descriptors {
		if d.Op != store.Release || d.Hits != 2 {
			t.Errorf("descriptor is %+v, want a release of 2 ms", d)
		}
	}
	req.Turn(store.Renew, -time.Second)
	if d := req.Descriptors[0]; d.Op != store.Renew || d.Hits != 0 || req.Hold != 5 {
		t.Errorf("descriptor is %+v, want a renewal of 0 ms by 5", d)
	}
}

func TestHoldOutOfRange(t *testing.T) {
	b := newBench(t, twoSlots, headgate.Options{})
	err := b.limiter.Check(t.Context(), []headgate.Request{{Domain: "d", Hold: limit.MaxHold + 1, Descriptors: []headgate.Descriptor{on("user:u")}}}, make([]headgate.Response, 1))
	if err == nil || !strings.Contains(err.Error(), headgate.ErrHold.Error()) {
		t.Errorf("a hold out of range: %v", err)
	}
}

// A limit that the caller names can be one on concurrency.
func TestCallerNamesALimitOnConcurrency(t *testing.T) {
	two := limit.Must(limit.Spec{Algorithm: limit.Concurrency, Quota: 2, Period: time.Minute})
	b := newBench(t, "", headgate.Options{})
	ask := func(hold limit.Hold, op store.Op) *headgate.Response {
		t.Helper()
		responses := make([]headgate.Response, 1)
		if err := b.limiter.Check(t.Context(), []headgate.Request{{
			Domain: headgate.CallerDomain, Hold: hold,
			Descriptors: []headgate.Descriptor{{Entries: []descriptor.Entry{{Key: "job", Value: "x"}}, Hits: 7, Op: op, Limit: two}},
		}}, responses); err != nil {
			t.Fatal(err)
		}
		return &responses[0]
	}
	for hold, want := range []bool{true, true, true, false} { // 0 takes none
		if r := ask(limit.Hold(hold), store.Hit); r.Allowed != want || want && r.Hold != limit.Hold(hold) {
			t.Errorf("hold %d: allowed=%v, holds by %d", hold, r.Allowed, r.Hold)
		}
	}
	if r := ask(1, store.Release); !r.Allowed || r.Verdicts[0].Decision.Remaining != 1 || r.Verdicts[0].Role != rules.InFlight {
		t.Errorf("released: %+v", r)
	}
}

// Whatever else is denied beside it, and however many ask at a time, never more
// than the limit are in flight, and in the end all slots are free.
//
//promise:more-than-rates
func TestNeverMoreThanTheLimitInFlight(t *testing.T) {
	const slots = 3
	for _, consumption := range []string{"independent", "all_or_nothing"} {
		limiter := newBench(t, "consumption: "+consumption+`
domain: d
descriptors:
- {key: user, concurrency: {limit: 3, timeout: 1h}}
- {key: gate, rate_limit: {unit: year, requests_per_unit: 400}, ban: {after: 1000000, within: 1h, for: 1h}}
`, headgate.Options{}).limiter
		var inFlight, most, passed atomic.Int64
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				responses := make([]headgate.Response, 1)
				for range 200 {
					req := headgate.Request{Domain: "d", Hold: limit.NewHold(), Descriptors: []headgate.Descriptor{on("user:u"), on("gate:x")}}
					if limiter.Check(t.Context(), []headgate.Request{req}, responses) != nil || !responses[0].Allowed {
						continue
					}
					passed.Add(1)
					for now, seen := inFlight.Add(1), most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
					}
					runtime.Gosched()
					inFlight.Add(-1)
					req.Turn(store.Release, 0)
					_ = limiter.Check(t.Context(), []headgate.Request{req}, responses)
				}
			})
		}
		wg.Wait()
		if most.Load() > slots || passed.Load() == 0 {
			t.Errorf("%s: %d in flight at one time, want %d at most; %d passed", consumption, most.Load(), slots, passed.Load())
		}
		b := bench{t: t, limiter: limiter}
		if got := b.free("user:u"); got != slots {
			t.Errorf("%s: %d slots are free in the end, want %d", consumption, got, slots)
		}
	}
}

// model is what a limit on concurrency should be.
type model struct {
	slots   int
	timeout time.Duration
	until   map[limit.Hold]time.Time
}

func (m *model) inFlight(now time.Time) int {
	for hold, until := range m.until {
		if !until.After(now) {
			delete(m.until, hold)
		}
	}
	return len(m.until)
}

// Random interleavings of holders that come, renew, go, die and come back agree
// with the model at each step, and more than the limit are in flight only by
// those who were silent for too long and came back.
func TestConcurrencyAgreesWithItsModel(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		b := newBench(t, twoSlots+"- {key: gate, rate_limit: {unit: minute, requests_per_unit: 0}}\n", headgate.Options{})
		m := model{slots: 2, timeout: 3 * time.Second, until: map[limit.Hold]time.Time{}}
		for step := range 300 {
			b.now = b.now.Add(time.Duration(random.IntN(900)) * time.Millisecond)
			hold := limit.Hold(1 + random.IntN(6))
			before := m.inFlight(b.now)
			_, has := m.until[hold]
			what := fmt.Sprintf("seed %d step %d holder %d", seed, step, hold)
			switch random.IntN(6) {
			case 0, 1, 2:
				want := has || before < m.slots
				if got := b.take(hold, "user:u"); got != want {
					t.Fatalf("%s: allowed=%v, want %v with %d in flight", what, got, want, before)
				}
				if want {
					m.until[hold] = b.now.Add(m.timeout)
				}
			case 3:
				b.by(hold, store.Renew, 0, "user:u")
				m.until[hold] = b.now.Add(m.timeout)
			case 4:
				b.release(hold, "user:u")
				delete(m.until, hold)
			case 5:
				if b.take(hold, "user:u", "gate:x") {
					t.Fatalf("%s: passed the gate", what)
				}
			}
			if got, want := b.free("user:u"), int64(max(m.slots-m.inFlight(b.now), 0)); got != want {
				t.Fatalf("%s: %d slots are free, want %d", what, got, want)
			}
		}
	}
}
