package headgate_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/repeat"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/verdict"
)

// swapping is a memory of answers that loses what then says.
type swapping struct {
	store.Swapper
	loses func(s *store.Swap) bool
	fails func() *store.Error
}

func (s *swapping) Swap(ctx context.Context, swaps []store.Swap, answers []store.Swapped) {
	for i := range swaps {
		switch {
		case s.fails != nil && s.fails() != nil:
			answers[i] = store.Swapped{Err: s.fails()}
		case s.loses != nil && s.loses(&swaps[i]):
			answers[i] = store.Swapped{Err: &store.Error{Op: "swap", Store: "test", Reason: store.Timeout}}
		default:
			s.Swapper.Swap(ctx, swaps[i:i+1], answers[i:i+1])
		}
	}
}

// A node that dies between the charge and the note of the answer leaves a claim. Whoever
// repeats the check waits a moment, is told what would be decided, and is charged nothing;
// whoever comes then is told the same.
//
//promise:id-node-dies
func TestF2NodeDiesBeforeItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		buckets := shared(t)
		dying := &swapping{Swapper: buckets, loses: func(s *store.Swap) bool { return len(s.Old) > 0 }}
		dead := newBench(t, onceRules, headgate.Options{Store: buckets, Answers: dying})
		other := newBench(t, onceRules, headgate.Options{Store: buckets})
		dead.once("1", on("user:u"))
		start := time.Now()
		r := other.once("1", on("user:u"))
		if took := time.Since(start); !r.Allowed || took < 200*time.Millisecond || took > 300*time.Millisecond {
			t.Errorf("%+v after %v", r, took)
		}
		for range 3 {
			if again := other.once("1", on("user:u")); !again.Allowed {
				t.Errorf("again: %+v", again)
			}
		}
		if left := other.remaining("user:u"); left != 9 {
			t.Errorf("%d left, want 9", left)
		}
		if got := other.limiter.CheckIDs(); got != (repeat.Counts{Abandoned: 1, Repeated: 3}) {
			t.Errorf("%+v", got)
		}
		if got := dead.limiter.CheckIDs(); got.Forgotten != 1 {
			t.Errorf("%+v", got)
		}
		// Half of the time of a caller who has little is left for the answer.
		dead.once("2", on("user:u"))
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		responses := make([]headgate.Response, 1)
		req := headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{on("user:u")}}
		if err := other.limiter.CheckOnce(ctx, []headgate.Request{req}, []string{"2"}, responses); err != nil || responses[0].Degraded() != store.NoReason || ctx.Err() != nil {
			t.Errorf("%v, %+v", err, responses[0])
		}
	})
}

// A repeat that comes while the first one is being decided waits for its answer; when its
// caller goes, it is answered by failure mode, and charged nothing.
//
//promise:id-several-at-once
func TestF2RepeatWaitsForTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		buckets := shared(t)
		gate := make(chan struct{})
		slow := &gatedStore{Store: buckets, gate: gate}
		first := newBench(t, onceRules, headgate.Options{Store: slow, Answers: buckets})
		other := newBench(t, onceRules, headgate.Options{Store: buckets})
		// Its caller goes away while it is decided: it is decided all the same.
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan int64)
		go func() {
			responses := make([]headgate.Response, 1)
			req := headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{on("user:u")}}
			_ = first.limiter.CheckOnce(ctx, []headgate.Request{req}, []string{"1"}, responses)
			done <- responses[0].Speaker().Decision.Remaining
		}()
		synctest.Wait()
		cancel()
		gone, leave := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer leave()
		<-gone.Done()
		responses := make([]headgate.Response, 1)
		req := headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{on("user:u")}}
		if err := other.limiter.CheckOnce(gone, []headgate.Request{req}, []string{"1"}, responses); err != nil || !responses[0].Allowed {
			t.Errorf("%v, %+v", err, responses[0])
		}
		repeated := make(chan *headgate.Response)
		go func() { repeated <- other.once("1", on("user:u")) }()
		synctest.Wait() // until it waits
		close(gate)
		if left := <-done; left != 9 {
			t.Errorf("the first has %d left", left)
		}
		if r := <-repeated; r.Speaker().Decision.Remaining != 9 || r.Degraded() != store.NoReason {
			t.Errorf("%+v", r)
		}
		if left := other.remaining("user:u"); left != 9 {
			t.Errorf("%d left, want 9", left)
		}
	})
}

