package coalesce

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// flight is one call of Fly. One with a single job uses what its caller gave;
// one with several has copies.
type flight struct {
	jobs    []*job
	kinds   []kind // of the jobs
	spare   []*job // see arrange
	cost    int
	takesOf int // takes of the jobs
	// soonest and latest are the ends of what the deadlines aboard leave;
	// endless says that there are none.
	soonest, latest time.Duration
	endless         bool
	deadline, last  time.Time // the earliest of those aboard

	takes   []store.Take
	results []store.Result
	keys    []byte
	ctx     *flightContext
}

// kind is a likeness and how many jobs have it.
type kind struct {
	likeness uint64
	jobs     int
}

// join takes j aboard if there is room and their times left are similar.
func (f *flight) join(j *job, now time.Time, maxCost int) bool {
	endless, left := j.deadline.IsZero(), j.deadline.Sub(now)
	if len(f.jobs) == 0 {
		f.endless, f.soonest, f.latest, f.deadline, f.last = endless, left, left, j.deadline, j.last
	}
	cost := j.cost
	at, known := f.kindOf(j.likeness)
	if known {
		cost = 0
	}
	soonest, latest := min(f.soonest, left), max(f.latest, left)
	if len(f.jobs) > 0 {
		if f.cost+cost > maxCost || f.takesOf+len(j.takes) > MaxTakes || f.endless != endless {
			return false
		}
		if j.dry || f.jobs[0].dry {
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
	f.takesOf += len(j.takes)
	if !known {
		f.kinds = append(f.kinds, kind{likeness: j.likeness})
	}
	f.kinds[at].jobs++
	j.kind = at
	return true
}

// kindOf looks through the few kinds that MaxCost allows, and returns the place
// of a likeness among them, or the next free one.
func (f *flight) kindOf(likeness uint64) (at int, known bool) {
	for i := range f.kinds {
		if f.kinds[i].likeness == likeness {
			return i, true
		}
	}
	return len(f.kinds), false
}

// arrange puts jobs that say the same one after the other, so that Fly finds them
// together. The first job stays the first.
func (f *flight) arrange() {
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

// copyTakes copies the takes and keys of all aboard, n takes, and numbers their
// groups anew. Callers cannot leave meanwhile.
func (f *flight) copyTakes(n int) {
	group := uint32(0)
	for _, j := range f.jobs {
		for from, to := 0, 0; from < len(j.takes); from = to {
			to = store.GroupEnd(j.takes, from)
			group++
			for _, t := range j.takes[from:to] {
				if t.Group != 0 {
					t.Group = group
				}
				f.keys = append(f.keys, t.Key...)
				f.takes = append(f.takes, t)
			}
		}
	}
	// The copies stay in place only from here on.
	at := 0
	for i := range f.takes {
		end := at + len(f.takes[i].Key)
		f.takes[i].Key = f.keys[at:end:end]
		at = end
	}
	if cap(f.results) < n {
		f.results = make([]store.Result, n, max(n, 2*cap(f.results)))
	}
	f.results = f.results[:n]
}

// context returns the context of a flight with several aboard.
func (f *flight) context(extend func(due, last time.Time) time.Duration) context.Context {
	if f.deadline.IsZero() {
		return context.Background()
	}
	if f.ctx == nil {
		f.ctx = &flightContext{done: make(chan struct{})}
	}
	f.ctx.start(f.deadline, f.last, extend)
	return f.ctx
}

// fail answers all aboard with err.
func (f *flight) fail(err error) {
	if len(f.jobs) == 1 {
		refuse(f.jobs[0].results, err)
	} else {
		refuse(f.results, err)
	}
}

// land gives the results to those who still wait for them, and makes f ready
// for another use. Its first job, who flew it, needs no call.
func (f *flight) land(c *Coalescer) {
	if f.ctx != nil && !f.ctx.stop() {
		f.ctx = nil
	}
	from := 0
	for i, j := range f.jobs {
		to := from + len(j.takes)
		if j.state.CompareAndSwap(boarded, answered) {
			if len(f.jobs) > 1 {
				copy(j.results, f.results[from:to])
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
	clear(f.takes)
	clear(f.results)
	if cap(f.keys) > keptBytes {
		f.keys = nil
	}
	*f = flight{
		jobs: f.jobs[:0], kinds: f.kinds[:0], spare: f.spare[:0], takes: f.takes[:0],
		results: f.results[:0], keys: f.keys[:0], ctx: f.ctx,
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

// likenessOf returns the same for takes that say the same. A take on slots of
// concurrency is about its own hold, and so it is like no other request's; hits
// on a ban, which change nothing, are all alike. That others share it by chance is
// harmless: their cost is then not counted.
func likenessOf(seed maphash.Seed, takes []store.Take) uint64 {
	type part struct {
		before, key uint64
		limit       *limit.Limit
		hits        int64
		hold        limit.Hold
		op          store.Op
		shadow      bool
		grouped     bool
	}
	var h uint64
	for i := range takes {
		t := &takes[i]
		hits, hold := t.Hits, limit.Hold(0)
		switch {
		case t.Limit.Algorithm == limit.Concurrency:
			hold = t.Hold
		case t.Limit.Algorithm == limit.Ban && t.Op == store.Hit:
			hits = min(hits, 1)
		}
		h = maphash.Comparable(seed, part{h, maphash.Bytes(seed, t.Key), t.Limit, hits, hold, t.Op, t.Shadow, t.Group != 0})
	}
	return h
}
