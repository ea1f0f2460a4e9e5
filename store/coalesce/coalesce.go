// Package coalesce joins what many callers ask of a store into few batches: their takes,
// or their swaps. What they ask is a Cargo to it.
//
// It adds no delay of its own. A caller leaves at once while fewer than
// Options.Flights are in the air, or these have fewer than Options.Few callers
// aboard; what comes meanwhile leaves together as soon as one of them is back. So
// nobody waits when there is little to do, and the batches grow by themselves with
// the load. There is no timer and no goroutine behind it: the first caller of a
// flight flies it, for itself and all who are aboard, and when it is back sends off
// those who have come since, with the first of them in its place.
//
// Every caller has its own deadline. One whose context ends while it waits goes
// away, and nothing of its questions is touched afterwards: a flight with several
// aboard has copies. A flight ends by the earliest deadline aboard, or as much later
// as Options.Extend says, so only callers with a similar time left share one. The
// caller who flies for others stays until the flight has ended, even if its own
// context is cancelled; that is no later than its own deadline, or Patient.Last.
//
// The answers are those of one-at-a-time execution in the order of the flights, and
// within a flight in the order in which callers came, those that say the same one
// after the other. The questions of two callers are not mixed.
package coalesce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// DefaultFlights is one that the store works on and one that is there when
	// it has done so.
	DefaultFlights = 2
	// DefaultMaxCost is the cost of a flight where nothing else is known.
	DefaultMaxCost = 16
	// MaxQuestions bounds the questions of a flight whatever they cost, and so the
	// time for which boarding holds the lock: below 0.1 ms.
	MaxQuestions = 512
	// DefaultMaxWaiting bounds the callers that wait. At 100,000 a second they
	// would have to wait for 0.16 s before the bound is met.
	DefaultMaxWaiting = 16 << 10
	// looked is how many of those who wait are looked at for one flight.
	looked = 2 * MaxQuestions
	// spread is how many times longer the longest time left aboard may be than
	// the shortest.
	spread = 2
	// keptFlights is how many flights are kept for each that may be in the air:
	// others are still handing out their answers.
	keptFlights = 4
	// keptBytes bounds the memory for the bytes of copies that a flight keeps for
	// the next.
	keptBytes = 64 << 10
)

// Cargo is how questions of one kind are joined: what Coalescer needs to know of them.
type Cargo[Q, A any] interface {
	// Weigh says what it means to have the questions of a caller aboard.
	Weigh(questions []Q) Load
	// Copy appends copies of the questions of a caller to those of the flight, and the
	// bytes that they refer to, which are Load.Bytes, to room, which has place for them.
	Copy(copies []Q, room []byte, questions []Q) ([]Q, []byte)
	// Refusal answers a question with an error.
	Refusal(err error) A
}

// Load is what the questions of one caller mean for a flight.
type Load struct {
	// Cost is what they cost in all, beside Options.MaxCost. A caller that alone costs
	// more flies alone.
	Cost int
	// Bytes is how much room their copies need.
	Bytes int
	// Likeness is equal for callers that say the same. They cost the flight as much as
	// one of them, because Fly is expected to join them. 0 is like nobody else.
	Likeness uint64
	// Alone says that they fly with nobody else.
	Alone bool
}

// Fly asks a batch of questions, and answers questions[i] in answers[i]. It keeps nothing of
// its arguments, the context included, after it has returned.
type Fly[Q, A any] func(ctx context.Context, questions []Q, answers []A)

// Options are the options of New; each may be left out.
type Options struct {
	// Flights is how many calls of Fly are under way at one time; 0 means
	// DefaultFlights.
	Flights int
	// Few lets more calls of Fly be under way while they have fewer callers aboard than
	// this: where little is asked, to wait for a flight costs more than it saves. With 0
	// none do.
	Few int
	// MaxCost bounds the sum of Load.Cost over a flight; 0 means DefaultMaxCost.
	MaxCost int
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
var ErrPanic = errors.New("coalesce: panic while asking")

// Coalescer joins questions. It is safe for concurrent use. Make one with New; it
// holds nothing that must be closed.
type Coalescer[Q, A any] struct {
	cargo   Cargo[Q, A]
	fly     Fly[Q, A]
	options Options
	jobs    sync.Pool // of *job[Q, A]

	mu struct {
		sync.Mutex
		waiting []*job[Q, A]
		flights int             // in the air
		aboard  int             // callers of these
		idle    []*flight[Q, A] // to be used again
		stats   Stats
	}
}

// Stats counts what a Coalescer has done since it was made.
type Stats struct {
	// Callers is the number of callers that have left with a flight, Questions that of
	// their questions, Flights the number of flights.
	Callers, Questions, Flights uint64
	// Largest is the most questions of one flight.
	Largest int
	// Left is the number of callers that went away before they were answered,
	// Refused of those that got ErrFull.
	Left, Refused uint64
	// Waiting is the number of callers that wait for a flight now.
	Waiting int
}

// New returns a Coalescer that has fly ask.
func New[Q, A any](cargo Cargo[Q, A], fly Fly[Q, A], o Options) *Coalescer[Q, A] {
	o.Flights = cmp.Or(max(o.Flights, 0), DefaultFlights)
	o.MaxCost = cmp.Or(max(o.MaxCost, 0), DefaultMaxCost)
	o.MaxWaiting = cmp.Or(max(o.MaxWaiting, 0), DefaultMaxWaiting)
	c := &Coalescer[Q, A]{cargo: cargo, fly: fly, options: o}
	c.jobs.New = func() any { return &job[Q, A]{wake: make(chan *flight[Q, A], 1)} }
	return c
}

// Stats returns what has been counted so far.
func (c *Coalescer[Q, A]) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.mu.stats
	s.Waiting = len(c.mu.waiting)
	return s
}

