// Package coalesce joins the Takes of many callers into few batches.
//
// It adds no delay of its own. A Take leaves at once while fewer than
// Options.Flights are in the air, or these have fewer than Options.Few callers
// aboard; what comes meanwhile leaves together as soon as one of them is back. So
// nobody waits when there is little to do, and the batches grow by themselves with
// the load. There is no timer and no goroutine behind it: the first caller of a
// flight flies it, for itself and all who are aboard, and when it is back sends off
// those who have come since, with the first of them in its place.
//
// Every caller has its own deadline. One whose context ends while it waits goes
// away, and nothing of its takes is touched afterwards: a flight with several
// aboard has copies. A flight ends by the earliest deadline aboard, or as much later
// as Options.Extend says, so only callers with a similar time left share one. The
// caller who flies for others stays until the flight has ended, even if its own
// context is cancelled; that is no later than its own deadline, or Patient.Last.
//
// The decisions are those of one-at-a-time execution in the order of the
// flights, and within a flight in the order in which callers came: groups of
// different callers get different numbers, and their takes are not mixed. A caller
// with a dry run flies alone, because dry runs of one batch see each other.
package coalesce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

const (
	// DefaultFlights is one that the store works on and one that is there when
	// it has done so.
	DefaultFlights = 2
	// DefaultMaxCost is the cost of a flight where nothing else is known.
	DefaultMaxCost = 16
	// MaxTakes bounds the takes of a flight whatever they cost, and so the time
	// for which boarding holds the lock: below 0.1 ms.
	MaxTakes = 512
	// DefaultMaxWaiting bounds the callers that wait. At 100,000 a second they
	// would have to wait for 0.16 s before the bound is met.
	DefaultMaxWaiting = 16 << 10
	// looked is how many of those who wait are looked at for one flight.
	looked = 2 * MaxTakes
	// spread is how many times longer the longest time left aboard may be than
	// the shortest.
	spread = 2
	// keptFlights is how many flights are kept for each that may be in the air:
	// others are still handing out their answers.
	keptFlights = 4
	// keptBytes bounds the memory for copies of keys that a flight keeps for the
	// next.
	keptBytes = 64 << 10
)

// Options are the options of New. Only Fly must be given.
type Options struct {
	// Fly decides a batch, as store.Store's Take does. It keeps nothing of its
	// arguments, the context included, after it has returned.
	Fly func(ctx context.Context, takes []store.Take, results []store.Result)
	// Flights is how many calls of Fly are under way at one time; 0 means
	// DefaultFlights.
	Flights int
	// Few lets more calls of Fly be under way while they have fewer callers aboard than
	// this: where little is asked, to wait for a flight costs more than it saves. With 0
	// none do.
	Few int
	// MaxCost bounds the sum of Cost over a flight; 0 means DefaultMaxCost. A
	// Take that alone costs more flies alone.
	MaxCost int
	// Cost says what a take by that limit costs; nil means 1 for each. Takes
	// that say the same as those of another caller aboard cost nothing: Fly is
	// expected to join them.
	Cost func(*limit.Limit) int
	// Extend says for how long a flight goes on whose deadline was due and has come, but
	// not beyond last, which is the earliest Last aboard; 0 ends it. It is asked once
	// for each flight with several callers. nil means that none goes on.
	Extend func(due, last time.Time) time.Duration
	// MaxWaiting is how many callers may wait at one time, beyond which they get
	// ErrFull; 0 means DefaultMaxWaiting.
	MaxWaiting int
}

// Patient is a context that may outlast its deadline. That of a flight with several
// callers may too, if Options.Extend says so.
type Patient interface {
	context.Context
	// Last returns when the context ends at the latest.
	Last() time.Time
	// Ends returns what closes when the context of the caller ends, and what closes when
	// this one ends by itself. To wait for both costs less than Done may.
	Ends() (caller, own <-chan struct{})
}

// ErrFull says that too many callers wait already.
var ErrFull = errors.New("coalesce: too many callers wait")

// ErrPanic is in the chain of the errors of a flight whose Fly has panicked.
var ErrPanic = errors.New("coalesce: panic while deciding")

// Coalescer joins Takes. It is safe for concurrent use. Make one with New; it
// holds nothing that must be closed.
type Coalescer struct {
	options Options
	seed    maphash.Seed
	jobs    sync.Pool // of *job

	mu struct {
		sync.Mutex
		waiting []*job
		flights int       // in the air
		aboard  int       // callers of these
		idle    []*flight // to be used again
		stats   Stats
	}
}

