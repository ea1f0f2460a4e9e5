package lease

import (
	"context"
	"sync"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// maxWaits is how often a take waits for a lease before the store decides it.
const maxWaits = 2

// call is one call of Take under way.
type call struct {
	takes   []store.Take
	results []store.Result
	steps   []step
	now     time.Duration
	at      time.Time // now, for the detector
	again   bool      // takes are looked at for the second time
	// observed says that the detector knows of the takes.
	observed bool
	sent     time.Duration

	waiting []unit // what waits for leases
	asked   []unit // what the store is asked, or was asked elsewhere
	asks    []store.Take
	answers []store.Result
}

// unit is takes[from:to] that stand or fall together: a group, or one take. Its
// asks are call.asks[ask:ask+asks].
type unit struct{ from, to, ask, asks int }

var calls = sync.Pool{New: func() any { return new(call) }}

// Take implements store.Store.
func (s *Store) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	if store.HasDryRun(takes) {
		s.takeRuns(ctx, takes, results)
		return
	}
	modes, observed := s.look(takes)
	if !modes {
		s.inner.Take(ctx, takes, results)
		return
	}
	c := calls.Get().(*call)
	c.takes, c.results, c.observed = takes, results, observed
	c.now = s.read()
	s.run(ctx, c)
	c.reset()
	calls.Put(c)
}

// look says whether one of takes may be decided here. When all are exact it notes
// them for the detector, and says so.
func (s *Store) look(takes []store.Take) (here, observed bool) {
	exact := 0
	for i := range takes {
		if m := takes[i].Mode; m != nil {
			if m.Consistency != store.Exact {
				return true, false
			}
			exact++
		}
	}
	if exact == 0 || s.hot == nil {
		return false, false
	}
	at := s.clock.Now()
	for i := range takes {
		t := &takes[i]
		switch {
		case t.Mode == nil, !followed(t.Limit):
		case t.Op == store.Hit:
			here = s.isHot(t, s.hash(t.Key), 1, at) || here
		default:
			here = here || t.Mode.AutoLease // a reset may concern a lease
		}
	}
	return here, true
}

// reset lets go of all that belongs to the caller.
func (c *call) reset() {
	clear(c.steps)
	clear(c.asks)
	clear(c.answers)
	// One by one is less work than writing all of a call anew.
	c.takes, c.results, c.again, c.observed, c.at = nil, nil, false, false, time.Time{}
	c.steps, c.waiting, c.asked, c.asks, c.answers = c.steps[:0], c.waiting[:0], c.asked[:0], c.asks[:0], c.answers[:0]
}

// run decides what can be decided at once, asks the store for the rest while the
// leases that are needed are on their way, and tries again when they are here.
func (s *Store) run(ctx context.Context, c *call) {
	for len(c.steps) < len(c.takes) {
		c.steps = append(c.steps, step{})
	}
	for from, to := 0, 0; from < len(c.takes); from = to {
		to = store.GroupEnd(c.takes, from)
		s.try(ctx, c, unit{from: from, to: to}, false)
	}
	s.askStore(ctx, c)
	for waits := 1; len(c.waiting) > 0; waits++ {
		again := c.waiting
		c.waiting = nil
		c.again = true
		for _, u := range again {
			if s.await(ctx, c, u) {
				s.try(ctx, c, u, waits == maxWaits)
			}
		}
		s.askStore(ctx, c)
	}
}

// await waits until the flights that u waits for are answered, and reports
// whether u should be tried again; otherwise its takes carry an error.
func (s *Store) await(ctx context.Context, c *call, u unit) bool {
	for i := u.from; i < u.to; i++ {
		f := c.steps[i].flight
		if f == nil {
			continue
		}
		store.Waits(ctx)
		patience := f.late - c.now
		if c.steps[i].b.kind == synced {
			// Who asks the store before what is owed is charged is told of too many.
			s.courier.hasten(f)
			patience = s.budget
		}
		now, hurried := time.Now(), false
		if by, ok := store.AnswerBy(ctx, now); ok && by.Sub(now) < patience {
			patience, hurried = by.Sub(now), true
		}
		late := time.NewTimer(patience)
		defer late.Stop()
		var err error
		select {
		case <-f.done:
			err = f.err
		case <-late.C:
			if hurried {
				err = unanswered(context.DeadlineExceeded)
			}
		case <-ctx.Done():
			err = unanswered(context.Cause(ctx))
		}
		if err != nil {
			c.fail(u, err)
			return false
		}
	}
	c.now = s.read()
	return true
}

// unanswered is why a take fails whose caller waits no longer.
func unanswered(cause error) *store.Error {
	return &store.Error{Op: "lease", Store: "shared store", Reason: store.Timeout, Err: cause}
}

