package memstore

import "github.com/headgate/headgate/limit"

// Raise sees to it that the bucket of key holds at least state, which another store
// has told of it under l (limit.Merge). State is of the clock of this Store. States
// that are wide are passed over, and so is a key for which there is no room, or whose
// bucket another algorithm has written.
func (s *Store) Raise(key []byte, l *limit.Limit, state limit.State) {
	a := ask{key: s.identBytes(key), limit: l, now: s.micros()}
	c := classOf(l)
	if c == wide || state.Kind == 0 || classOfKind(state.Kind) != classOfKind(1+uint8(l.Algorithm)) {
		return
	}
	sh := s.shardOf(a.key)
	sh.mu.lock()
	defer sh.mu.unlock()
	sh.raise(c, &a, state)
}

func (s *shard) raise(c class, a *ask, state limit.State) {
	where := s.locate(a.key, c)
	var before limit.State
	if where.found {
		before = s.state(where)
		if classOfKind(before.Kind) != classOfKind(state.Kind) {
			return
		}
	}
	next := limit.Merge(a.limit, before, state)
	lasts := limit.Lifetime(a.limit, next, a.now)
	if lasts == 0 || !rewritten(where, before, next) {
		return
	}
	s.keep(where, a, next, expiryOf(a.now, lasts))
}

// Holds reports whether key has a bucket of its own. One that is as if unused may have
// been dropped, and one that was decided when the Store was full may have none.
func (s *Store) Holds(key []byte) bool {
	k := s.identBytes(key)
	sh := s.shardOf(k)
	sh.mu.lock()
	defer sh.mu.unlock()
	return sh.locate(k, narrow).found
}

// Now is the instant at which the Store would decide.
func (s *Store) Now() limit.Micros { return s.micros() }
