package memstore

import (
	"sync"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// class is the size of the slot that a state needs. A key has at most one slot.
type class uint8

const (
	slim    class = iota // A and B in one word: the bucket algorithms (packing.go)
	narrow               // two words: the fixed window, and what packs in them
	medium               // A, B and C: the sliding window and the ban
	wide                 // a block in the arena: sub-windows, the log, concurrency
	classes = 4
)

// strides are the words of a slot: hash, meta, and the state or its block.
var strides = [classes]int{slim: 3, narrow: 4, medium: 5, wide: 3}

// classOf is the class of the states that l writes, but for counts that do not pack.
func classOf(l *limit.Limit) class {
	if l.Carry != limit.CarryUsed {
		return wide
	}
	c := classOfKind(1 + uint8(l.Algorithm))
	switch {
	case c == medium && packsWindows(l):
		return narrow
	case c == narrow && packsTAT(l):
		return slim
	}
	return c
}

// classFor is the class in which a state is stored whose limit is looked for in another: that,
// if the state can be there, so that it does not move whenever it happens to pack.
func classFor(s *limit.State, lookedFor class) class {
	c := classOfState(s)
	if c < lookedFor && classOfKind(s.Kind) == lookedFor {
		return lookedFor
	}
	return c
}

// classOfState is the smallest class that has room for a state.
func classOfState(s *limit.State) class {
	c := classOfKind(s.Kind)
	switch {
	case c == medium && windowsPack(s):
		return narrow
	case c == narrow && tatPacks(s):
		return slim
	}
	return c
}

// classOfKind is the class of those states of a kind that cannot be packed.
func classOfKind(kind uint8) class {
	switch kind {
	case 1 + uint8(limit.SlidingWindow), 1 + uint8(limit.Ban):
		return medium
	case 1 + uint8(limit.SubWindows), 1 + uint8(limit.SlidingLog), 1 + uint8(limit.Concurrency), limit.KindTerms, limit.KindTallies:
		return wide
	default:
		return narrow
	}
}

// shard holds the buckets of a part of the keys, in its share of the memory.
// Its fields are only touched under mu, those of the first line and share apart.
type shard struct {
	mu     spinLock
	tables [classes]table
	arena  arena
	shared *overflow // nil until the shard was full

	share      int64  // bytes that tables, arena and shared may take
	firstSize  uint64 // homes of a new table; differs by shard, see New
	pages      hugePages
	overflowed uint64 // hits decided in shared
	reclaimed  uint64 // expired slots that were emptied
	purged     uint32 // the unit of the last purge

	_ [64]byte // keeps the lock of the next shard out of our cache lines
}

// ask is one question to a shard: what is asked of which key, and when.
type ask struct {
	key   ident
	limit *limit.Limit
	hits  int64
	hold  limit.Hold
	now   limit.Micros
	op    store.Op
	dry   bool
}

// decide decides a on a bucket that holds state.
func (a *ask) decide(state limit.State) (limit.State, limit.Decision) {
	t := store.Take{Limit: a.limit, Hits: a.hits, Hold: a.hold, Op: a.op}
	return t.Decide(state, a.now)
}

// expiryOf is until when a state is kept that was decided by d.
func (a *ask) expiryOf(state *limit.State, d limit.Decision) uint32 {
	if state.Kind == limit.KindTallies {
		return expiryOf(a.now, limit.Lifetime(a.limit, *state, a.now))
	}
	return expiryOf(a.now, d.ResetAfter)
}

// mayCharge reports whether a can charge hits, or denials, to a bucket that is
// there or not.
func (a *ask) mayCharge() bool {
	return a.hits > 0 && (a.op == store.Hit || a.op == store.Charge) && a.limit.Algorithm != limit.Concurrency
}

// byHold reports whether a may take, renew or free a slot of concurrency.
func (a *ask) byHold() bool {
	if a.limit.Algorithm != limit.Concurrency {
		return false
	}
	switch a.op {
	case store.Hit, store.Refund:
		return a.hits > 0
	}
	return a.op == store.Renew || a.op == store.Release
}

// take decides one ask into d. The caller holds mu. (Decisions are handed down
// as a pointer because copying one from frame to frame costs as much as making
// it.)
func (s *shard) take(a *ask, d *limit.Decision) {
	c := classOf(a.limit)
	t := &s.tables[c]
	if c != wide && a.op == store.Hit && t.used > 0 {
		if p, ok := t.find(a.key); ok && t.take(p, c, a, d) {
			return
		}
	}
	*d = s.takeSlow(c, a)
}

// take decides a hit on the slot at p, which is not wide, unless its state becomes so.
func (t *table) take(p int, c class, a *ask, d *limit.Decision) bool {
	var state limit.State
	t.load(p, c, &state)
	kind, per, A, B, C := state.Kind, state.Per, state.A, state.B, state.C
	*d = limit.Decision{}
	limit.DecideInPlace(a.limit, &state, a.now, a.hits, d)
	if state.A != A || state.B != B || state.C != C || state.Kind != kind || state.Per != per {
		if classFor(&state, c) != c {
			return false
		}
		t.store(p, c, a.key, &state, expiryOf(a.now, d.ResetAfter))
	}
	return true
}

// load reads the state of a slot that is not wide into s, which is unused.
func (t *table) load(p int, c class, s *limit.State) {
	w := t.words[p : p+strides[c] : len(t.words)]
	s.Kind = metaKind(w[slotMeta])
	switch {
	case c == slim:
		unpackTAT(s, w[slotState])
	case c == narrow && s.Kind == kindSlidingWindow:
		unpackWindows(s, w[slotState], w[slotState+1])
	default:
		a, b := w[slotState], w[slotState+1]
		s.Per = perOf(a, b)
		s.A, s.B = withoutPer(a), withoutPer(b)
		if c == medium {
			s.C = int64(w[slotState+2])
		}
	}
}

// store writes the state of a slot that is not wide, and makes it k's. The state is of
// class c.
func (t *table) store(p int, c class, k ident, state *limit.State, expiry uint32) {
	w := t.words[p : p+strides[c] : len(t.words)]
	w[slotHash] = k.inv
	w[slotMeta] = metaOf(k.id, state.Kind, expiry)
	switch {
	case c == slim:
		w[slotState] = packTAT(state)
	case c == narrow && state.Kind == kindSlidingWindow:
		w[slotState], w[slotState+1] = packWindows(state)
	default:
		w[slotState], w[slotState+1] = withPer(state.A, state.Per>>8), withPer(state.B, state.Per)
		if c == medium {
			w[slotState+2] = uint64(state.C)
		}
	}
}

// place is where the slot of a key is.
type place struct {
	class class
	at    int // word index in the table; meaningless unless found
	found bool
}

// locate looks for k in all tables, first in the one that c names.
func (s *shard) locate(k ident, c class) place {
	for i := range class(classes) {
		at := (c + i) % classes
		if t := &s.tables[at]; t.used > 0 {
			if p, ok := t.find(k); ok {
				return place{class: at, at: p, found: true}
			}
		}
	}
	return place{}
}

// state reads the state at l. The Wide of it is the memory of its block.
func (s *shard) state(l place) (state limit.State) {
	s.read(l, &state)
	return state
}

// read is state into one that is unused.
func (s *shard) read(l place, into *limit.State) {
	t := &s.tables[l.class]
	if l.class != wide {
		t.load(l.at, l.class, into)
		return
	}
	*into = s.arena.load(int(t.words[l.at+slotState]), metaKind(t.words[l.at+slotMeta]))
}

// buffers holds the memory in which wide states are decided that do not fit, or
// must not change, where they are.
var buffers = sync.Pool{New: func() any { return new([]int64) }}

// takeSlow decides what table.take does not: wide states, refunds, resets,
// charges, renewals, releases, keys without a slot or with one of another class.
func (s *shard) takeSlow(c class, a *ask) limit.Decision {
	where := s.locate(a.key, c)
	switch {
	case a.op == store.Reset && where.found:
		s.drop(where)
		where = place{}
	case a.byHold():
		return s.takeHold(where, a)
	case a.op == store.Refund && where.found && a.hits > 0:
		next, d := limit.Refund(a.limit, s.state(where), a.now, a.hits)
		s.put(where, a, next, s.expiryOf(where, a, &next, d))
		return d
	}
	if !a.mayCharge() {
		base := s.sharedState(a)
		if where.found {
			base = s.state(where)
		}
		_, d := limit.Decide(a.limit, base, a.now, 0)
		return d
	}
	if c != wide {
		return s.hit(where, a, s.base(where, c, a))
	}
	buffer := buffers.Get().(*[]int64)
	defer buffers.Put(buffer)
	base := s.base(where, c, a)
	if need := len(base.Wide) + room(a); !where.found || need > cap(base.Wide) {
		base.Wide = copyInto(buffer, base.Wide, need)
	}
	return s.hit(where, a, base)
}

// base is the state that a hit meets. One of another class was written by another
// algorithm, and says something to those that count hits.
func (s *shard) base(where place, c class, a *ask) limit.State {
	if where.found && (where.class == c || a.limit.Algorithm <= limit.GCRA) {
		return s.state(where)
	}
	return s.sharedState(a)
}

// room is how many words a hit or charge may add to the Wide of a state.
func room(a *ask) int {
	if a.limit.Algorithm == limit.SlidingLog {
		return limit.TermWords + int(min(a.hits, a.limit.Quota))
	}
	return limit.TermWords + a.limit.SubWindows + 1
}

// copyInto copies words into a buffer and leaves room for n in all.
func copyInto(buffer *[]int64, words []int64, n int) []int64 {
	if cap(*buffer) < n {
		*buffer = make([]int64, n)
	}
	return append((*buffer)[:0], words...)
}

// hit decides a hit or a charge on base and stores what comes of it where there is
// room: in the key's own slot or else in the shared bucket.
func (s *shard) hit(where place, a *ask, base limit.State) limit.Decision {
	next, d := a.decide(base)
	if next.Kind == 0 || a.op == store.Hit && !a.charges(d) && !rewritten(where, base, next) {
		return d
	}
	expiry := s.expiryOf(where, a, &next, d)
	if s.keep(where, a, next, expiry) {
		return d
	}
	where = s.locate(a.key, where.class)
	own := where.found && where.class == classOf(a.limit)
	if where.found && !own && a.limit.Algorithm <= limit.GCRA {
		// There is no room for what the bucket is to this limit. The key becomes one
		// of those that have none.
		s.drop(where)
		return s.takeSlow(classOf(a.limit), a)
	}
	s.countOverflow(a)
	if own {
		return s.stuck(where, a)
	}
	if a.limit.Algorithm == limit.Ban {
		_, d = limit.Decide(a.limit, limit.State{}, a.now, 0)
		return d
	}
	if s.shared == nil {
		s.shared = newOverflow(s.share)
	}
	if s.shared.put(a.limit, next, unitOf(a.now), expiry) {
		return d
	}
	return refused(a)
}

// countOverflow counts a hit that has found no room.
func (s *shard) countOverflow(a *ask) {
	if !a.dry {
		s.overflowed++
	}
}

// keep puts state into the slot of the key of a, which now is at where. If there
// is no room it makes some.
func (s *shard) keep(where place, a *ask, state limit.State, expiry uint32) bool {
	if s.put(where, a, state, expiry) {
		return true
	}
	return s.purge(unitOf(a.now)) && s.put(s.locate(a.key, where.class), a, state, expiry)
}

// expiryOf is until when the bucket at where is kept, which a has made next. A denial under
// a limit with a short memory must not shorten the life of what was charged under one with
// a long memory, nor may any answer to a log, because logs do not say their period.
func (s *shard) expiryOf(where place, a *ask, next *limit.State, d limit.Decision) uint32 {
	expiry := a.expiryOf(next, d)
	if where.found && (!d.Allowed || a.limit.Algorithm == limit.SlidingLog) {
		expiry = max(expiry, metaExpiry(s.tables[where.class].words[where.at+slotMeta]))
	}
	return expiry
}

// charges reports whether a hit that is answered by d has charged anything: a denial
// does under a limit that counts those, and nothing does under a ban.
func (a *ask) charges(d limit.Decision) bool {
	return (d.Allowed || a.limit.CountDenied) && a.limit.Algorithm != limit.Ban
}

// rewritten reports whether a hit that charged nothing changed the state: Decide
// puts a state that is not of this clock in order. In a block it may have done so in place.
func rewritten(where place, base, next limit.State) bool {
	if where.found && where.class == wide {
		return true
	}
	return next.Kind != base.Kind || next.Per != base.Per || next.A != base.A || next.B != base.B || next.C != base.C
}

// stuck denies a hit that would pass but whose key has a block that cannot grow.
func (s *shard) stuck(where place, a *ask) limit.Decision {
	_, d := limit.Decide(a.limit, s.state(where), a.now, 0)
	d.Allowed, d.Remaining = false, 0
	d.RetryAfter = max(d.ResetAfter, time.Microsecond)
	return d
}

// refused denies a hit for whose key there is neither a slot nor a shared
// bucket. The bucket that would have said more is at most a period old.
func refused(a *ask) limit.Decision {
	_, d := limit.Decide(a.limit, limit.State{}, a.now, a.hits)
	if d.Allowed {
		d.Allowed, d.Remaining = false, 0
		d.RetryAfter, d.ResetAfter = a.limit.Period, a.limit.Period
	}
	return d
}

// sharedState is what a key without a slot starts from: nothing, or what keys
// like it have used of the shared bucket while the shard was full.
func (s *shard) sharedState(a *ask) limit.State {
	if s.shared == nil {
		return limit.State{}
	}
	state, _ := s.shared.find(a.limit, unitOf(a.now))
	if state == nil {
		return limit.State{}
	}
	return *state
}
