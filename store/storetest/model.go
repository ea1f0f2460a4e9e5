package storetest

import (
	"slices"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// model is the plainest store: a map of states, and Take.Decide. It forgets
// nothing.
type model struct {
	buckets map[string]bucket
	leases  map[string]*modelRegister
	heard   map[string]store.Counts // of columns
	now     limit.Micros
}

// bucket is a state, the limit under which it was written, and until when it
// matters to that limit.
type bucket struct {
	state    limit.State
	limit    *limit.Limit
	deadline limit.Micros
}

func newModel() *model {
	return &model{buckets: map[string]bucket{}, leases: map[string]*modelRegister{}, heard: map[string]store.Counts{}}
}

// Take decides takes as every store must.
func (m *model) Take(takes []store.Take) (results []store.Result) {
	if end := store.RunEnd(takes, 0); end < len(takes) {
		return append(m.Take(takes[:end]), m.Take(takes[end:])...)
	}
	if takes[0].DryRun {
		before := m.copyBuckets()
		defer func() { m.buckets = before }()
	}
	for from, to := 0, 0; from < len(takes); from = to {
		to = store.GroupEnd(takes, from)
		results = append(results, m.takeGroup(takes[from:to])...)
	}
	return results
}

// takeGroup decides one take that stands alone or all of one group: it charges
// a copy of the buckets, and throws it away if one of the takes is denied.
func (m *model) takeGroup(takes []store.Take) []store.Result {
	results := make([]store.Result, len(takes))
	before := m.copyBuckets()
	passes := true
	for i := range takes {
		results[i] = store.Result{Decision: m.takeOne(&takes[i])}
		if takes[i].Op == store.Hit && !results[i].Allowed && !takes[i].Shadow {
			passes = false
		}
	}
	if passes || takes[0].Group == 0 {
		return results
	}
	m.buckets = before
	for i := range takes {
		if results[i].Allowed || takes[i].Op != store.Hit {
			peek := takes[i]
			peek.Op, peek.Hits = store.Hit, 0
			results[i].Decision = m.takeOne(&peek)
		}
	}
	return results
}

func (m *model) copyBuckets() map[string]bucket {
	buckets := map[string]bucket{}
	for k, b := range m.buckets {
		buckets[k] = bucket{copyState(b.state), b.limit, b.deadline}
	}
	return buckets
}

func (m *model) takeOne(t *store.Take) limit.Decision {
	before := m.buckets[string(t.Key)].state
	after, d := t.Decide(copyState(before), m.now)
	m.save(string(t.Key), t.Limit, before, after)
	if t.Op == store.Reset {
		delete(m.buckets, string(t.Key))
	}
	return d
}

// save stores what a bucket has become.
func (m *model) save(key string, l *limit.Limit, before, after limit.State) {
	switch {
	case after.Kind == 0 && before.Kind != 0:
		// It is as if unused. A store may keep it, and then it says something to other limits.
		m.buckets[key] = bucket{limit: l, deadline: m.now}
	case after.Kind == 0:
	case !sameState(before, after):
		m.buckets[key] = bucket{after, l, m.now + micros(limit.Lifetime(l, after, m.now))}
	default:
		// A store may have written it again, to last as long as this limit needs it: another limit may have
		// charged at the same instant what a log that is full has no more room for.
		b := m.buckets[key]
		b.deadline = min(b.deadline, m.now+micros(limit.Lifetime(l, after, m.now)))
		m.buckets[key] = b
	}
}

func copyState(s limit.State) limit.State {
	s.Wide = slices.Clone(s.Wide)
	return s
}

func sameState(a, b limit.State) bool {
	return a.Kind == b.Kind && a.Per == b.Per && a.A == b.A && a.B == b.B && a.C == b.C && slices.Equal(a.Wide, b.Wide)
}
