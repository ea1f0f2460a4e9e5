package accuracy

import (
	"bytes"
	"context"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

const (
	// correctWithin bounds the time that putting references right adds to a decision.
	correctWithin = 5 * time.Millisecond
	// maxPooledTakes keeps one huge batch from staying in the pool for ever.
	maxPooledTakes = 1024
)

// batch is what one call asks and learns. It is pooled, so that it does not allocate.
type batch struct {
	// takes are those of the caller, and those on references behind them.
	takes   []store.Take
	results []store.Result
	keys    []byte // of references
	// comparisons are in the order of the takes that they are of.
	comparisons []comparison
	// corrections are what is asked afterwards.
	corrections []store.Take
	corrected   []store.Result
}

// comparison is that of one take with its reference.
type comparison struct {
	of  int // the take that is measured
	ref *reference
	key []byte // of the reference
	// take is the one on the reference, -1 for none.
	take int
	// peeked says that the hits of the take were not asked of the reference.
	peeked bool
	// passed says that the limit, and its group, let the hits pass.
	passed bool
	// correction is 1 + the charge of hits that passed in corrections; 0: none.
	correction int
	counts     Counts
}

func (b *batch) reset() {
	if cap(b.takes) > maxPooledTakes {
		*b = batch{}
		return
	}
	clear(b.takes)
	clear(b.results)
	clear(b.comparisons)
	clear(b.corrections)
	clear(b.corrected)
	*b = batch{b.takes[:0], b.results[:0], b.keys[:0], b.comparisons[:0], b.corrections[:0], b.corrected[:0]}
}

// add adds the takes of a caller, the first of which that is measured is at first, and
// those on references.
func (b *batch) add(s *Store, takes []store.Take, first int) {
	b.takes = append(b.takes, takes...)
	for i := first; i < len(takes); i++ {
		if ref := s.referenceOf(&takes[i]); ref != nil {
			b.compare(i, ref)
		}
	}
}

// compare adds a comparison of take i, and what its reference is asked: what the limit is
// asked, but of hits in a group a peek, and nothing of what else is in one. That a
// reference denies may be remembered, as of any bucket.
func (b *batch) compare(i int, ref *reference) {
	t, start := b.takes[i], len(b.keys)
	b.keys = descriptor.AppendReferenceKey(b.keys, t.Key)
	c := comparison{of: i, ref: ref, key: b.keys[start:len(b.keys):len(b.keys)], take: -1}
	c.peeked = t.Group != 0
	if t.Op == store.Hit || !c.peeked {
		c.take = len(b.takes)
		take := store.Take{Key: c.key, Limit: ref.exact, Hits: t.Hits, Op: t.Op}
		if c.peeked {
			take.Hits = 0
		}
		b.takes = append(b.takes, take)
	}
	b.comparisons = append(b.comparisons, c)
}

func (b *batch) ask(ctx context.Context, inner store.Store) {
	b.results = resized(b.results, len(b.takes))
	inner.Take(ctx, b.takes, b.results)
}

// resized returns results with room for n, all zero.
func resized(results []store.Result, n int) []store.Result {
	if cap(results) < n {
		return make([]store.Result, n)
	}
	results = results[:n]
	clear(results)
	return results
}

// judge compares, and notes what makes references right.
func (b *batch) judge() {
	from, end, held := 0, 0, false
	for i := range b.comparisons {
		c := &b.comparisons[i]
		if c.of >= end {
			from, end, held = b.groupOf(c.of, end)
		}
		t, r := &b.takes[c.of], &b.results[c.of]
		c.passed = r.Err == nil && !held && !r.Skipped && (t.Op != store.Hit || r.Allowed)
		if t.Op == store.Hit {
			b.judgeHit(i, from)
		} else if c.peeked && c.passed {
			b.addCorrection(c, t.Op, c.ref.exact)
		}
	}
}

// groupOf returns the run of takes that take i is all or nothing with, and whether one of
// them has held back the others. At begin, which is i or before it, such a run begins.
func (b *batch) groupOf(i, begin int) (from, end int, held bool) {
	for end = begin; end <= i; {
		from, end = end, store.GroupEnd(b.takes, end)
	}
	if b.takes[i].Group == 0 {
		return from, end, false
	}
	for j := from; j < end; j++ {
		t, r := &b.takes[j], &b.results[j]
		held = held || r.Err == nil && (r.Skipped || t.Op == store.Hit && !t.Shadow && !r.Allowed)
	}
	return from, end, held
}

// judgeHit compares a hit, whose group begins with take from.
func (b *batch) judgeHit(i, from int) {
	c := &b.comparisons[i]
	hits, r, told := b.takes[c.of].Hits, &b.results[c.of], &b.results[c.take]
	if told.Err != nil || r.Err != nil {
		c.counts.Missed = 1
	}
	if told.Err != nil {
		return
	}
	fits := told.Allowed && (!c.peeked || told.Remaining >= hits+b.unseen(i, from))
	switch {
	case r.Err != nil:
	case c.passed:
		c.counts.Decided = 1
		if !fits {
			c.counts.WrongAllowed = 1
		}
	case !r.Allowed:
		c.counts.Decided = 1
		if fits {
			c.counts.WrongDenied = 1
		}
	}
	switch {
	case c.passed && (c.peeked || !fits):
		b.addCorrection(c, store.Charge, c.ref.wide)
		c.correction = len(b.corrections)
	case !c.passed && !c.peeked && fits:
		b.addCorrection(c, store.Refund, c.ref.exact)
	}
}

// unseen returns the hits on the key of comparison i that count for the limit and were
// not seen by a peek at its reference: those that passed in this batch, or stand before it
// in its group, which begins with take from.
func (b *batch) unseen(i, from int) (hits int64) {
	for j := range b.comparisons[:i] {
		before := &b.comparisons[j]
		if before.peeked && (before.passed || before.of >= from) && b.takes[before.of].Op == store.Hit && bytes.Equal(before.key, b.comparisons[i].key) {
			hits += b.takes[before.of].Hits
		}
	}
	return hits
}

// addCorrection adds what is done to the reference of c, with the hits of its take.
func (b *batch) addCorrection(c *comparison, op store.Op, l *limit.Limit) {
	b.corrections = append(b.corrections, store.Take{Key: c.key, Limit: l, Hits: b.takes[c.of].Hits, Op: op})
}

// correct makes references right, and learns from their answers by how much what has
// passed is too much, and where they were only peeked at before, whether it is.
func (b *batch) correct(ctx context.Context, inner store.Store) {
	if len(b.corrections) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), correctWithin)
	defer cancel()
	b.corrected = resized(b.corrected, len(b.corrections))
	inner.Take(ctx, b.corrections, b.corrected)
	for i := range b.comparisons {
		c := &b.comparisons[i]
		if c.correction == 0 {
			continue
		}
		r := &b.corrected[c.correction-1]
		if r.Err != nil {
			c.counts = Counts{Missed: 1}
			continue
		}
		c.counts.Overshoot = c.ref.overshoot(&r.Decision)
		if c.peeked {
			c.counts.WrongAllowed = 0
			if c.counts.Overshoot > 0 {
				c.counts.WrongAllowed = 1
			}
		}
	}
}

// count adds what was compared to the counts of its rule.
func (b *batch) count(s *Store) {
	now := limit.Micros(0)
	for i := range b.comparisons {
		c := &b.comparisons[i]
		if c.counts == (Counts{}) {
			continue
		}
		if now == 0 {
			now = limit.MicrosOf(s.now())
		}
		if g := s.gauges.of(b.takes[c.of].Mode.Rule); g != nil {
			g.add(&c.counts, c.ref.limit, now)
		}
	}
}
