package once

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/repeat"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
)

// lasts is for how long answers are remembered here, and patience how long checks wait for one.
const (
	lasts    = time.Minute
	patience = 100 * time.Millisecond
)

// decider lets each request pass, and counts what it is asked. With an error it decides nothing.
type decider struct {
	decided, foreseen int
	err               error
}

func (d *decider) Decide(context.Context, int) error {
	d.decided++
	return d.err
}

func (d *decider) Foresee(context.Context, int) error {
	d.foreseen++
	return d.err
}

func (d *decider) Answer(_ int, f repeat.Fingerprint, most time.Duration) ([]byte, time.Duration) {
	a := repeat.Answer{Allowed: true, Lasts: most, Limits: []repeat.Limit{{Rule: "r", Decision: limit.Decision{Allowed: true, ResetAfter: time.Hour}}}}
	return a.Append(nil, f), most
}

// inMemory has test run with a Memory in which one check at a time waits, in a bubble whose time is that of
// the store.
func inMemory(t *testing.T, test func(t *testing.T, m *Memory)) {
	synctest.Test(t, func(t *testing.T) {
		kept, err := memstore.New(memstore.Options{Now: func() limit.Micros { return limit.MicrosOf(time.Now()) }})
		if err != nil {
			t.Fatal(err)
		}
		defer kept.Close()
		test(t, &Memory{
			Store: punctual{kept}, Patience: patience, Waiting: make(chan struct{}, 1),
			Panicked: func(cause any) error { return fmt.Errorf("panicked: %v", cause) },
		})
	})
}

