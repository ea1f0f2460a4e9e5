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

// memory holds the latest decisions, at most as many as ring has room for. Whoever looks
// for events has them made: most are never looked for.
type memory struct {
	mu sync.RWMutex
	// ring holds record number n at n modulo its length.
	ring []*record
	// count is how many there were so far.
	count uint64
}

// keep remembers records in place of the oldest ones, which it returns to pool.
func (m *memory) keep(records []*record, pool *sync.Pool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, rec := range records {
		place := &m.ring[m.count%uint64(len(m.ring))]
		if *place != nil {
			pool.Put(*place)
		}
		*place = rec
		m.count++
	}
}

// oldest returns the number of the oldest record that is remembered.
func (m *memory) oldest() uint64 { return m.count - min(m.count, uint64(len(m.ring))) }

func (m *memory) at(n uint64) *record { return m.ring[n%uint64(len(m.ring))] }

// number returns the number of the record of a decision.
func (m *memory) number(id trace.DecisionID) (n uint64, ok bool) {
	for n := m.count; n > m.oldest(); n-- {
		if m.at(n-1).id == id {
			return n - 1, true
		}
	}
	return 0, false
}

// page returns the latest n events that match, of those before that of the decision cursor
// unless that is zero. None is before one that is forgotten.
func (m *memory) page(events maker, matches func(*view.Event) bool, n int, cursor trace.DecisionID) view.Events {
	m.mu.RLock()
	defer m.mu.RUnlock()
	page := view.Events{Events: []view.Event{}}
	before := m.count
	if !cursor.IsZero() {
		at, ok := m.number(cursor)
		if !ok {
			return page
		}
		before = at
	}
	for ; before > m.oldest(); before-- {
		e := events.event(m.at(before - 1))
		if !matches(&e) {
			continue
		}
		if len(page.Events) == n {
			page.NextCursor = page.Events[n-1].EventID
			break
		}
		page.Events = append(page.Events, e)
	}
	return page
}

// Recent returns the latest n events that f chooses, of those that are remembered;
// at most maxPage, which 0 stands for. With the cursor of a page it returns those that
// are older than it, whatever has come since; ErrCursor is for any other cursor. Keys
// are plain: see Redact.
func (r *Recorder) Recent(f view.EventFilter, n int, cursor string) (view.Events, error) {
	after, ok := trace.ParseDecisionID(cursor)
	if !ok && cursor != "" {
		return view.Events{}, ErrCursor
	}
	if n <= 0 || n > maxPage {
		n = maxPage
	}
	r.catchUp()
	return r.memory.page(r.newMaker(), matcher(f, r.hasher), n, after), nil
}

// Event returns the event with this ID, if it is remembered: who has been told of a
// decision finds it.
func (r *Recorder) Event(id string) (view.Event, bool) {
	decision, ok := trace.ParseDecisionID(id)
	if !ok {
		return view.Event{}, false
	}
	r.catchUp()
	r.memory.mu.RLock()
	defer r.memory.mu.RUnlock()
	n, ok := r.memory.number(decision)
	if !ok {
		return view.Event{}, false
	}
	maker := r.newMaker()
	return maker.event(r.memory.at(n)), true
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