// gatedStore decides when gate is closed, unless its caller goes before.
type gatedStore struct {
	store.Store
	gate chan struct{}
}

func (s *gatedStore) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	select {
	case <-s.gate:
		s.Store.Take(ctx, takes, results)
	case <-ctx.Done():
		for i := range results {
			results[i] = store.Result{Err: &store.Error{Op: "take", Store: "test", Reason: store.Timeout, Err: ctx.Err()}}
		}
	}
}

// Where the store does not say who decides, nothing is asked or charged: failure modes
// answer, and the check is decided once the store is back. Where it has no room for an id, the
// check is decided.
//
//promise:id-store-away
func TestF2AnswersAway(t *testing.T) {
	buckets := shared(t)
	reason := store.Timeout
	away := &swapping{Swapper: buckets, fails: func() *store.Error {
		if reason == store.NoReason {
			return nil
		}
		return &store.Error{Op: "swap", Store: "test", Reason: reason}
	}}
	b := newBench(t, onceRules, headgate.Options{Store: buckets, Answers: away})
	if r := b.once("1", on("user:u")); !r.Allowed || r.Degraded() != store.Timeout {
		t.Errorf("open: %+v", r)
	}
	if r := b.once("1", on("closed:u")); r.Allowed || r.Degraded() != store.Timeout {
		t.Errorf("closed: %+v", r)
	}
	reason = store.BreakerOpen
	if r := b.once("1", on("user:u")); !r.Allowed || r.Degraded() != store.BreakerOpen {
		t.Errorf("open: %+v", r)
	}
	if user, closed := b.remaining("user:u"), b.remaining("closed:u"); user != 10 || closed != 10 {
		t.Errorf("%d and %d left, want 10", user, closed)
	}
	reason = store.Full
	for left := int64(9); left >= 8; left-- {
		if r := b.once("1", on("user:u")); r.Degraded() != store.NoReason || r.Speaker().Decision.Remaining != left {
			t.Errorf("full: %+v", r.Verdicts)
		}
	}
	reason = store.NoReason
	for range 2 { // the store is back: the first is decided, the second repeats it
		if r := b.once("1", on("user:u")); r.Degraded() != store.NoReason || r.Speaker().Decision.Remaining != 7 {
			t.Errorf("back: %+v", r.Verdicts)
		}
	}
	if got := b.limiter.CheckIDs(); got != (repeat.Counts{First: 1, Repeated: 1, Undecided: 3, Forgotten: 2}) {
		t.Errorf("%+v", got)
	}
	none := newBench(t, onceRules, headgate.Options{Store: struct{ store.Store }{buckets}})
	req := []headgate.Request{{Domain: "d", Descriptors: []headgate.Descriptor{on("user:u")}}}
	if err := none.limiter.CheckOnce(t.Context(), req, []string{"1"}, make([]headgate.Response, 1)); !errors.Is(err, repeat.ErrNoStore) {
		t.Errorf("a store that keeps nothing: %v", err)
	}
	if err := none.limiter.CheckOnce(t.Context(), req, []string{""}, make([]headgate.Response, 1)); err != nil {
		t.Errorf("without an id: %v", err)
	}
}

// A degraded answer that let pass is repeated, and not charged when the store is back; one
// that denied is not the last word.
//
//promise:id-degraded-passed id-degraded-denied
func TestF2DegradedAnswers(t *testing.T) {
	buckets := shared(t)
	down := true
	failed := &recording{Store: buckets, fails: func(*store.Take) bool { return down }}
	b := newBench(t, onceRules, headgate.Options{Store: struct{ store.Store }{&unreliable{Store: failed.Store, fails: func() bool { return down }}}, Answers: buckets})
	if r := b.once("1", on("user:u")); !r.Allowed || r.Degraded() == store.NoReason {
		t.Fatalf("%+v", r)
	}
	if r := b.once("1", on("closed:u")); r.Allowed {
		t.Fatalf("%+v", r)
	}
	down = false
	if r := b.once("1", on("user:u")); !r.Allowed || r.Degraded() != store.Timeout {
		t.Errorf("open, again: %+v", r)
	}
	if r := b.once("1", on("closed:u")); !r.Allowed || r.Degraded() != store.NoReason {
		t.Errorf("closed, again: %+v", r)
	}
	if user, closed := b.remaining("user:u"), b.remaining("closed:u"); user != 10 || closed != 9 {
		t.Errorf("%d and %d left, want 10 and 9", user, closed)
	}
}

