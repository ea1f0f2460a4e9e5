package audit

import (
	"errors"
	"sync"

	"github.com/headgate/headgate/internal/keyname"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/trace"
)

// ErrCursor is for a cursor that no page of events has given.
var ErrCursor = errors.New("cursor: not one of a page of events; hint: pass next_cursor as it came")

// memory holds the latest events, at most as many as ring has room for.
type memory struct {
	mu sync.RWMutex
	// ring holds event number n at n modulo its length.
	ring []view.Event
	// count is how many there were so far.
	count uint64
}

// keep remembers events in place of the oldest ones.
func (m *memory) keep(events []view.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range events {
		m.ring[m.count%uint64(len(m.ring))] = events[i]
		m.count++
	}
}

// oldest returns the number of the oldest event that is remembered.
func (m *memory) oldest() uint64 { return m.count - min(m.count, uint64(len(m.ring))) }

func (m *memory) at(n uint64) *view.Event { return &m.ring[n%uint64(len(m.ring))] }

// number returns the number of the event with an ID.
func (m *memory) number(id string) (n uint64, ok bool) {
	for n := m.count; n > m.oldest(); n-- {
		if m.at(n-1).EventID == id {
			return n - 1, true
		}
	}
	return 0, false
}

// page returns the latest n events that match, of those before the one with the ID
// cursor unless that is "". None is before one that is forgotten.
func (m *memory) page(matches func(*view.Event) bool, n int, cursor string) view.Events {
	m.mu.RLock()
	defer m.mu.RUnlock()
	page := view.Events{Events: []view.Event{}}
	before := m.count
	if cursor != "" {
		at, ok := m.number(cursor)
		if !ok {
			return page
		}
		before = at
	}
	for ; before > m.oldest(); before-- {
		e := m.at(before - 1)
		if !matches(e) {
			continue
		}
		if len(page.Events) == n {
			page.NextCursor = page.Events[n-1].EventID
			break
		}
		page.Events = append(page.Events, *e)
	}
	return page
}

// Recent returns the latest n events that f chooses, of those that are remembered;
// at most MaxPage, which 0 stands for. With the cursor of a page it returns those that
// are older than it, whatever has come since; ErrCursor is for any other cursor. Keys
// are plain: see Redact.
func (r *Recorder) Recent(f view.EventFilter, n int, cursor string) (view.Events, error) {
	if cursor != "" {
		if _, ok := trace.ParseDecisionID(cursor); !ok {
			return view.Events{}, ErrCursor
		}
	}
	if n <= 0 || n > MaxPage {
		n = MaxPage
	}
	r.catchUp()
	return r.memory.page(matcher(f, r.hasher), n, cursor), nil
}

// Event returns the event with this ID, if it is remembered: who has been told of a
// decision finds it.
func (r *Recorder) Event(id string) (view.Event, bool) {
	r.catchUp()
	r.memory.mu.RLock()
	defer r.memory.mu.RUnlock()
	n, ok := r.memory.number(id)
	if !ok {
		return view.Event{}, false
	}
	return *r.memory.at(n), true
}

// matcher returns what tells the events that f chooses. Hashes are made only where f
// may ask for one.
func matcher(f view.EventFilter, h *keyname.Hasher) func(*view.Event) bool {
	return func(e *view.Event) bool {
		hash := ""
		if len(f.Key) == keyname.HashLength {
			hash = h.Hash(e.Domain, e.Key)
		}
		return f.Matches(e, hash)
	}
}