// Stats counts what a Coalescer has done since it was made.
type Stats struct {
	// Callers is the number of Takes that have left with a flight, Takes that of
	// their takes, Flights the number of flights.
	Callers, Takes, Flights uint64
	// Largest is the most takes of one flight.
	Largest int
	// Left is the number of callers that went away before they were answered,
	// Refused of those that got ErrFull.
	Left, Refused uint64
	// Waiting is the number of callers that wait for a flight now.
	Waiting int
}

// New returns a Coalescer. It panics without Options.Fly.
func New(o Options) *Coalescer {
	if o.Fly == nil {
		panic("coalesce: Options.Fly is missing")
	}
	o.Flights = cmp.Or(max(o.Flights, 0), DefaultFlights)
	o.MaxCost = cmp.Or(max(o.MaxCost, 0), DefaultMaxCost)
	o.MaxWaiting = cmp.Or(max(o.MaxWaiting, 0), DefaultMaxWaiting)
	c := &Coalescer{options: o, seed: maphash.MakeSeed()}
	c.jobs.New = func() any { return &job{wake: make(chan *flight, 1)} }
	return c
}

// Stats returns what has been counted so far.
func (c *Coalescer) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.mu.stats
	s.Waiting = len(c.mu.waiting)
	return s
}

// Take decides takes into results together with those of other callers, and
// returns nil; or the error of ctx when that has ended before, or ErrFull. Then
// every result carries that error. Errors of Fly are in the results alone.
func (c *Coalescer) Take(ctx context.Context, takes []store.Take, results []store.Result) error {
	if len(takes) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return refuse(results, err)
	}
	j := c.jobs.Get().(*job)
	j.board(c, ctx, takes, results)
	f, err := c.queue(j)
	if err != nil {
		c.free(j)
		return refuse(results, err)
	}
	if f == nil {
		ended := false
		caller, own := endsOf(ctx)
		select {
		case f = <-j.wake:
		case <-caller:
			ended = true
		case <-own:
			ended = true
		}
		if ended {
			if c.leave(j) {
				return refuse(results, ctx.Err())
			}
			// It is being answered this moment.
			<-j.wake
		}
	}
	if f != nil {
		c.run(f, j)
	}
	c.free(j)
	return nil
}

// endsOf returns what closes when ctx ends: of a Patient two, of others one and nil.
func endsOf(ctx context.Context) (caller, own <-chan struct{}) {
	if p, ok := ctx.(Patient); ok {
		return p.Ends()
	}
	return ctx.Done(), nil
}

func refuse(results []store.Result, err error) error {
	for i := range results {
		results[i] = store.Result{Err: err}
	}
	return err
}

// queue lets j wait, or returns the flight that its caller has to fly.
func (c *Coalescer) queue(j *job) (*flight, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.mayDepartLocked() {
		if len(c.mu.waiting) >= c.options.MaxWaiting {
			c.mu.stats.Refused++
			return nil, ErrFull
		}
		j.waits = true
		c.mu.waiting = append(c.mu.waiting, j)
		return nil, nil
	}
	// Nobody waits: whoever did has left with the last flight that came back.
	f := c.newFlightLocked()
	f.jobs = append(f.jobs, j)
	c.departLocked(f)
	return f, nil
}

// leave takes a caller out whose context has ended, and reports false when its
// results are being written. If it was to fly, its flight goes without it.
func (c *Coalescer) leave(j *job) bool {
	c.mu.Lock()
	waited := j.waits
	if waited {
		i := slices.Index(c.mu.waiting, j)
		c.mu.waiting = slices.Delete(c.mu.waiting, i, i+1)
	}
	if !waited && !j.state.CompareAndSwap(boarded, left) {
		c.mu.Unlock()
		return false
	}
	c.mu.stats.Left++
	c.mu.Unlock()
	if waited {
		c.free(j)
		return true
	}
	select {
	case f := <-j.wake:
		// Without others aboard there are no copies, and no need to fly.
		if len(f.jobs) == 1 {
			c.finish(f)
		} else {
			go c.run(f, nil)
		}
	default:
	}
	return true
}

