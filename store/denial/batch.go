package denial

import (
	"context"
	"slices"
	"sync"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

const (
	// maxBatch is the longest batch that is answered from memory in parts: which
	// takes may be answered is found out by comparing them with each other.
	// Longer ones are asked whole.
	maxBatch = 512
	// fewTakes is the longest batch for which no memory is fetched.
	fewTakes = 8
)

// batch is memory for one call.
type batch struct {
	asks []ask
	// takes and results are those that are asked, when others are answered.
	takes   []store.Take
	results []store.Result
}

var batches = sync.Pool{New: func() any { return new(batch) }}

func (b *batch) release() {
	clear(b.asks)
	clear(b.takes)
	clear(b.results)
	batches.Put(b)
}

// takeBatch answers what it can from memory, and asks for the rest in order.
func (s *Store) takeBatch(ctx context.Context, takes []store.Take, results []store.Result) {
	var few [fewTakes]ask
	asks := few[:]
	if len(takes) > fewTakes {
		b := batches.Get().(*batch)
		defer b.release()
		b.asks = slices.Grow(b.asks[:0], len(takes))[:len(takes)]
		asks = b.asks
	}
	asks = asks[:len(takes)]
	at, found := s.at(), false
	for i := range takes {
		asks[i] = s.look(&takes[i], at)
		found = found || asks[i].entry != nil
	}
	if found {
		found = markAnswered(takes, asks)
	}
	if found {
		s.answer(takes, results, asks, at)
		s.askRest(ctx, takes, results, asks)
	} else {
		s.inner.Take(ctx, takes, results)
	}
	for i := range takes {
		switch {
		case asks[i].answered:
		case repeated(takes, asks, i):
			s.noteChange(&takes[i], &results[i], asks[i].first, at)
		default:
			s.learn(&takes[i], &results[i], asks[i], at)
		}
	}
}

// markAnswered marks the takes that need not be asked, and reports whether there
// are any.
func markAnswered(takes []store.Take, asks []ask) (found bool) {
	for i, end := 0, 0; i < len(takes); i = end {
		end = store.GroupEnd(takes, i)
		decided := false
		for j := i; j < end; j++ {
			if asks[j].entry != nil && disturbed(takes, asks, j) {
				asks[j].entry = nil
			}
			// A denial of a Shadow take that stands alone is its answer; in a group
			// it holds nothing back.
			decided = decided || asks[j].entry != nil && (!takes[j].Shadow || takes[j].Group == 0)
		}
		for j := i; j < end; j++ {
			if asks[j].answered = decided; !decided {
				asks[j].entry = nil
			}
		}
		found = found || decided
	}
	return found
}

// disturbed reports whether a take that is asked before the one at j may change
// its bucket.
func disturbed(takes []store.Take, asks []ask, j int) bool {
	for i := range j {
		a := &asks[i]
		if a.first == asks[j].first && !a.answered && a.entry == nil && !harmless(&takes[i]) {
			return true
		}
	}
	return false
}

// harmless reports whether t changes nothing that is remembered of its bucket: a
// peek, and what does not lift a ban.
func harmless(t *store.Take) bool {
	if t.Limit.Algorithm == limit.Ban {
		return t.Op != store.Reset
	}
	return t.Op == store.Hit && t.Hits <= 0
}

// repeated reports whether the take at i comes after another one on its key in
// the same group: such a hit is denied beside what that one would have charged,
// and may pass alone when the group does not.
func repeated(takes []store.Take, asks []ask, i int) bool {
	for j := i - 1; j >= 0 && takes[i].Group != 0 && takes[j].Group == takes[i].Group; j-- {
		if asks[j].first == asks[i].first {
			return true
		}
	}
	return false
}

// answer writes the results of the takes that are answered.
func (s *Store) answer(takes []store.Take, results []store.Result, asks []ask, at int64) {
	for i := range takes {
		a := &asks[i]
		if !a.answered {
			continue
		}
		if a.entry == nil {
			results[i] = store.Result{Skipped: true}
			results[i].Allowed, results[i].Limit = true, takes[i].Limit.Capacity()
			s.memory.setOf(a.first).skipped.Add(1)
			continue
		}
		results[i] = s.answerOf(&takes[i], *a, at)
	}
}

// askRest asks the store beneath for the takes that are not answered. Groups get
// new numbers: what stood between two of one number may be gone.
func (s *Store) askRest(ctx context.Context, takes []store.Take, results []store.Result, asks []ask) {
	b := batches.Get().(*batch)
	defer b.release()
	b.takes, b.results = b.takes[:0], b.results[:0]
	group := uint32(0)
	for i, end := 0, 0; i < len(takes); i = end {
		end = store.GroupEnd(takes, i)
		group++
		for j := i; j < end; j++ {
			if asks[j].answered {
				continue
			}
			t := takes[j]
			if t.Group != 0 {
				t.Group = group
			}
			b.takes = append(b.takes, t)
			b.results = append(b.results, store.Result{})
		}
	}
	if len(b.takes) == 0 {
		return
	}
	s.inner.Take(ctx, b.takes, b.results)
	next := 0
	for i := range takes {
		if !asks[i].answered {
			results[i] = b.results[next]
			next++
		}
	}
}
