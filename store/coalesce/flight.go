package coalesce

import (
	"context"
	"slices"
	"sync"
	"time"
)

// flight is one call of Fly. One with a single job uses what its caller gave;
// one with several has copies.
type flight[Q, A any] struct {
	jobs  []*job[Q, A]
	kinds []kind       // of the jobs
	spare []*job[Q, A] // see arrange
	cost  int
	asked int // questions of the jobs
	bytes int // of their copies
	// soonest and latest are the ends of what the deadlines aboard leave;
	// endless says that there are none.
	soonest, latest time.Duration
	endless         bool
	deadline, last  time.Time // the earliest of those aboard

	questions []Q
	answers   []A
	room      []byte
	ctx       *flightContext
}

// kind is a likeness and how many jobs have it.
type kind struct {
	likeness uint64
	jobs     int
}

// join takes j aboard if there is room and their times left are similar.
func (f *flight[Q, A]) join(j *job[Q, A], now time.Time, maxCost int) bool {
	endless, left := j.deadline.IsZero(), j.deadline.Sub(now)
	if len(f.jobs) == 0 {
		f.endless, f.soonest, f.latest, f.deadline, f.last = endless, left, left, j.deadline, j.last
	}
	cost := j.load.Cost
	at, known := f.kindOf(j.load.Likeness)
	if known {
		cost = 0
	}
	soonest, latest := min(f.soonest, left), max(f.latest, left)
	if len(f.jobs) > 0 {
		if f.cost+cost > maxCost || f.asked+len(j.questions) > MaxQuestions || f.endless != endless {
			return false
		}
		if j.load.Alone || f.jobs[0].load.Alone {
			return false
		}
		if !endless && latest > spread*max(soonest, 0) {
			return false
		}
	}
	if left < f.soonest {
		f.deadline = j.deadline
	}
	if j.last.Before(f.last) {
		f.last = j.last
	}
	f.soonest, f.latest = soonest, latest
	f.jobs = append(f.jobs, j)
	f.cost += cost
	f.asked += len(j.questions)
	f.bytes += j.load.Bytes
	if !known {
		f.kinds = append(f.kinds, kind{likeness: j.load.Likeness})
	}
	f.kinds[at].jobs++
	j.kind = at
	return true
}

// kindOf looks through the few kinds that MaxCost allows, and returns the place
// of a likeness among them, or the next free one.
func (f *flight[Q, A]) kindOf(likeness uint64) (at int, known bool) {
	for i := range f.kinds {
		if likeness != 0 && f.kinds[i].likeness == likeness {
			return i, true
		}
	}
	return len(f.kinds), false
}

// arrange puts jobs that say the same one after the other, so that Fly finds them
// together. The first job stays the first.
func (f *flight[Q, A]) arrange() {
	if len(f.kinds) == len(f.jobs) {
		return
	}
	from := 0
	for i := range f.kinds {
		f.kinds[i].jobs, from = from, from+f.kinds[i].jobs
	}
	f.spare = append(f.spare[:0], f.jobs...)
	for _, j := range f.spare {
		k := &f.kinds[j.kind]
		f.jobs[k.jobs] = j
		k.jobs++
	}
	clear(f.spare)
}

// load copies the questions of all aboard, n in all. Callers cannot leave meanwhile.
func (f *flight[Q, A]) load(cargo Cargo[Q, A], n int) {
	f.room = slices.Grow(f.room, f.bytes) // copies refer to it: it does not move
	for _, j := range f.jobs {
		f.questions, f.room = cargo.Copy(f.questions, f.room, j.questions)
	}
	if cap(f.answers) < n {
		f.answers = make([]A, n, max(n, 2*cap(f.answers)))
	}
	f.answers = f.answers[:n]
}

// context returns the context of a flight with several aboard.
func (f *flight[Q, A]) context(extend func(due, last time.Time) time.Duration) context.Context {
	if f.deadline.IsZero() {
		return context.Background()
	}
	if f.ctx == nil {
		f.ctx = &flightContext{done: make(chan struct{})}
	}
	f.ctx.start(f.deadline, f.last, extend)
	return f.ctx
}

// land gives the answers to those who still wait for them, and makes f ready
// for another use. Its first job, who flew it, needs no call.
func (f *flight[Q, A]) land(c *Coalescer[Q, A]) {
	if f.ctx != nil && !f.ctx.stop() {
		f.ctx = nil
	}
	from := 0
	for i, j := range f.jobs {
		to := from + len(j.questions)
		if j.state.CompareAndSwap(boarded, answered) {
			if len(f.jobs) > 1 {
				copy(j.answers, f.answers[from:to])
			}
			if i > 0 {
				j.wake <- nil
			}
		} else {
			c.free(j) // its caller has gone, and nobody else has it
		}
		from = to
	}
	clear(f.jobs)
	clear(f.questions)
	clear(f.answers)
	if cap(f.room) > keptBytes {
		f.room = nil
	}
	*f = flight[Q, A]{
		jobs: f.jobs[:0], kinds: f.kinds[:0], spare: f.spare[:0], questions: f.questions[:0],
		answers: f.answers[:0], room: f.room[:0], ctx: f.ctx,
	}
}

// flightContext is a context with a deadline that is used again and again.
type flightContext struct {
	deadline time.Time
	timer    *time.Timer
	done     chan struct{}
	running  bool // between start and stop

	mu  sync.Mutex
	err error
	// extend and last are those of Options and of the flight; extended says that extend
	// was asked.
	extend   func(due, last time.Time) time.Duration
	last     time.Time
	extended bool
}

func (c *flightContext) start(deadline, last time.Time, extend func(due, last time.Time) time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = deadline
	c.extend, c.last, c.extended = extend, last, false
	c.running = true
	left := time.Until(deadline)
	if c.timer == nil {
		c.timer = time.AfterFunc(left, c.expire)
		return
	}
	c.timer.Reset(left)
}

// stop ends the use of c, and reports false when it cannot be used again.
func (c *flightContext) stop() bool {
	if !c.running {
		return true
	}
	c.running = false
	return c.timer.Stop()
}

func (c *flightContext) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.extend != nil && !c.extended {
		c.extended = true
		if more := c.extend(c.deadline, c.last); more > 0 {
			c.timer.Reset(more)
			return
		}
	}
	c.err = context.DeadlineExceeded
	close(c.done)
}

// Deadline implements context.Context.
func (c *flightContext) Deadline() (time.Time, bool) { return c.deadline, true }

// Done implements context.Context.
func (c *flightContext) Done() <-chan struct{} { return c.done }

// Err implements context.Context.
func (c *flightContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Value implements context.Context. A flight belongs to no caller.
func (c *flightContext) Value(any) any { return nil }
