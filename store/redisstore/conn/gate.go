package conn

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/breaker"
)

// Gate keeps calls and dials away from one server while they fail. It belongs to
// the address of the server and outlives its connections: what a dial finds counts
// as what a call finds, so that a server which is away is asked once in each pause,
// by whichever of the two comes first.
//
// Another server in the place of the one that failed begins with a closed breaker:
// with sentinels when they name another address (see link.elsewhere), in a cluster
// because each address has a gate of its own. A server that comes back
// under its address is the same.
type Gate struct {
	breaker *breaker.Breaker
	// last is the failure that the breaker heard of last; nil before the first.
	last atomic.Pointer[store.Error]
	// open is what calls get while the breaker is open; see refuse.
	open atomic.Pointer[openFault]
}

// openFault is what calls get while the breaker is open, and the failure that it
// names.
type openFault struct{ last, fault *store.Error }

// NewGate returns the gate of a server.
func NewGate(o *Options) *Gate { return &Gate{breaker: breaker.New(o.Breaker)} }

// refuse returns what a call gets while the breaker is open. It is made once for
// each failure: there may be many calls.
func (g *Gate) refuse(o *Options) *store.Error {
	last := g.last.Load()
	if known := g.open.Load(); known != nil && known.last == last {
		return known.fault
	}
	fault := &store.Error{Op: "take", Store: o.Address(), Reason: store.BreakerOpen, Err: errBreaker}
	if last != nil {
		fault.Err = fmt.Errorf("%w, at last with %s: %v", errBreaker, last.Reason, last.Err)
		fault.Hint = last.Hint
	}
	g.open.Store(&openFault{last, fault})
	return fault
}

// State returns that of the breaker.
func (g *Gate) State(now time.Time) breaker.State { return g.breaker.State(now) }

// dialled tells the breaker how a dial has ended; fault is nil if it has succeeded.
// A server that answers the greeting counts as well however long that took: it is
// several exchanges, and calls tell soon how long one takes.
func (g *Gate) dialled(p breaker.Permit, began time.Time, fault *store.Error) {
	now := time.Now()
	if fault == nil {
		g.breaker.Done(p, now, breaker.Success, 0)
		return
	}
	g.last.Store(fault)
	g.breaker.Done(p, now, breaker.Failure, now.Sub(began))
}

// DialThrough makes a connection by dial, if g lets it.
func DialThrough[T any](ctx context.Context, g *Gate, o *Options, dial func(context.Context) (T, error)) (T, error) {
	began := time.Now()
	permit, ok := g.breaker.Allow(began)
	if !ok {
		var none T
		return none, g.refuse(o)
	}
	found, err := dial(ctx)
	switch {
	case err == nil:
		g.dialled(permit, began, nil)
	case errors.Is(ctx.Err(), context.Canceled):
		g.breaker.Done(permit, time.Now(), breaker.Ignored, 0)
	default:
		g.dialled(permit, began, AsUnavailable(o.Fault("dial", err)))
	}
	return found, err
}
