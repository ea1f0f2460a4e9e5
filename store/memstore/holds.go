package memstore

import (
	"slices"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// slotRoom is how many words a hold adds to the Wide of a state.
const slotRoom = 2

// takeHold decides a take that may take, renew or free a slot of concurrency. The
// slots of a key are in its own slot of the table, or in the shared bucket of its
// limit while it has none; where they are, they are released and renewed. A key
// that gets a slot of the table starts from a copy of the shared bucket: what is
// not its own there ends at its timeout.
func (s *shard) takeHold(where place, a *ask) limit.Decision {
	buffer := buffers.Get().(*[]int64)
	defer buffers.Put(buffer)
	own := where.found && where.class == wide
	base := s.base(where, wide, a)
	if need := len(base.Wide) + slotRoom; !own || need > cap(base.Wide) {
		base.Wide = copyInto(buffer, base.Wide, need)
	}
	next, d := a.decide(base)
	expiry := expiryOf(a.now, d.ResetAfter)
	switch {
	case own:
		// A limit with a short timeout must not shorten the life of what was taken
		// under one with a long timeout, unless it changes that.
		expiry = max(expiry, metaExpiry(s.tables[wide].words[where.at+slotMeta]))
		if s.keep(where, a, next, expiry) {
			return d
		}
	case sameSlots(next, s.sharedState(a)):
		return d
	case d.Allowed && (a.op == store.Hit || a.op == store.Renew):
		if s.keep(where, a, next, expiry) {
			return d
		}
	}
	return s.overflowHold(a, next, d, expiry)
}

// overflowHold stores what has become of the shared bucket of the limit of a. If
// there is no room even there, or in a block of the key, a hit is denied, and a
// renewal is not remembered.
func (s *shard) overflowHold(a *ask, next limit.State, d limit.Decision, expiry uint32) limit.Decision {
	if a.op == store.Hit {
		s.countOverflow(a)
	}
	where := s.locate(a.key, wide)
	own := where.found && where.class == wide
	if !own {
		if s.shared == nil {
			s.shared = newOverflow(s.share)
		}
		if s.shared.put(a.limit, next, unitOf(a.now), expiry) {
			return d
		}
	}
	if a.op == store.Hit && own {
		return s.stuck(where, a)
	}
	if a.op == store.Hit {
		return refused(a)
	}
	_, d = limit.Decide(a.limit, s.base(where, wide, a), a.now, 0)
	return d
}

// sameSlots reports whether two states of concurrency hold the same; unused ones do.
func sameSlots(a, b limit.State) bool {
	return a.Kind == b.Kind && slices.Equal(a.Wide, b.Wide)
}
