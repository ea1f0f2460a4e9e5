package totals

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/storetest"
)

// shelf is the store of a region, made of store.Take.Decide and store.Total.News alone, that can
// be copied: what the exploration puts in the place of a server. It has one bucket.
type shelf struct {
	now   limit.Micros
	state limit.State
	notes []note
	// gauge reads how much is used, because its quota is out of reach.
	gauge *limit.Limit
}

// note is what was heard of a column; the numbers after it are for the exploration alone.
type note struct {
	column store.Column
	heard  store.Counts
	ends   limit.Micros
	// charged is how many hits of the column were ever charged here, lately in the present
	// window, fresh since it last reset the bucket, resets how often it has.
	charged, lately, fresh, resets int64
}

func (s shelf) clone() shelf {
	s.state.Wide, s.notes = slices.Clone(s.state.Wide), slices.Clone(s.notes)
	return s
}

// used is how many hits weigh.
func (s *shelf) used() int64 {
	_, d := limit.Decide(s.gauge, s.state, s.now, 0)
	return s.gauge.Quota - d.Remaining
}

// Take implements store.Store for takes that stand alone.
func (s *shelf) Take(_ context.Context, takes []store.Take, results []store.Result) {
	for i := range takes {
		results[i] = store.Result{Decision: s.takeOne(&takes[i])}
	}
}

func (s *shelf) takeOne(t *store.Take) (d limit.Decision) {
	s.state.Wide = slices.Clone(s.state.Wide)
	if t.Op == store.Reset {
		s.state = limit.State{}
	}
	s.state, d = t.Decide(s.state, s.now)
	return d
}

func (s *shelf) find(c store.Column) (at int, found bool) {
	return slices.BinarySearchFunc(s.notes, c, func(n note, c store.Column) int { return bytes.Compare(n.column[:], c[:]) })
}

// knownOf returns what is known of a column.
func (s *shelf) knownOf(c store.Column) note {
	if at, found := s.find(c); found {
		return s.notes[at]
	}
	return note{}
}

// note returns the note of a column, for a change.
func (s *shelf) note(c store.Column) *note {
	at, found := s.find(c)
	if !found {
		s.notes = slices.Insert(s.notes, at, note{column: c})
	}
	n := &s.notes[at]
	if n.ends <= s.now {
		n.heard = store.Counts{}
	}
	return n
}

// Import implements store.Importer.
func (s *shelf) Import(_ context.Context, totals []store.Total, results []store.Result) {
	for i := range totals {
		t := &totals[i]
		n := s.note(t.Column)
		reset, hits, heard := t.News(n.heard)
		n.heard, n.ends = heard, s.now+limit.Micros(t.Keep.Microseconds())
		if reset {
			s.takeOne(&store.Take{Key: t.Key, Limit: t.Limit, Op: store.Reset})
			n.resets++
			n.fresh = 0
		}
		before := s.used()
		take := t.Take(hits)
		results[i] = store.Result{Decision: s.takeOne(&take)}
		added := s.used() - before
		n.charged, n.lately, n.fresh = n.charged+added, n.lately+added, n.fresh+added
	}
}

// Close implements store.Store.
func (s *shelf) Close() error { return nil }

// appendTo appends all that tells s apart.
func (s *shelf) appendTo(buf []byte) []byte {
	buf = append(buf, s.state.Kind, byte(s.state.Per))
	for _, n := range [...]int64{s.state.A, s.state.B, s.state.C, int64(len(s.state.Wide))} {
		buf = binary.AppendVarint(buf, n)
	}
	for _, n := range s.state.Wide {
		buf = binary.AppendVarint(buf, n)
	}
	buf = binary.AppendVarint(buf, int64(len(s.notes)))
	for i := range s.notes {
		n := &s.notes[i]
		buf = append(buf, n.column[:]...)
		buf = appendCounts(buf, n.heard)
		for _, n := range [...]int64{int64(n.ends), n.charged, n.lately, n.fresh, n.resets} {
			buf = binary.AppendVarint(buf, n)
		}
	}
	return buf
}

func appendCounts(buf []byte, c store.Counts) []byte {
	return binary.AppendVarint(binary.AppendVarint(binary.AppendVarint(buf, c.Hits), c.Back), c.Resets)
}

// shelves is a shelf for each bucket.
type shelves struct {
	now *atomic.Int64
	of  map[string]*shelf
}

func (s *shelves) at(key []byte) *shelf {
	one := s.of[string(key)]
	if one == nil {
		one = &shelf{gauge: gaugeOf(limit.Must(limit.Spec{Quota: 1, Period: time.Second}))}
		s.of[string(key)] = one
	}
	one.now = limit.Micros(s.now.Load())
	return one
}

// Take implements store.Store.
func (s *shelves) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	if end := store.RunEnd(takes, 0); end < len(takes) {
		s.Take(ctx, takes[:end], results[:end])
		s.Take(ctx, takes[end:], results[end:])
		return
	}
	if len(takes) > 0 && takes[0].DryRun {
		before := s.copied()
		defer func() { s.of = before }()
	}
	for from, to := 0, 0; from < len(takes); from = to {
		to = store.GroupEnd(takes, from)
		s.takeGroup(takes[from:to], results[from:to])
	}
}

// takeGroup decides takes of which all pass or none.
func (s *shelves) takeGroup(takes []store.Take, results []store.Result) {
	before, passes := s.copied(), true
	for i := range takes {
		results[i] = store.Result{Decision: s.at(takes[i].Key).takeOne(&takes[i])}
		passes = passes && (takes[i].Op != store.Hit || takes[i].Shadow || results[i].Allowed)
	}
	if passes || takes[0].Group == 0 {
		return
	}
	s.of = before
	for i := range takes {
		if peek := takes[i]; results[i].Allowed || peek.Op != store.Hit {
			peek.Op, peek.Hits = store.Hit, 0
			results[i].Decision = s.at(peek.Key).takeOne(&peek)
		}
	}
}

func (s *shelves) copied() map[string]*shelf {
	of := map[string]*shelf{}
	for key, one := range s.of {
		c := one.clone()
		of[key] = &c
	}
	return of
}

// Import implements store.Importer.
func (s *shelves) Import(ctx context.Context, totals []store.Total, results []store.Result) {
	for i := range totals {
		s.at(totals[i].Key).Import(ctx, totals[i:i+1], results[i:i+1])
	}
}

// Close implements store.Store.
func (s *shelves) Close() error { return nil }

// gaugeOf returns l with a quota that is out of reach.
func gaugeOf(l *limit.Limit) *limit.Limit {
	spec := l.Spec
	spec.Quota = 1 << 40
	return limit.Must(spec)
}

// What stands in for stores in the exploration takes in totals as every store must.
func TestShelfConformance(t *testing.T) {
	storetest.RunTotals(t, func(t *testing.T) storetest.Harness {
		s := &shelves{now: new(atomic.Int64), of: map[string]*shelf{}}
		return storetest.Harness{
			Store:  s,
			SetNow: func(now limit.Micros) { s.now.Store(int64(now)) },
		}
	})
}
