package redisstore

import (
	"time"

	"github.com/headgate/headgate/limit"
)

// Recall returns the state in which this node saw the bucket of key last, whoever has
// used it, where the bucket is still in use and l has its algorithm and period. It is
// for who decides while Redis does not answer, by a clock that now says: what ends at an
// instant (the buckets, bans) ends as long after now as it does on Redis's clock,
// windows begin when they do there.
//
// It knows what a failover brings back, too (Options.Remembered): nothing of wide
// states, of what leases were granted, and of sub-buckets. It asks nobody.
func (s *Store) Recall(key []byte, l *limit.Limit, now limit.Micros) (limit.State, bool) {
	if s.memory == nil || !merges(l) {
		return limit.State{}, false
	}
	hash := hashOf(key)
	r, left := s.memory.recall(&hash, time.Now())
	if left <= 0 || r.kind != 1+uint8(l.Algorithm) || r.period != l.PeriodMicros() {
		return limit.State{}, false
	}
	state, ends := limit.State{Kind: r.kind, A: r.a, B: r.b, C: r.c, Per: l.Per()}, int64(now)+left.Microseconds()
	switch {
	case l.Algorithm == limit.FixedWindow || l.Algorithm == limit.SlidingWindow:
	case l.Algorithm == limit.Ban && state.C != 0:
		state.C = ends
	case l.Algorithm == limit.Ban:
		state.A = ends - r.period
	case state.A < 0:
		state.A, state.B = -ends, 0
	default:
		state.A, state.B = ends, 0
	}
	return state, true
}

// recall returns what is remembered of a bucket, and how long it lasts; nothing lasts
// for no time.
func (m *memory) recall(hash *keyHash, now time.Time) (remembered, time.Duration) {
	at := now.Sub(m.began).Microseconds()
	places, mu := m.set(hash)
	defer mu.Unlock()
	for i := range places {
		if p := &places[i]; p.kind != 0 && p.hash == *hash {
			return *p, micros(p.until - at)
		}
	}
	return remembered{}, 0
}
