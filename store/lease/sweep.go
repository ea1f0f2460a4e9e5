package lease

import "time"

const (
	// sweepEvery is the time between two looks at what has to be sent.
	sweepEvery = 25 * time.Millisecond
	// sweepParts is in how many sweeps all buckets are looked at once.
	sweepParts = 16
	// idleHits is how many hits must have failed to come until a bucket is idle.
	idleHits = 8
)

// sweep sends what is due though nobody asks, and gives back what is idle. It reports
// whether there is a bucket.
func (s *Store) sweep() bool {
	now := s.read()
	turn := int(s.turn.Add(1) % sweepParts)
	left := 0
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		s.flush(sh, now)
		if i%sweepParts == turn {
			s.tidy(sh, now)
		}
		left += len(sh.buckets)
		sh.mu.Unlock()
	}
	return left > 0
}

// flush starts the exchanges that are due.
func (s *Store) flush(sh *shard, now time.Duration) {
	kept := sh.dirty[:0]
	for _, b := range sh.dirty {
		if b.gone || b.delta == 0 {
			b.listed = false
			continue
		}
		if b.flight == nil && now >= b.exchange && now >= b.retryAt {
			s.startExchange(b, syncInterval(b.mode), now)
		}
		kept = append(kept, b)
	}
	clear(sh.dirty[len(kept):])
	sh.dirty = kept
}

// tidy gives back what idle buckets hold, and forgets those that hold nothing.
func (s *Store) tidy(sh *shard, now time.Duration) {
	for _, b := range sh.buckets {
		b.expire(now, &sh.stats)
		idle := now - b.usedAt
		if b.flight != nil || idle < b.patience() {
			continue
		}
		if b.left() > 0 {
			s.release(sh, b, now)
		}
		if idle >= forgetAfter && b.delta == 0 {
			s.remove(sh, b, now)
		}
	}
}

// patience is how long b may be unused before it counts as idle: some times the
// usual time between two hits.
func (b *bucket) patience() time.Duration {
	rate := b.demand.Rate()
	if rate == 0 {
		return idleAfter
	}
	return min(max(time.Duration(idleHits/rate*float64(time.Second)), idleAfter), forgetAfter)
}
