package headgate

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

const (
	// maxOrphans bounds the slots that are remembered to be released, at some 200
	// bytes each: 2 MB. One more ends by its timeout.
	maxOrphans = 10_000
	// orphansPerCall is how many of them one call releases: a millisecond of work
	// for a store.
	orphansPerCall = 16
	// orphansEvery is the time between two such calls while they fail.
	orphansEvery = 200 * time.Millisecond
)

// orphans are slots that requests may have though they were denied, since the
// store could not say, and could not release them at once either: a store that
// stalls for a moment does so for both calls. Later calls of Check release them. So
// there is no goroutine behind it, and nothing is done while nobody asks.
type orphans struct {
	number atomic.Int64 // of slots
	mu     struct {
		sync.Mutex
		slots map[slotName]orphan
		due   time.Time
	}
}

// slotName is a slot: whose, and in which bucket.
type slotName struct {
	hold limit.Hold
	key  string
}

// orphan is what releases a slot, but for its key, until it has ended by itself.
type orphan struct {
	release store.Take
	until   time.Time
}

// add remembers what releases a slot.
func (o *orphans) add(release *store.Take) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if len(o.mu.slots) == maxOrphans {
		return
	}
	if len(o.mu.slots) == 0 {
		o.mu.slots, o.mu.due = map[slotName]orphan{}, now.Add(orphansEvery)
	}
	one := orphan{*release, now.Add(release.Limit.Period)}
	one.release.Key = nil
	o.mu.slots[slotName{release.Hold, string(release.Key)}] = one
	o.number.Store(int64(len(o.mu.slots)))
}

// forget drops the slots that takes ask for once more.
func (o *orphans) forget(takes []store.Take) {
	if o.number.Load() == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range takes {
		if t := &takes[i]; t.Hold != 0 {
			delete(o.mu.slots, slotName{t.Hold, string(t.Key)})
		}
	}
	o.number.Store(int64(len(o.mu.slots)))
}

// freed drops the slot that release has freed. The store is well: the next call may
// release more.
func (o *orphans) freed(release *store.Take) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.mu.slots, slotName{release.Hold, string(release.Key)})
	o.mu.due = time.Time{}
	o.number.Store(int64(len(o.mu.slots)))
}

// appendDue appends what is to be released now, and drops what has ended.
func (o *orphans) appendDue(takes []store.Take) []store.Take {
	if o.number.Load() == 0 {
		return takes
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if now.Before(o.mu.due) {
		return takes
	}
	o.mu.due = now.Add(orphansEvery)
	room := orphansPerCall
	for name, one := range o.mu.slots {
		if !one.until.After(now) {
			delete(o.mu.slots, name)
			continue
		}
		if room--; room < 0 {
			break
		}
		one.release.Key = []byte(name.key)
		takes = append(takes, one.release)
	}
	o.number.Store(int64(len(o.mu.slots)))
	return takes
}