// run flies f, of which own is the caller's own job if it is still there.
func (c *Coalescer) run(f *flight, own *job) {
	defer c.finish(f)
	done := false
	defer func() {
		if done {
			return
		}
		cause := recover() // nil if the goroutine is being ended
		f.fail(fmt.Errorf("%w: %v\n%s", ErrPanic, cause, debug.Stack()))
	}()
	if len(f.jobs) == 1 {
		// Alone: own is there, since otherwise leave has ended the flight.
		c.options.Fly(own.ctx, own.takes, own.results)
	} else {
		c.options.Fly(f.context(c.options.Extend), f.takes, f.results)
	}
	done = true
}

// finish sends off those who wait, and then answers those aboard.
func (c *Coalescer) finish(f *flight) {
	c.mu.Lock()
	c.mu.flights--
	c.mu.aboard -= len(f.jobs)
	for len(c.mu.waiting) > 0 && c.mayDepartLocked() {
		next := c.boardLocked(time.Now())
		next.jobs[0].wake <- next
	}
	c.mu.Unlock()
	f.land(c)
	c.mu.Lock()
	if len(c.mu.idle) < keptFlights*max(c.options.Flights, c.options.Few) {
		c.mu.idle = append(c.mu.idle, f)
	}
	c.mu.Unlock()
}

// boardLocked makes a flight of the first job that waits and of those after it
// which fit.
func (c *Coalescer) boardLocked(now time.Time) *flight {
	f := c.newFlightLocked()
	rest := c.mu.waiting[:0]
	for i, j := range c.mu.waiting {
		if f.takesOf >= MaxTakes || i >= looked {
			rest = append(rest, c.mu.waiting[i:]...)
			break
		}
		if !f.join(j, now, c.options.MaxCost) {
			rest = append(rest, j)
		}
	}
	clear(c.mu.waiting[len(rest):])
	c.mu.waiting = rest
	c.departLocked(f)
	return f
}

func (c *Coalescer) newFlightLocked() *flight {
	n := len(c.mu.idle)
	if n == 0 {
		return new(flight)
	}
	f := c.mu.idle[n-1]
	c.mu.idle = c.mu.idle[:n-1]
	return f
}

// mayDepartLocked reports whether another flight may be in the air.
func (c *Coalescer) mayDepartLocked() bool {
	return c.mu.flights < c.options.Flights || c.mu.aboard < c.options.Few
}

// departLocked copies the takes of a flight that has several aboard, and counts.
func (c *Coalescer) departLocked(f *flight) {
	takes := 0
	for _, j := range f.jobs {
		j.waits = false
		takes += len(j.takes)
	}
	if len(f.jobs) > 1 {
		f.arrange()
		f.copyTakes(takes)
	}
	c.mu.flights++
	c.mu.aboard += len(f.jobs)
	s := &c.mu.stats
	s.Callers += uint64(len(f.jobs))
	s.Takes += uint64(takes)
	s.Flights++
	s.Largest = max(s.Largest, takes)
}

// free makes j available to other callers.
func (c *Coalescer) free(j *job) {
	j.ctx, j.takes, j.results = nil, nil, nil
	c.jobs.Put(j)
}

// The states of a job that has left with a flight. Who moves it on from boarded
// owns the results: the flight or the caller.
const (
	boarded int32 = iota
	answered
	left
)

// job is one Take of a caller.
type job struct {
	ctx      context.Context
	takes    []store.Take
	results  []store.Result
	deadline time.Time // zero if there is none
	last     time.Time // the deadline, or what a Patient says
	cost     int
	dry      bool // one of its takes is a dry run
	// likeness is equal for jobs that say the same; kind is its place in the
	// flight.
	likeness uint64
	kind     int

	state atomic.Int32
	waits bool // in Coalescer.mu.waiting; guarded by its lock
	// wake tells a caller who waits that it is answered (nil), or the flight to
	// fly.
	wake chan *flight
}

func (j *job) board(c *Coalescer, ctx context.Context, takes []store.Take, results []store.Result) {
	j.ctx, j.takes, j.results = ctx, takes, results
	j.deadline, _ = ctx.Deadline()
	j.last = j.deadline
	if p, ok := ctx.(Patient); ok {
		j.last = p.Last()
	}
	j.state.Store(boarded)
	j.likeness = likenessOf(c.seed, takes)
	j.cost, j.dry = len(takes), store.HasDryRun(takes)
	if c.options.Cost != nil {
		j.cost = 0
		for i := range takes {
			j.cost += c.options.Cost(takes[i].Limit)
		}
	}
}
