package conn

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/breaker"
)

// TestRefusedByTheLatestFailure: what calls get while the breaker is open names the failure that
// it heard of last, and is made once for it.
func TestRefusedByTheLatestFailure(t *testing.T) {
	o := &Options{Addr: "a:1"}
	g := NewGate(o)
	if fault := g.refuse(o); fault.Reason != store.BreakerOpen || fault != g.refuse(o) {
		t.Errorf("%v", fault)
	}
	for _, text := range []string{"one failure", "another failure"} {
		g.last.Store(&store.Error{Reason: store.Timeout, Err: errors.New(text), Hint: "about " + text})
		fault := g.refuse(o)
		if fault.Reason != store.BreakerOpen || !strings.Contains(fault.Error(), text) || fault.Hint != "about "+text || fault != g.refuse(o) {
			t.Errorf("%s: %v", text, fault)
		}
	}
}

// TestCancelledDialIsNoFailure: a dial that its caller has given up on says nothing of the server.
func TestCancelledDialIsNoFailure(t *testing.T) {
	o := &Options{Addr: "a:1", Breaker: breaker.Options{Failures: 1}}
	dial := func(ctx context.Context) (int, error) { return 0, errors.New("refused") }
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for want, ctx := range map[breaker.State]context.Context{breaker.Closed: ctx, breaker.Open: t.Context()} {
		g := NewGate(o)
		if _, err := DialThrough(ctx, g, o, dial); err == nil || g.State(time.Now()) != want {
			t.Errorf("%v, the breaker is %v, want %v", err, g.State(time.Now()), want)
		}
	}
}

// TestLastOfPatience: what waits for others ends while there is time to answer the caller, and no
// later than the grace after the budget.
func TestLastOfPatience(t *testing.T) {
	const budget = 20 * time.Millisecond
	late := NewLateness(budget)
	t.Cleanup(late.Close)
	now := time.Now()
	for caller, want := range map[time.Duration]time.Duration{
		budget / 2: budget * 3 / 8, budget + 7*time.Millisecond: budget + 2*time.Millisecond, time.Minute: budget + maxGrace,
	} {
		ctx, cancel := context.WithDeadline(t.Context(), now.Add(caller))
		p := NewPatience(ctx, late, now, budget)
		if got := p.Last().Sub(now); got != want {
			t.Errorf("a caller who waits %v: %v, want %v", caller, got, want)
		}
		p.End()
		cancel()
	}
}
