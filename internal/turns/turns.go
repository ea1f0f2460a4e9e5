// Package turns bounds how many requests of a node wait for its store at one time.
//
// A node that is asked for more than its processors can do has thousands of goroutines that
// could run. Whatever the store answers is then read only when all of these have had their
// turn, long after the budget of a decision, so that nearly all are decided by their failure
// modes although the store is well. With a bound the answers are read in time: the others wait
// before their budget begins, as requests do that nobody has read yet, and the store decides
// them as fast as the node can ask.
//
// The bound is as many requests as the processors can do in about half of a budget. So it holds
// nobody up whom a processor could serve: a store that needs half of the budget for each answer
// still gets as many questions as the node can ask. Where a store fails, its breaker opens, and
// nobody waits for it long.
package turns

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/headgate/headgate/store"
)

const (
	// perSecond is how many requests there are places for, for each processor and second of
	// the budget: half of what a processor does of those that each come on a connection of
	// their own, which are the dearest.
	perSecond = 10_000
	// fewest is the least for each processor, however short the budget is.
	fewest = 64
)

// Turns is the places of a node. It is safe for concurrent use. New makes one; nil has places
// for all.
type Turns struct {
	places  *semaphore.Weighted
	waiting atomic.Int64
	waited  atomic.Uint64
}

// Stats says who waits for a place.
type Stats struct {
	// Waiting is how many requests wait now, Waited how many had to so far.
	Waiting int64
	Waited  uint64
}

// New returns places for a node whose decisions wait for the store for as long as budget: 200 for
// each processor with one of 20 ms.
func New(budget time.Duration) *Turns {
	return newTurns(runtime.GOMAXPROCS(0) * max(int(budget.Seconds()*perSecond), fewest))
}

func newTurns(n int) *Turns { return &Turns{places: semaphore.NewWeighted(int64(n))} }

// Stats returns who waits for a place now, and how many have.
func (p *Turns) Stats() Stats { return Stats{p.waiting.Load(), p.waited.Load()} }

// enter takes a place and reports true, unless ctx ends.
func (p *Turns) enter(ctx context.Context) bool {
	if p.places.TryAcquire(1) {
		return true
	}
	p.waited.Add(1)
	p.waiting.Add(1)
	defer p.waiting.Add(-1)
	return p.places.Acquire(ctx, 1) == nil
}

// Turn is the turn of one request, or of several that are decided together. The zero value has
// none, and is ready to be used once.
type Turn struct {
	mu   sync.Mutex // held while it waits for a place
	of   *Turns     // nil without a place
	over bool
}

// Begin returns ctx for decisions that take a turn when they wait for the store, and what ends that
// turn.
func (p *Turns) Begin(ctx context.Context) (taking context.Context, end func()) {
	if p == nil {
		return ctx, func() {}
	}
	t := new(Turn)
	return t.Over(store.OnWait(ctx, func() { t.Take(ctx, p) })), t.End
}

// Over returns ctx for decisions that give the place of t back while they rest: see store.OnRest.
func (t *Turn) Over(ctx context.Context) context.Context { return store.OnRest(ctx, t.Rest) }

// Take waits until there is a place for t: who came first gets the next. It returns without one
// when ctx ends, and at once where t has a place. It is safe for concurrent use, and to be called
// before the time begins that the store has.
func (t *Turn) Take(ctx context.Context, of *Turns) {
	if of == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.over && t.of == nil && of.enter(ctx) {
		t.of = of
	}
}

// Rest gives the place of t back, until Take is called again.
func (t *Turn) Rest() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.leave()
}

// End ends the turn. Take does nothing from then on: what is still asked in the background for t
// would never give its place back.
func (t *Turn) End() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	t.leave()
}

func (t *Turn) leave() {
	if t.of != nil {
		t.of.places.Release(1)
		t.of = nil
	}
}
