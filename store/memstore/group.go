package memstore

import (
	"math"
	"slices"
	"sync"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// A group is decided by doing it: each take is charged as if it stood alone,
// after what it will change was written down. If one is denied, all is undone
// from the last to the first. A dry run is decided likewise, whatever it says, and
// then undone. Nobody sees what is undone, because the group holds the locks of all
// its shards: see lockAll.
type group struct {
	asks   []ask
	shards []uint64 // indexes, ascending, each once
	undo   []undo
	words  []int64 // the Wide of the states in undo, end to end
	seen   uint64  // what lookAhead has seen, which says nothing
}

// undo is a bucket as it was before a take, and the shared bucket in its place.
type undo struct {
	ask         *ask
	own, shared saved
	expiry      uint32
}

// saved is a state whose Wide is in group.words[from:to]. Kind 0 is none.
type saved struct {
	state    limit.State
	from, to int
}

var groups = sync.Pool{New: func() any { return new(group) }}

// takeGroup decides takes that are all or nothing.
func (s *Store) takeGroup(takes []store.Take, results []store.Result, now limit.Micros) {
	g := groups.Get().(*group)
	defer groups.Put(g)
	g.begin(s, takes, now)
	defer g.end(s)
	g.lookAhead(s)
	g.decide(s, 0, takes, results)
	g.undo = g.undo[:0]
}

// dryRun decides takes of which all are dry runs.
func (s *Store) dryRun(takes []store.Take, results []store.Result, now limit.Micros) {
	g := groups.Get().(*group)
	defer groups.Put(g)
	g.begin(s, takes, now)
	defer g.end(s)
	g.lookAhead(s)
	for from, to := 0, 0; from < len(takes); from = to {
		to = store.GroupEnd(takes, from)
		g.decide(s, from, takes[from:to], results[from:to])
	}
}

// begin hashes the keys, and locks the shards that they are in.
func (g *group) begin(s *Store, takes []store.Take, now limit.Micros) {
	g.asks, g.shards, g.undo, g.words = g.asks[:0], g.shards[:0], g.undo[:0], g.words[:0]
	for i := range takes {
		g.asks = append(g.asks, ask{})
		a := &g.asks[i]
		s.ask(a, &takes[i], now)
		g.shards = append(g.shards, a.key.inv&s.mask)
	}
	slices.Sort(g.shards)
	g.shards = slices.Compact(g.shards)
	g.lockAll(s)
}

// maxTries is how often a group looks for a moment in which all its shards are free.
const maxTries = 4

// lockAll takes the locks of all shards of the group. Where one is held, it gives back those
// that it has and waits for that one first: a group that waited with locks in its hands
// would hold up others, and these others again, until hardly anybody decides. Only a group whose
// shards are not all free for long takes them one by one in ascending order, and waits for
// each with those before in its hands; as nobody else waits with a lock, and these all in
// the same order, none waits for ever.
func (g *group) lockAll(s *Store) {
	first := 0
	for range maxTries {
		s.shards[g.shards[first]].mu.lock()
		held := g.lockOthers(s, first)
		if held == first {
			return
		}
		s.shards[g.shards[first]].mu.unlock()
		first = held
	}
	for _, shard := range g.shards {
		s.shards[shard].mu.lock()
	}
}

// lockOthers takes the locks of all shards but that at first, which the group has, and
// returns first; or takes none and returns the place of one that is held.
func (g *group) lockOthers(s *Store, first int) int {
	for i, shard := range g.shards {
		if i == first || s.shards[shard].mu.tryLock() {
			continue
		}
		for j, taken := range g.shards[:i] {
			if j != first {
				s.shards[taken].mu.unlock()
			}
		}
		return i
	}
	return first
}

// lookAhead looks at the homes of all keys before the first is decided, so that the processor
// waits for their memory at once and not for one after the other.
func (g *group) lookAhead(s *Store) {
	for i := range g.asks {
		a := &g.asks[i]
		g.seen ^= s.shardOf(a.key).tables[classOf(a.limit)].look(a.key)
	}
}

// end undoes what is in the undo list, after a panic too: nothing is charged then.
func (g *group) end(s *Store) {
	g.rollBack(s, 0)
	for _, i := range g.shards {
		s.shards[i].mu.unlock()
	}
}

// decide decides takes, whose asks are those from first on, and which are one group or
// one take.
func (g *group) decide(s *Store, first int, takes []store.Take, results []store.Result) {
	from := len(g.undo)
	if g.charge(s, first, takes, results) || takes[0].Group == 0 {
		return
	}
	g.rollBack(s, from)
	for i := range takes {
		if a := &g.asks[first+i]; a.op != store.Hit || results[i].Allowed {
			peek := *a
			peek.op, peek.hits = store.Hit, 0
			s.shardOf(a.key).take(&peek, &results[i].Decision)
		}
	}
}

// charge decides the takes one after the other and reports whether the group
// passes. Refunds and resets are never denied.
func (g *group) charge(s *Store, first int, takes []store.Take, results []store.Result) bool {
	passes := true
	for i := range takes {
		a := &g.asks[first+i]
		sh := s.shardOf(a.key)
		g.remember(sh, a)
		results[i].Err = nil
		sh.take(a, &results[i].Decision)
		if a.op == store.Hit && !results[i].Allowed && !takes[i].Shadow {
			passes = false
		}
	}
	return passes
}

// remember writes down what a may change. It fills in what it writes where it is: a state that
// is copied right after its small fields were written makes the processor wait for them.
func (g *group) remember(sh *shard, a *ask) {
	where := sh.locate(a.key, classOf(a.limit))
	g.undo = append(g.undo, undo{})
	u := &g.undo[len(g.undo)-1]
	if u.ask = a; where.found {
		sh.read(where, &u.own.state)
		g.keepWide(&u.own)
		u.expiry = metaExpiry(sh.tables[where.class].words[where.at+slotMeta])
	}
	if sh.shared != nil {
		u.shared.state = sh.sharedState(a)
		g.keepWide(&u.shared)
	}
}

// keepWide copies the Wide of the state in v, which Decide may overwrite.
func (g *group) keepWide(v *saved) {
	v.from = len(g.words)
	g.words = append(g.words, v.state.Wide...)
	v.to = len(g.words)
}

func (g *group) saved(v saved) limit.State {
	v.state.Wide = g.words[v.from:v.to]
	return v.state
}

// rollBack undoes what is in the undo list from an index on, and shortens it to that.
func (g *group) rollBack(s *Store, from int) {
	for i := len(g.undo) - 1; i >= from; i-- {
		u, a := &g.undo[i], g.undo[i].ask
		sh := s.shardOf(a.key)
		sh.restore(a, g.saved(u.own), u.expiry)
		if sh.shared != nil {
			sh.shared.restore(a.limit, g.saved(u.shared), unitOf(a.now))
		}
	}
	g.undo = g.undo[:from]
}

// restore makes state, which may be none, that of the key of a again. What it
// needs was there before the group, but may be in other hands now (an array that
// has grown since), so the shard's share does not count here.
func (s *shard) restore(a *ask, state limit.State, expiry uint32) {
	where := s.locate(a.key, classOf(a.limit))
	share := s.share
	s.share = math.MaxInt64
	s.put(where, a, state, expiry)
	s.share = share
}