// What memory has no room for is decided, and not remembered.
//
//promise:id-no-room
func TestF2MemoryIsFull(t *testing.T) {
	buckets, err := memstore.New(memstore.Options{MaxBytes: memstore.MinMaxBytes})
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, onceRules, headgate.Options{Store: buckets})
	for i := range 2000 {
		b.once(string(rune('a'+i)), on("none:u"))
	}
	before := b.limiter.CheckIDs().Forgotten
	if before == 0 {
		t.Fatal("memory is not full: the test is about nothing")
	}
	if r := b.once("full", on("user:u")); !r.Allowed || b.remaining("user:u") != 9 || b.limiter.CheckIDs().Forgotten != before+1 {
		t.Errorf("%+v, %+v", r, b.limiter.CheckIDs())
	}
	if r := b.once("a", on("none:u")); !r.Allowed || b.limiter.CheckIDs().Repeated != 1 {
		t.Errorf("the first one is forgotten: %+v", b.limiter.CheckIDs())
	}
}

// What passes by the share of this node, because the store does not say whether an id is
// taken, is nothing that is to be charged later: it may have been charged.
//
//promise:id-store-away
func TestF2UndecidedIsNotReconciled(t *testing.T) {
	buckets, errs := shared(t), []error{}
	away := &swapping{Swapper: buckets, fails: func() *store.Error {
		return &store.Error{Op: "swap", Store: "test", Reason: store.BreakerOpen}
	}}
	b := newBench(t, strings.Replace(onceRules, "failure_mode: closed", "failure_mode: local", 1), headgate.Options{
		Store: buckets, Answers: away, Fallback: memory(t),
		OnPassed: func(_ *store.Take, err error) { errs = append(errs, err) },
	})
	if r := b.once("1", on("closed:u")); !r.Allowed || r.Speaker().By != verdict.ByLocalShare {
		t.Errorf("%+v", r.Verdicts)
	}
	if len(errs) != 1 || store.ReasonOf(errs[0]) != store.BreakerOpen || !store.MayCount(errs[0]) {
		t.Errorf("told of %q, want one that may have been counted", errs)
	}
}

// turning is a memory of answers in which, after the first look, another check has the id.
type turning struct {
	store.Swapper
	looks int
}

func (s *turning) Swap(ctx context.Context, swaps []store.Swap, answers []store.Swapped) {
	s.Swapper.Swap(ctx, swaps, answers)
	if s.looks++; s.looks > 1 {
		other := repeat.AppendClaim(nil, repeat.FingerprintOf([]byte("another check")))
		answers[0] = store.Swapped{Found: other, Left: time.Minute}
	}
}

// The check that is waited for may be given up, and another one take its id.
func TestF2IDIsTakenWhileItIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		buckets := shared(t)
		dead := newBench(t, onceRules, headgate.Options{Store: buckets, Answers: &swapping{
			Swapper: buckets, loses: func(s *store.Swap) bool { return len(s.Old) > 0 },
		}})
		dead.once("1", on("user:u"))
		other := newBench(t, onceRules, headgate.Options{Store: buckets, Answers: &turning{Swapper: buckets}})
		req := []headgate.Request{{Domain: "d", Descriptors: []headgate.Descriptor{on("user:u")}}}
		if err := other.limiter.CheckOnce(t.Context(), req, []string{"1"}, make([]headgate.Response, 1)); !errors.Is(err, repeat.ErrConflict) {
			t.Errorf("%v", err)
		}
	})
}
