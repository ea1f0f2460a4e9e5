package headgate_test

import (
	"context"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/repeat"
	"github.com/headgate/headgate/store"
)

// heeding is a memory of answers that, as one over a network, does nothing for who is gone.
type heeding struct{ store.Swapper }

func (h heeding) Swap(ctx context.Context, swaps []store.Swap, answers []store.Swapped) {
	if ctx.Err() == nil {
		h.Swapper.Swap(ctx, swaps, answers)
		return
	}
	for i := range answers {
		answers[i] = store.Swapped{Err: &store.Error{Op: "swap", Store: "test", Reason: store.Timeout, Err: ctx.Err()}}
	}
}

// leaving is a store whose callers go away while it decides.
type leaving struct {
	store.Store
	leave func()
}

func (l leaving) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	l.leave()
	l.Store.Take(ctx, takes, results)
}

// A caller that goes away while its check is decided finds the answer when it comes again: it is
// remembered all the same.
//
//promise:id-caller-gone
func TestF2AnswerIsKeptForWhoIsGone(t *testing.T) {
	buckets := shared(t)
	ctx, leave := context.WithCancel(t.Context())
	b := newBench(t, onceRules, headgate.Options{Store: leaving{buckets, leave}, Answers: heeding{buckets}})
	responses := make([]headgate.Response, 1)
	req := headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{on("user:u")}}
	if err := b.limiter.CheckOnce(ctx, []headgate.Request{req}, []string{"1"}, responses); err != nil || ctx.Err() == nil {
		t.Fatal(err, ctx.Err())
	}
	if again := b.once("1", on("user:u")); again.Speaker().Decision.Remaining != 9 || again.Degraded() != store.NoReason {
		t.Errorf("%+v", again)
	}
	if got := b.limiter.CheckIDs(); got != (repeat.Counts{First: 1, Repeated: 1}) {
		t.Errorf("%+v", got)
	}
}

// An answer is remembered for as long as the door says.
//
//promise:id-lifetime
func TestF2AnswersLastAsTheDoorSays(t *testing.T) {
	b := onceBench(t, headgate.Options{})
	door := b.limiter.Door(headgate.DoorOptions{Rights: headgate.Rights{Check: true}, AnswersLast: 10 * time.Minute})
	for _, step := range []struct {
		after time.Duration
		left  int64
	}{{0, 9}, {10*time.Minute - time.Microsecond, 9}, {time.Microsecond, 8}} {
		b.now = b.now.Add(step.after)
		responses := make([]headgate.Response, 1)
		req := headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{on("user:u")}}
		if err := door.CheckOnce(t.Context(), []headgate.Request{req}, []string{"1"}, responses); err != nil {
			t.Fatal(err)
		}
		if left := responses[0].Speaker().Decision.Remaining; left != step.left {
			t.Errorf("after %v more: %d left, want %d", step.after, left, step.left)
		}
	}
}
