package regional

import (
	"context"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// step is how one take of a call fares.
type step struct {
	cut Cut
	err error // it cannot be decided here
	// spent says that it passes by rights of b. asked is where the region's store is asked for
	// it, -1 where it is not.
	b     *bucket
	hash  uint64
	spent bool
	of    Spent
	asked int
	known Known
}

// call is one Take under way. Calls are used again.
type call struct {
	now     time.Duration
	takes   []store.Take
	results []store.Result
	steps   []step
	asks    []store.Take
	answers []store.Result
	keys    []byte // of asks
}

var calls = sync.Pool{New: func() any { return new(call) }}

// maxKept bounds the takes of a call that is kept to be used again.
const maxKept = 256

// release forgets what c was about, and keeps its memory.
func (c *call) release() {
	if cap(c.steps) > maxKept || cap(c.keys) > maxKept*maxKey {
		return
	}
	c.takes, c.results = nil, nil
	clear(c.steps)
	clear(c.asks)
	clear(c.answers)
	c.steps, c.asks, c.answers, c.keys = c.steps[:0], c.asks[:0], c.answers[:0], c.keys[:0]
	calls.Put(c)
}

// Take implements store.Store. It never asks the home, but for a Reset.
func (s *Store) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	c := calls.Get().(*call)
	defer c.release()
	c.now, c.takes, c.results = s.read(), takes, results
	c.steps = slices.Grow(c.steps[:0], len(takes))[:len(takes)]
	for from, to := 0, 0; from < len(takes); from = to {
		to = store.GroupEnd(takes, from)
		for i := from; i < to; i++ {
			s.decide(c, i, uint32(from)+1, to-from > 1)
		}
	}
	c.answers = slices.Grow(c.answers[:0], len(c.asks))[:len(c.asks)]
	if len(c.asks) > 0 {
		s.own.Take(ctx, c.asks, c.answers)
	}
	for from, to := 0, 0; from < len(takes); from = to {
		to = store.GroupEnd(takes, from)
		s.book(ctx, c, from, to)
	}
}

// decide lets take i pass by rights if they suffice, and else lists it for the region's store.
func (s *Store) decide(c *call, i int, group uint32, grouped bool) {
	t, st := &c.takes[i], &c.steps[i]
	st.asked = -1
	if st.cut, st.err = s.cuts.Get(t.Limit); st.err != nil {
		return
	}
	left := t.Hits
	st.hash = maphash.Bytes(s.seed, t.Key)
	sh := s.shardOf(st.hash)
	sh.mu.Lock()
	if b := s.bucketFor(sh, st.hash, t, st.cut, c.now); b != nil && !s.courier.draining.Load() {
		st.b = b
		left = s.byRights(b, t, c.now, st)
		st.known = b.Known(c.now)
		s.courier.ask(b, c.now)
	}
	if !st.spent {
		sh.rowOf(t, st.b).Reserved++
	}
	sh.mu.Unlock()
	if st.spent {
		return
	}
	ask := *t
	c.keys, ask.Key = appendOwnKey(c.keys, t.Key, s.region)
	ask.Limit, ask.Hits, ask.Group = st.cut.Own, left, 0
	if grouped {
		ask.Group = group
	}
	st.asked = len(c.asks)
	c.asks = append(c.asks, ask)
}

// byRights does what can be done for t with what b holds, and returns how many hits are left
// for the reserve. The lock of its shard is held.
func (s *Store) byRights(b *bucket, t *store.Take, now time.Duration, st *step) (left int64) {
	switch {
	case t.Hits == 0 && t.Op != store.Reset:
	case t.DryRun:
		st.spent = t.Op == store.Hit && b.Held(now) >= t.Hits
	case t.Op == store.Hit:
		b.Note(t.Hits, now)
		if st.of, st.spent = b.Spend(t.Hits, now); st.spent {
			b.row.Used += t.Hits
			b.row.Leased++
		}
	case t.Op == store.Refund:
		taken := b.GiveBack(t.Hits, now)
		b.row.Used -= taken
		return t.Hits - taken
	case t.Op == store.Charge:
		charged := b.Charge(t.Hits, now)
		b.row.Used += charged
		return t.Hits - charged
	case t.Op == store.Reset:
		b.Drop()
		b.voided = b.asking
	}
	return t.Hits
}

// book makes answers of what the region's store said to the group in [from, to), and puts
// back what was spent for it if it is denied.
func (s *Store) book(ctx context.Context, c *call, from, to int) {
	denied := false
	for i := from; i < to; i++ {
		t, st, r := &c.takes[i], &c.steps[i], &c.results[i]
		*r = store.Result{Err: st.err}
		switch {
		case st.err != nil:
		case st.spent:
			r.Decision = limit.Decision{Allowed: true, Limit: t.Limit.Capacity(), Remaining: min(st.known.Remaining, t.Limit.Capacity()), ResetAfter: micros(st.known.ResetAfter)}
			r.Basis = store.OnAdvance
		default:
			*r = c.answers[st.asked]
			s.join(t, st, r)
			denied = denied || t.Op == store.Hit && !t.Shadow && r.Err == nil && !r.Skipped && !r.Allowed
		}
		if t.Op == store.Reset && st.err == nil {
			s.resetHome(ctx, t, st, r)
		}
	}
	if denied && to-from > 1 {
		s.putBack(c, from, to)
	}
}

