package regional

import "time"

// sweepEvery is the time between two looks at what is idle.
const sweepEvery = 250 * time.Millisecond

// sweep gives back what is idle or about to end, and forgets what was not used for long. It
// reports whether there is a bucket.
func (s *Store) sweep() bool {
	now := s.read()
	left := 0
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		for _, b := range sh.buckets {
			b.expire(now)
			switch {
			case b.queued:
			case !b.Idle(now):
				if b.Ending(now) {
					s.handBackOne(b, now)
				}
			case now-b.usedAt >= forgetAfter:
				s.remove(sh, b, now)
			default:
				s.handBack(b, now)
			}
		}
		left += len(sh.buckets)
		sh.mu.Unlock()
	}
	return left > 0
}