// claimed returns a call of one check with each of the ids, request 0 with the first, that has claimed them.
func claimed(t *testing.T, m *Memory, d Decider, ids ...string) *Call {
	t.Helper()
	c := m.Begin(d, lasts)
	for i, id := range ids {
		if err := c.Add(i, []byte(id), repeat.FingerprintOf(nil)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Claim(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &c
}

// resolved is how check i stands in the end, which is no error.
func resolved(t *testing.T, c *Call, i int) Stand {
	t.Helper()
	stand, err := c.Resolve(t.Context(), i)
	if err != nil {
		t.Error(err)
	}
	return stand
}

// pass lets time go by.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	if err := sleep.For(t.Context(), d); err != nil {
		t.Error(err)
	}
}

func wantCounts(t *testing.T, m *Memory, want repeat.Counts) {
	t.Helper()
	if got := m.Counts(); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
}

// The first call decides; later ones have its answer as long as it is remembered, with times that name the
// same instants.
func TestFirstDecides(t *testing.T) {
	inMemory(t, func(t *testing.T, m *Memory) {
		d := &decider{}
		first := claimed(t, m, d, "a", "b")
		for i := range first.Checks {
			if stand := resolved(t, first, i); stand != Mine {
				t.Fatalf("check %d of the first call stands as %d", i, stand)
			}
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		first.Keep(ended) // who asked has gone, and others may come
		pass(t, 20*time.Second)
		second := claimed(t, m, d, "b")
		if stand := resolved(t, second, 0); stand != Answered {
			t.Fatalf("the second call stands as %d", stand)
		}
		if a := &second.Checks[0].Answer; !a.Allowed || a.Limits[0].Decision.ResetAfter != time.Hour-20*time.Second {
			t.Errorf("20 s later: %+v", a)
		}
		pass(t, lasts-20*time.Second)
		if stand := claimed(t, m, d, "b").Checks[0].Stand; stand != Mine {
			t.Errorf("when the answer is over: %d", stand)
		}
		wantCounts(t, m, repeat.Counts{First: 2, Repeated: 1})
	})
}

// A check that a call has twice is decided once, and one that has the id of another check refuses the call,
// which leaves no claims behind.
func TestTwinsAndConflicts(t *testing.T) {
	inMemory(t, func(t *testing.T, m *Memory) {
		d := &decider{}
		c := claimed(t, m, d, "a", "b", "a")
		if n := &c.Checks[2]; n.Stand != Repeats || n.Twin != 0 || resolved(t, c, 2) != Repeats {
			t.Errorf("%+v", n)
		}
		c.Keep(t.Context())
		other := repeat.FingerprintOf([]byte("other hits"))
		if err := c.Add(3, []byte("b"), other); !errors.Is(err, repeat.ErrConflict) {
			t.Errorf("within a call: %v", err)
		}
		against := m.Begin(d, lasts)
		for i, id := range []string{"free", "a"} {
			if err := against.Add(i, []byte(id), other); err != nil {
				t.Fatal(err)
			}
		}
		if err := against.Claim(t.Context()); !errors.Is(err, repeat.ErrConflict) {
			t.Errorf("with another call: %v", err)
		}
		if stand := claimed(t, m, d, "free").Checks[0].Stand; stand != Mine {
			t.Errorf("what the refused call has claimed stands as %d", stand)
		}
		wantCounts(t, m, repeat.Counts{First: 2, Repeated: 1, Conflicts: 2})
	})
}

// Who comes while the first call decides has its answer as soon as it is there.
func TestWaitForTheAnswer(t *testing.T) {
	inMemory(t, func(t *testing.T, m *Memory) {
		d := &decider{}
		first := claimed(t, m, d, "a")
		second := claimed(t, m, d, "a")
		if second.Checks[0].Stand != Awaited {
			t.Fatalf("%+v", second.Checks[0])
		}
		go func() {
			if sleep.For(t.Context(), patience/2) == nil {
				first.Keep(t.Context())
			}
		}()
		began := time.Now()
		if stand := resolved(t, second, 0); stand != Answered || !second.Checks[0].Answer.Allowed {
			t.Errorf("%+v", second.Checks[0])
		}
		if waited := time.Since(began); waited < patience/2 || waited > patience/2+maxPause {
			t.Errorf("it waited for %v", waited)
		}
		if d.decided+d.foreseen != 0 {
			t.Errorf("%+v", d)
		}
		wantCounts(t, m, repeat.Counts{First: 1, Repeated: 1})
	})
}

// Of a call that has given up the next one decides in its place, and is remembered. If it cannot, nothing of
// it is left either.
func TestGiveUp(t *testing.T) {
	inMemory(t, func(t *testing.T, m *Memory) {
		d := &decider{err: errors.New("cannot")}
		first := claimed(t, m, d, "a")
		second, third := claimed(t, m, d, "a"), claimed(t, m, d, "a")
		first.GiveUp(t.Context())
		if _, err := second.Resolve(t.Context(), 0); !errors.Is(err, d.err) {
			t.Errorf("%v", err)
		}
		d.err = nil
		if stand := resolved(t, third, 0); stand != Mine {
			t.Errorf("the third call stands as %d", stand)
		}
		if stand := resolved(t, claimed(t, m, d, "a"), 0); stand != Answered || d.decided != 2 || d.foreseen != 0 {
			t.Errorf("the last call stands as %d, %+v", stand, d)
		}
		wantCounts(t, m, repeat.Counts{First: 1, Repeated: 1})
	})
}

// Where nobody gives an answer the first who has waited takes the claim over: it is told what would be
// decided, others are told the same, and what the call of the claim says later is not remembered.
func TestTakeOver(t *testing.T) {
	inMemory(t, func(t *testing.T, m *Memory) {
		d := &decider{}
		first := claimed(t, m, d, "a")
		second := claimed(t, m, d, "a")
		began := time.Now()
		if stand := resolved(t, second, 0); stand != Mine || d.decided != 0 || d.foreseen != 1 {
			t.Errorf("%+v, %+v", second.Checks[0], d)
		}
		if waited := time.Since(began); waited != patience {
			t.Errorf("it waited for %v", waited)
		}
		if stand := resolved(t, claimed(t, m, d, "a"), 0); stand != Answered || d.foreseen != 1 {
			t.Errorf("the third call stands as %d, %+v", stand, d)
		}
		first.Keep(t.Context())
		wantCounts(t, m, repeat.Counts{Repeated: 1, Abandoned: 1, Forgotten: 1})
	})
}

// Nobody waits for longer than half of its own time, nor where others wait already, and who has waited makes
// room.
func TestWaitsAreBounded(t *testing.T) {
	inMemory(t, func(t *testing.T, m *Memory) {
		d := &decider{}
		wait := func(ctx context.Context, id string) time.Duration {
			claimed(t, m, d, id)
			c := claimed(t, m, d, id)
			began := time.Now()
			if stand, err := c.Resolve(ctx, 0); stand != Mine || err != nil {
				t.Errorf("%s stands as %d, %v", id, stand, err)
			}
			return time.Since(began)
		}
		short, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if waited := wait(short, "a"); waited != patience/2 {
			t.Errorf("with that much time: %v", waited)
		}
		if waited := wait(t.Context(), "b"); waited != patience {
			t.Errorf("with room: %v", waited)
		}
		m.Waiting <- struct{}{}
		if waited := wait(t.Context(), "c"); waited != 0 {
			t.Errorf("without room: %v", waited)
		}
	})
}

// Who waits for the answer of another one rests before each look; who decides does not.
func TestWhoWaitsRests(t *testing.T) {
	inMemory(t, func(t *testing.T, m *Memory) {
		d, rests := &decider{}, 0
		ctx := store.OnRest(t.Context(), func() { rests++ })
		first := claimed(t, m, d, "a")
		if stand, err := first.Resolve(ctx, 0); stand != Mine || err != nil || rests != 0 {
			t.Errorf("the first stands as %d, %v, and has rested %d times", stand, err, rests)
		}
		second := claimed(t, m, d, "a")
		go func() {
			_ = sleep.For(t.Context(), 2*minPause)
			first.Keep(t.Context())
		}()
		// It looks after 1 ms and after 2 more.
		if stand, err := second.Resolve(ctx, 0); stand != Answered || err != nil || rests != 2 {
			t.Errorf("the second stands as %d, %v, and has rested %d times, want 2", stand, err, rests)
		}
	})
}

// Who goes away while it waits is told that nothing is known, and so is who asks a store that does not
// answer. Nothing is decided.
func TestUnknown(t *testing.T) {
	inMemory(t, func(t *testing.T, m *Memory) {
		d := &decider{}
		claimed(t, m, d, "a")
		second := claimed(t, m, d, "a")
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			if sleep.For(t.Context(), patience/2) == nil {
				cancel()
			}
		}()
		if stand, err := second.Resolve(ctx, 0); stand != Unknown || err != nil || store.ReasonOf(second.Checks[0].Err) != store.Timeout {
			t.Errorf("%d, %v, %+v", stand, err, second.Checks[0])
		}
		m.Store = panicking{}
		third := claimed(t, m, d, "b")
		if stand := resolved(t, third, 0); stand != Unknown || store.ReasonOf(third.Checks[0].Err) != store.Timeout || stand.Decides() {
			t.Errorf("%+v", third.Checks[0])
		}
		if *d != (decider{}) {
			t.Errorf("%+v", d)
		}
		wantCounts(t, m, repeat.Counts{Undecided: 2})
	})
}

// punctual is a Swapper that answers nobody whose time is over, as one that is far away.
type punctual struct{ store.Swapper }

func (p punctual) Swap(ctx context.Context, swaps []store.Swap, answers []store.Swapped) {
	if err := ctx.Err(); err != nil {
		for i := range answers {
			answers[i] = store.Swapped{Err: &store.Error{Op: "swap", Store: "test", Reason: store.Timeout, Err: err}}
		}
		return
	}
	p.Swapper.Swap(ctx, swaps, answers)
}

// panicking is a Swapper with a bug.
type panicking struct{}

func (panicking) Swap(context.Context, []store.Swap, []store.Swapped) { panic("a bug") }

// full is a Swapper without room.
type full struct{}

func (full) Swap(_ context.Context, swaps []store.Swap, answers []store.Swapped) {
	for i := range swaps {
		answers[i] = store.Swapped{Err: &store.Error{Op: "swap", Store: "test", Reason: store.Full}}
	}
}

// Where there is no room for another id, checks are decided as those without one.
func TestNoRoom(t *testing.T) {
	inMemory(t, func(t *testing.T, m *Memory) {
		m.Store = full{}
		c := claimed(t, m, &decider{}, "a")
		if stand := resolved(t, c, 0); stand != Unclaimed || !stand.Decides() {
			t.Errorf("%+v", c.Checks[0])
		}
		c.Keep(t.Context())
		wantCounts(t, m, repeat.Counts{Forgotten: 1})
	})
}
