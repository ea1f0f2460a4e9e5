// Package orphans remembers slots that requests may have though they were denied, because
// the store could not say, and could not release them at once either: a store that stalls
// for a moment does so for both calls. Later calls release them, so that there is no
// goroutine behind it, and nothing is done while nobody asks.
package orphans

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

const (
	// maxSlots bounds the slots that are remembered to be released, at some 200 bytes each:
	// 2 MB. One more ends by its timeout.
	maxSlots = 10_000
	// perCall is how many of them one call releases: a millisecond of work for a store.
	perCall = 16
	// every is the time between two such calls while they fail.
	every = 200 * time.Millisecond
)

// Slots are the slots that are to be released. The zero value has none. It is safe for
// concurrent use.
type Slots struct {
	number atomic.Int64
	mu     struct {
		sync.Mutex
		slots map[slot]orphan
		due   time.Time
	}
}

// slot is one of them: whose, and in which bucket.
type slot struct {
	hold limit.Hold
	key  string
}

func slotOf(t *store.Take) slot { return slot{t.Hold, string(t.Key)} }

// orphan is what releases a slot, but for its key, until it has ended by itself.
type orphan struct {
	release store.Take
	until   time.Time
}

// Any reports whether there are slots to be released, now or later.
func (s *Slots) Any() bool { return s.number.Load() != 0 }

// Add remembers what releases a slot.
func (s *Slots) Add(release *store.Take) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if len(s.mu.slots) == maxSlots {
		return
	}
	if len(s.mu.slots) == 0 {
		s.mu.slots, s.mu.due = map[slot]orphan{}, now.Add(every)
	}
	one := orphan{*release, now.Add(release.Limit.Period)}
	one.release.Key = nil
	s.mu.slots[slotOf(release)] = one
	s.countLocked()
}

func (s *Slots) countLocked() { s.number.Store(int64(len(s.mu.slots))) }

// Forget drops the slots that takes ask for once more.
func (s *Slots) Forget(takes []store.Take) {
	if !s.Any() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range takes {
		if t := &takes[i]; t.Hold != 0 {
			delete(s.mu.slots, slotOf(t))
		}
	}
	s.countLocked()
}

// Freed drops the slot that release has freed. The store is well: the next call may
// release more.
func (s *Slots) Freed(release *store.Take) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.slots, slotOf(release))
	s.mu.due = time.Time{}
	s.countLocked()
}

// AppendDue appends what is to be released now, and drops what has ended.
func (s *Slots) AppendDue(takes []store.Take) []store.Take {
	if !s.Any() {
		return takes
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Before(s.mu.due) {
		return takes
	}
	s.mu.due = now.Add(every)
	room := perCall
	for of, one := range s.mu.slots {
		if !one.until.After(now) {
			delete(s.mu.slots, of)
			continue
		}
		if room--; room < 0 {
			break
		}
		one.release.Key = []byte(of.key)
		takes = append(takes, one.release)
	}
	s.countLocked()
	return takes
}