func (c *call) fail(u unit, err error) {
	for i := u.from; i < u.to; i++ {
		c.results[i] = store.Result{Err: err}
	}
}

// try decides u from memory as far as that goes, and lists what is left to ask.
func (s *Store) try(ctx context.Context, c *call, u unit, final bool) {
	isDenied, owes := false, false
	waits, asks, elsewheres := 0, 0, 0
	for i := u.from; i < u.to; i++ {
		st, t, r := &c.steps[i], &c.takes[i], &c.results[i]
		r.Err, r.Skipped, r.Basis = nil, false, store.OnBucket
		s.decide(c, t, st, &r.Decision, final)
		switch st.outcome {
		case served:
			r.Basis = st.basis
		case denied:
			isDenied, r.Basis = isDenied || !t.Shadow, st.basis
		case wait:
			waits++
			owes = owes || st.b.kind == synced
		case elsewhere:
			elsewheres++
		case ask:
			asks++
		}
	}
	switch {
	case isDenied && u.to-u.from > 1:
		s.deny(c, u, false)
		return
	case owes || waits > 0 && asks+elsewheres == 0:
		s.putBackAll(c, u)
		c.waiting = append(c.waiting, u)
		return
	}
	if elsewheres > 0 && !s.askLocal(ctx, c, u) {
		s.deny(c, u, true)
		return
	}
	u.ask = len(c.asks)
	for i := u.from; i < u.to; i++ {
		if o := c.steps[i].outcome; o == ask || o == wait {
			c.steps[i].outcome = ask
			c.asks = append(c.asks, c.takes[i])
			u.asks++
			// Units between which all was decided here must not become one.
			group := uint32(0)
			if u.to-u.from > 1 {
				group = uint32(u.from) + 1
			}
			c.asks[len(c.asks)-1].Group = group
		}
	}
	if u.asks > 0 || elsewheres > 0 {
		c.asked = append(c.asked, u)
	}
}

// deny ends a group of which a take is denied: nothing of it is charged. Asked
// says that Options.Local has answered its takes.
func (s *Store) deny(c *call, u unit, asked bool) {
	s.putBackAll(c, u)
	for i := u.from; i < u.to; i++ {
		switch o := c.steps[i].outcome; {
		case o == ask, o == wait, o == elsewhere && !asked:
			c.results[i] = skipped(c.takes[i].Limit)
		}
	}
}

// skipped is the answer to a take that nobody has looked at.
func skipped(l *limit.Limit) store.Result {
	return store.Result{Decision: limit.Decision{Allowed: true, Limit: l.Capacity()}, Skipped: true}
}

// putBackAll undoes the served takes of u.
func (s *Store) putBackAll(c *call, u unit) {
	for i := u.from; i < u.to; i++ {
		if st := &c.steps[i]; st.outcome == served {
			s.putBack(st, &c.results[i].Decision, c.now)
		}
	}
}

// askStore asks the shared store for all that is listed, and books its answers.
func (s *Store) askStore(ctx context.Context, c *call) {
	if len(c.asked) == 0 {
		return
	}
	if len(c.asks) > 0 {
		for len(c.answers) < len(c.asks) {
			c.answers = append(c.answers, store.Result{})
		}
		c.sent = s.read()
		s.inner.Take(ctx, c.asks, c.answers[:len(c.asks)])
		c.now = s.read()
	}
	for _, u := range c.asked {
		s.book(ctx, c, u)
	}
	c.asked, c.asks = c.asked[:0], c.asks[:0]
}

// book notes the answers of the store to u, and undoes what was deducted for it
// elsewhere if it is denied.
func (s *Store) book(ctx context.Context, c *call, u unit) {
	passes, at := true, u.ask
	var undecided error
	for i := u.from; i < u.to; i++ {
		st, t, r := &c.steps[i], &c.takes[i], &c.results[i]
		if st.outcome != ask {
			continue
		}
		*r = c.answers[at]
		at++
		if r.Err == nil && !r.Skipped && !r.Allowed && t.Op == store.Hit && !t.Shadow {
			passes = false
		}
		if r.Err != nil && t.Op == store.Hit && !t.Shadow {
			undecided = r.Err
		}
	}
	for i := u.from; i < u.to; i++ {
		if st := &c.steps[i]; st.outcome == ask && st.b != nil {
			s.learned(c, &c.takes[i], st, &c.results[i])
		}
	}
	if !passes && u.to-u.from > 1 {
		s.putBackAll(c, u)
	}
	s.bookLocal(ctx, c, u, passes, undecided)
}
