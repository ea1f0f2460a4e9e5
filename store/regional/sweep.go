package regional

import (
	"sync"
	"time"
)

// sweepEvery is the time between two looks at what is idle.
const sweepEvery = 250 * time.Millisecond

// sweeping comes again as long as there is a bucket.
type sweeping struct {
	mu     sync.Mutex
	timer  *time.Timer
	awake  bool
	closed bool
}

func (w *sweeping) wake(s *Store) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.awake || w.closed {
		return
	}
	w.awake = true
	w.timer = time.AfterFunc(sweepEvery, s.sweep)
}

func (w *sweeping) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if w.timer != nil {
		w.timer.Stop()
	}
}

// sweep gives back what is idle, and forgets what was not used for long.
func (s *Store) sweep() {
	now := s.read()
	s.sweeping.mu.Lock()
	s.sweeping.awake = false // a bucket that is made from here on wakes it again
	s.sweeping.mu.Unlock()
	left := 0
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		for _, b := range sh.buckets {
			b.expire(now)
			switch {
			case b.queued || !b.Idle(now):
			case now-b.usedAt >= forgetAfter:
				s.remove(sh, b, now)
			default:
				s.handBack(b, now)
			}
		}
		left += len(sh.buckets)
		sh.mu.Unlock()
	}
	if left > 0 {
		s.sweeping.wake(s)
	}
}
