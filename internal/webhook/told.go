package webhook

import "sync"

const (
	// maxTold bounds the limits of tenants of which it is remembered what was told; the
	// oldest are forgotten, and may be told again.
	maxTold = 100_000

	toldShards = 16
	// generation bounds one of the two generations of a shard.
	generation = maxTold / toldShards / 2
)

// told remembers up to which threshold was told of each limit. Each shard has two
// generations: what is told moves to the young one, and when that is full it becomes
// the old one, which is forgotten.
type told struct {
	shards [toldShards]toldShard
}

type toldShard struct {
	mu         sync.Mutex
	young, old map[uint64]mark
}

// mark is a window and the highest threshold that was told in it.
type mark struct {
	window    int64
	threshold int
}

// rise notes that a limit has reached a threshold in a window, and returns the one
// that was told before in the same window, 0 for none. ok is false when that one is
// not lower. A window before the one that was told last is over: a straggler.
func (t *told) rise(key uint64, window int64, threshold int) (before int, ok bool) {
	s := &t.shards[key%toldShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	m, known := s.young[key]
	if !known {
		m, known = s.old[key]
	}
	if known && m.window > window {
		return 0, false
	}
	if known && m.window == window {
		before = m.threshold
	}
	if ok = before < threshold; ok {
		s.putLocked(key, mark{window, threshold})
	}
	return before, ok
}

func (s *toldShard) putLocked(key uint64, m mark) {
	if _, there := s.young[key]; !there && len(s.young) >= generation {
		s.young, s.old = nil, s.young
	}
	if s.young == nil {
		s.young = map[uint64]mark{}
	}
	s.young[key] = m
}