// join makes of the answer of the reserve that for the limit: what is held and what the home
// has left count too, and the reserve is not the only place that hits come from.
func (s *Store) join(t *store.Take, st *step, r *store.Result) {
	if r.Err != nil {
		return
	}
	r.Limit = t.Limit.Capacity()
	if r.Skipped {
		return
	}
	s.noteLevel(t, st, r.Remaining)
	r.Remaining = min(r.Remaining+st.known.Remaining, r.Limit)
	r.ResetAfter = s.resetAfter(t, st, r.ResetAfter)
	if r.Allowed || t.Op != store.Hit {
		return
	}
	// The node knows itself when it will hold something, and asks nobody until then.
	r.Basis = s.starve(t, st)
	if t.Hits == 0 && r.Remaining > 0 {
		r.Allowed, r.RetryAfter, r.Never = true, 0, false
		return
	}
	r.Never = t.Hits > r.Limit
	soon := micros(st.known.RetryAfter)
	if soon == 0 && st.b != nil && s.courier.mayLend(st.cut.Fence) {
		soon = horizon // it is being asked for the first time
	}
	switch {
	case r.Never:
		r.RetryAfter = 0
	case soon > 0 && (r.RetryAfter == 0 || soon < r.RetryAfter):
		r.RetryAfter = soon
	case r.RetryAfter == 0:
		r.RetryAfter = micros(horizon)
	}
}

// resetAfter is the ResetAfter of an answer to which the reserve has given that of its part. A fixed
// window is over when that of the home is, although what was used of the reserve comes back up to a
// window later: else callers would hear now that the month ends today, and now that it ends in a month.
func (s *Store) resetAfter(t *store.Take, st *step, reserve time.Duration) time.Duration {
	home := micros(st.known.ResetAfter)
	switch {
	case t.Limit.Algorithm != limit.FixedWindow:
		return max(reserve, home)
	case home > 0:
		return home
	}
	return min(reserve, t.Limit.WindowLeft(s.clock.Wall())) // of the home nothing is known
}

// noteLevel tells the row of t what the reserve has left.
func (s *Store) noteLevel(t *store.Take, st *step, left int64) {
	now := s.read() // not under the lock, which drop takes
	sh := s.shardOf(st.hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.rowOf(t, st.b).level.note(left, st.cut.Own.Capacity(), now)
}

// starve counts that the reserve has denied t too, and asks the home for more. It returns
// whether the limit is used up, as far as this node knows, or the reserve alone, because the
// home does not answer.
func (s *Store) starve(t *store.Take, st *step) store.Basis {
	now := s.read() // not under the lock, which drop takes
	sh := s.shardOf(st.hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.rowOf(t, st.b).Denied++
	if st.b != nil && !t.DryRun && t.Hits > 0 {
		st.b.Starve(t.Hits)
		s.courier.ask(st.b, now)
	}
	if (st.b == nil || !st.b.UsedUp(now)) && s.courier.failing() {
		return store.OnReserve
	}
	return store.OnAdvance
}

// putBack undoes what was spent for a group that is denied.
func (s *Store) putBack(c *call, from, to int) {
	for i := from; i < to; i++ {
		t, st, r := &c.takes[i], &c.steps[i], &c.results[i]
		if !st.spent || t.DryRun {
			continue
		}
		now := s.read() // not under the lock, which drop takes
		sh := s.shardOf(st.hash)
		sh.mu.Lock()
		// What belongs to a lease that has ended meanwhile is lost.
		taken := st.b.PutBack(st.of, now)
		st.b.row.Used -= taken
		st.b.row.Leased--
		sh.mu.Unlock()
		r.Remaining = min(r.Remaining+taken, r.Limit)
	}
}

// resetHome resets the home's part too: that alone waits for the home, because whoever resets
// has to hear whether it was done.
func (s *Store) resetHome(ctx context.Context, t *store.Take, st *step, r *store.Result) {
	if t.DryRun || r.Err != nil {
		return
	}
	var answer [1]store.Result
	s.home.Take(ctx, []store.Take{{Key: t.Key, Limit: st.cut.Home, Op: store.Reset}}, answer[:])
	if answer[0].Err != nil {
		*r = answer[0]
		return
	}
	r.Remaining = min(r.Remaining+answer[0].Remaining, r.Limit)
}

// micros rounds d up to whole microseconds.
func micros(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return (d + time.Microsecond - 1).Truncate(time.Microsecond)
}
