package recommend

import (
	"slices"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// Demand finds what each key of some limits needed: the smallest quota by which nothing of it
// would have been denied.
//
// For fixed_window that is the largest count of a window, and for sliding_window the largest
// estimate of one, in the integers of package limit, so that a key is denied something by a quota
// if and only if it needed more. Other algorithms are measured as sliding_window: a log and
// sub-windows differ from it by what estimates are off, and a bucket whose burst is its quota
// denies less. Proof says what they do deny.
//
// Demand is not safe for concurrent use.
type Demand struct {
	bounds Bounds
	meters []meter
	// keys are those of all meters.
	keys int
}

// meter measures one limit.
type meter struct {
	calendar *limit.Calendar // nil for plain windows
	period   int64           // µs; of a calendar 0
	sliding  bool
	sample   Sample
	counts   map[uint64]count
	requests int64
}

// count is what one key has asked for.
type count struct {
	// start is that of the present window in µs, current what was used in it, and previous in the
	// one before.
	start, current, previous int64
	need                     int64
}

// maxCount is where counts stop: package limit has no larger quota.
const maxCount = limit.MaxQuota

// NewDemand returns a Demand for limits, which count hits.
func NewDemand(limits []*limit.Limit, b Bounds) *Demand {
	if b == (Bounds{}) {
		b = defaultBounds
	}
	d := &Demand{bounds: b, meters: make([]meter, len(limits))}
	for i, l := range limits {
		d.meters[i] = meter{counts: make(map[uint64]count), calendar: l.Calendar, period: l.Period.Microseconds(), sliding: l.Algorithm != limit.FixedWindow}
	}
	return d
}

// Add counts a use.
func (d *Demand) Add(u *Use) {
	m := &d.meters[u.Limit]
	if !counts(u) {
		return
	}
	if u.Op == store.Hit {
		m.requests++
	}
	if !m.sample.Has(u.Key) {
		return
	}
	c, known := m.counts[u.Key]
	if !known {
		if u.Op != store.Hit && u.Op != store.Charge {
			return // there is nothing to give back
		}
		d.keys++
	}
	c.add(m, u)
	m.counts[u.Key] = c
	if !known {
		d.makeRoom(m)
	}
}

// counts reports whether a use changes what a key has used.
func counts(u *Use) bool {
	switch u.Op {
	case store.Hit, store.Charge, store.Refund:
		return u.Hits > 0
	}
	return u.Op == store.Reset
}

// makeRoom keeps keys within their bounds, m being the meter that has just got one.
func (d *Demand) makeRoom(m *meter) {
	for len(m.counts) > d.bounds.KeysOfLimit {
		d.halve(m)
	}
	for d.keys > d.bounds.Keys {
		largest := m
		for i := range d.meters {
			if len(d.meters[i].counts) > len(largest.counts) {
				largest = &d.meters[i]
			}
		}
		d.halve(largest)
	}
}

// halve takes about every second key out of the sample of m.
func (d *Demand) halve(m *meter) {
	m.sample++
	before := len(m.counts)
	for key := range m.counts {
		if !m.sample.Has(key) {
			delete(m.counts, key)
		}
	}
	d.keys -= before - len(m.counts)
}

// add counts a use of one key.
func (c *count) add(m *meter, u *Use) {
	elapsed := c.moveTo(m, max(int64(u.At), 0))
	switch u.Op {
	case store.Reset:
		c.current, c.previous = 0, 0
	case store.Refund:
		c.current = max(c.current-u.Hits, 0)
	default:
		c.current = min(c.current+min(u.Hits, maxCount), maxCount)
	}
	if u.Op != store.Hit {
		return
	}
	need := c.current
	if m.sliding && c.previous > 0 {
		need = min(need+scaled(c.previous, m.period-elapsed, m.period), maxCount)
	}
	c.need = max(c.need, need)
}

// moveTo goes to the window of now, and returns the time since it began. Time does not go back.
func (c *count) moveTo(m *meter, now int64) (elapsed int64) {
	start := now
	if m.calendar != nil {
		first, _ := m.calendar.Window(limit.Micros(now))
		start = int64(first)
	} else {
		start -= now % m.period
	}
	switch {
	case start < c.start:
		return 0
	case start > c.start && start-c.start == m.period:
		c.previous, c.current = c.current, 0
	case start > c.start:
		c.previous, c.current = 0, 0
	}
	c.start = start
	return now - start
}

// Seen is what keys asked of a limit.
type Seen struct {
	// Sample says which keys are known. Requests are those of all keys that asked for hits.
	Sample   Sample
	Requests int64
	// needs are those of the keys of the sample, the smallest first.
	needs []int64
}

// Of returns what was asked of a limit.
func (d *Demand) Of(i int) Seen {
	m := &d.meters[i]
	s := Seen{Sample: m.sample, Requests: m.requests, needs: make([]int64, 0, len(m.counts))}
	for _, c := range m.counts {
		if c.need > 0 {
			s.needs = append(s.needs, c.need)
		}
	}
	slices.Sort(s.needs)
	return s
}

// Sampled returns how many keys are known.
func (s *Seen) Sampled() int64 { return int64(len(s.needs)) }

// Keys returns how many keys there were; of a sample it is an estimate, two standard errors of
// which are 2/sqrt(Sampled) of it.
func (s *Seen) Keys() int64 { return s.Sampled() * s.Sample.OneIn() }

// Percentile returns what so many per cent of the keys that are known needed at most, by the
// nearest rank; 100 is the largest need. It is 0 without keys.
func (s *Seen) Percentile(percent int64) int64 {
	if len(s.needs) == 0 {
		return 0
	}
	rank := (s.Sampled()*min(max(percent, 0), 100) + 99) / 100
	return s.needs[max(rank, 1)-1]
}
