package replay

import (
	"time"

	"github.com/headgate/headgate/internal/heap"
	"github.com/headgate/headgate/limit"
)

// merge is the records of several inputs in the order of their times. Of records at one instant
// those of the input that was named first come first.
type merge struct {
	streams heap.Queue[*stream] // that with the oldest next record in front
	reading Reading
	lacks   [numLacks]int64
	free    pool
	waiting int
	at      limit.Micros
	seen    recent
}

// newMerge looks into all inputs.
func newMerge(inputs []Input, window time.Duration) (*merge, error) {
	m := &merge{}
	m.streams.Before = func(a, b *stream) bool { return a.head < b.head || a.head == b.head && a.index < b.index }
	for i, input := range inputs {
		s := &stream{input: input, index: i, window: limit.Micros(window.Microseconds()), reading: &m.reading, lacks: &m.lacks, free: &m.free, waiting: &m.waiting}
		s.held.Before = func(a, b *Record) bool { return a.At < b.At || a.At == b.At && a.order < b.order }
		if input.Again && len(inputs) > 1 {
			if err := s.peek(); err != nil {
				return nil, err
			}
		}
		m.streams.Push(s)
	}
	return m, nil
}

// next returns the next record, nil at the end. It is good until the next call.
func (m *merge) next() (*Record, error) {
	for m.streams.Len() > 0 {
		s := m.streams.First()
		if s.held.Len() == 0 || s.lines == nil {
			ok, err := s.fill()
			if err != nil {
				return nil, err
			}
			if !ok {
				m.streams.Pop()
				continue
			}
			m.streams.Fix(0)
			if s = m.streams.First(); s.lines == nil || s.held.Len() == 0 {
				continue
			}
		}
		r := s.take()
		if _, err := s.fill(); err != nil {
			return nil, err
		}
		m.streams.Fix(0)
		if r.ID != 0 && m.seen.before(r.ID) {
			m.reading.Twice++
			m.free.put(r)
			continue
		}
		if r.At < m.at {
			r.At = m.at
			m.reading.Late++
		}
		m.at = r.At
		return r, nil
	}
	return nil, nil
}

// done gives a record back.
func (m *merge) done(r *Record) { m.free.put(r) }

// close closes what is open.
func (m *merge) close() {
	for _, s := range m.streams.All() {
		if s.lines != nil && !s.ended {
			s.lines.close()
		}
	}
}

// maxRecent is how many names of records are remembered. One that is there twice has one time,
// so that it comes soon after the first.
const maxRecent = 1 << 16

// recent remembers the latest names. The zero value remembers none.
type recent struct {
	ring []uint64
	next int
	set  map[uint64]struct{}
}

// before reports whether id was there, and remembers it.
func (r *recent) before(id uint64) bool {
	if r.set == nil {
		r.set = make(map[uint64]struct{})
	}
	if _, ok := r.set[id]; ok {
		return true
	}
	if len(r.ring) < maxRecent {
		r.ring = append(r.ring, id)
	} else {
		delete(r.set, r.ring[r.next])
		r.ring[r.next] = id
		r.next = (r.next + 1) % maxRecent
	}
	r.set[id] = struct{}{}
	return false
}