// Ask answers questions into answers together with those of other callers, and
// returns nil; or the error of ctx when that has ended before, or ErrFull. Then
// every answer is a refusal by that error. Errors of Fly are in the answers alone.
func (c *Coalescer[Q, A]) Ask(ctx context.Context, questions []Q, answers []A) error {
	if len(questions) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return c.refuse(answers, err)
	}
	j := c.jobs.Get().(*job[Q, A])
	j.board(ctx, questions, answers, c.cargo.Weigh(questions))
	f, err := c.queue(j)
	if err != nil {
		c.free(j)
		return c.refuse(answers, err)
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
				return c.refuse(answers, ctx.Err())
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

func (c *Coalescer[Q, A]) refuse(answers []A, err error) error {
	for i := range answers {
		answers[i] = c.cargo.Refusal(err)
	}
	return err
}

// queue lets j wait, or returns the flight that its caller has to fly.
func (c *Coalescer[Q, A]) queue(j *job[Q, A]) (*flight[Q, A], error) {
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
func (c *Coalescer[Q, A]) leave(j *job[Q, A]) bool {
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
func (c *Coalescer[Q, A]) run(f *flight[Q, A], own *job[Q, A]) {
	defer c.finish(f)
	done := false
	defer func() {
		if done {
			return
		}
		cause := recover() // nil if the goroutine is being ended
		c.fail(f, fmt.Errorf("%w: %v\n%s", ErrPanic, cause, debug.Stack()))
	}()
	if len(f.jobs) == 1 {
		// Alone: own is there, because otherwise leave has ended the flight.
		c.fly(own.ctx, own.questions, own.answers)
	} else {
		c.fly(f.context(c.options.Extend), f.questions, f.answers)
	}
	done = true
}

// fail answers all aboard with err.
func (c *Coalescer[Q, A]) fail(f *flight[Q, A], err error) {
	if len(f.jobs) == 1 {
		_ = c.refuse(f.jobs[0].answers, err)
	} else {
		_ = c.refuse(f.answers, err)
	}
}

// finish sends off those who wait, and then answers those aboard.
func (c *Coalescer[Q, A]) finish(f *flight[Q, A]) {
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
func (c *Coalescer[Q, A]) boardLocked(now time.Time) *flight[Q, A] {
	f := c.newFlightLocked()
	rest := c.mu.waiting[:0]
	for i, j := range c.mu.waiting {
		if f.asked >= MaxQuestions || i >= looked {
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

func (c *Coalescer[Q, A]) newFlightLocked() *flight[Q, A] {
	n := len(c.mu.idle)
	if n == 0 {
		return new(flight[Q, A])
	}
	f := c.mu.idle[n-1]
	c.mu.idle = c.mu.idle[:n-1]
	return f
}

// mayDepartLocked reports whether another flight may be in the air.
func (c *Coalescer[Q, A]) mayDepartLocked() bool {
	return c.mu.flights < c.options.Flights || c.mu.aboard < c.options.Few
}

// departLocked copies the questions of a flight that has several aboard, and counts.
func (c *Coalescer[Q, A]) departLocked(f *flight[Q, A]) {
	questions := 0
	for _, j := range f.jobs {
		j.waits = false
		questions += len(j.questions)
	}
	if len(f.jobs) > 1 {
		f.arrange()
		f.load(c.cargo, questions)
	}
	c.mu.flights++
	c.mu.aboard += len(f.jobs)
	s := &c.mu.stats
	s.Callers += uint64(len(f.jobs))
	s.Questions += uint64(questions)
	s.Flights++
	s.Largest = max(s.Largest, questions)
}

// free makes j available to other callers.
func (c *Coalescer[Q, A]) free(j *job[Q, A]) {
	j.ctx, j.questions, j.answers = nil, nil, nil
	c.jobs.Put(j)
}

// The states of a job that has left with a flight. Who moves it on from boarded
// owns the answers: the flight or the caller.
const (
	boarded int32 = iota
	answered
	left
)

// job is what one caller asks.
type job[Q, A any] struct {
	ctx       context.Context
	questions []Q
	answers   []A
	load      Load
	deadline  time.Time // zero if there is none
	last      time.Time // the deadline, or what a Patient says
	// kind is the place of the load's likeness in the flight.
	kind int

	state atomic.Int32
	waits bool // in Coalescer.mu.waiting; guarded by its lock
	// wake tells a caller who waits that it is answered (nil), or the flight to
	// fly.
	wake chan *flight[Q, A]
}

func (j *job[Q, A]) board(ctx context.Context, questions []Q, answers []A, load Load) {
	j.ctx, j.questions, j.answers, j.load = ctx, questions, answers, load
	j.deadline, _ = ctx.Deadline()
	j.last = j.deadline
	if p, ok := ctx.(Patient); ok {
		j.last = p.Last()
	}
	j.state.Store(boarded)
}
