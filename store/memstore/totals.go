package memstore

import (
	"context"
	"sync"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

const (
	// maxHeard bounds the columns that a Store remembers to have heard of, over all buckets;
	// each takes about 100 bytes, on top of Options.MaxBytes.
	maxHeard = 1 << 16
	// heardSweep is how many of them are looked at for ended ones whenever one is added.
	heardSweep = 4
)

// column is a column of one bucket.
type column struct {
	bucket ident
	of     store.Column
}

// heard is what was heard of a column, and until when that is remembered.
type heard struct {
	counts store.Counts
	ends   limit.Micros
}

// heardBook is what was heard of all columns. Its lock is taken before those of the shards.
type heardBook struct {
	mu      sync.Mutex
	columns map[column]heard
	swept   uint32 // the unit of the last sweep of all
}

var _ store.Importer = (*Store)(nil)

// Import implements store.Importer. Like Take it never waits, and its results carry no errors.
func (s *Store) Import(_ context.Context, totals []store.Total, results []store.Result) {
	now := s.micros()
	for i := range totals {
		results[i] = store.Result{Decision: s.hear(&totals[i], now)}
	}
}

// hear puts t into its bucket.
func (s *Store) hear(t *store.Total, now limit.Micros) (d limit.Decision) {
	key, book := s.identBytes(t.Key), s.heard
	book.mu.Lock()
	defer book.mu.Unlock()
	reset, hits, counts := t.News(book.of(column{key, t.Column}, now))
	book.note(column{key, t.Column}, heard{counts, now + limit.Micros(t.Keep/time.Microsecond)}, now)
	sh := s.shardOf(key)
	sh.mu.lock()
	defer sh.mu.unlock()
	if reset {
		sh.take(&ask{key: key, limit: t.Limit, now: now, op: store.Reset}, &d)
	}
	take := t.Take(hits)
	var a ask
	s.ask(&a, &take, now)
	sh.take(&a, &d)
	return d
}

// of returns what was heard of c.
func (b *heardBook) of(c column, now limit.Micros) store.Counts {
	if h, ok := b.columns[c]; ok && h.ends > now {
		return h.counts
	}
	return store.Counts{}
}

// note remembers h of c, if there is room.
func (b *heardBook) note(c column, h heard, now limit.Micros) {
	if _, ok := b.columns[c]; !ok {
		b.sweep(heardSweep, now)
		if b.full(now) {
			return
		}
	}
	if b.columns == nil {
		b.columns = map[column]heard{}
	}
	b.columns[c] = h
}

// sweep drops what has ended among n columns; which ones is left to the map.
func (b *heardBook) sweep(n int, now limit.Micros) {
	for c, h := range b.columns {
		if n--; n < 0 {
			return
		}
		if h.ends <= now {
			delete(b.columns, c)
		}
	}
}

// full reports whether there is no room for another column. It looks through all of them
// first, but at most once in a unit of time.
func (b *heardBook) full(now limit.Micros) bool {
	if unit := unitOf(now); len(b.columns) >= maxHeard && b.swept != unit {
		b.swept = unit
		b.sweep(len(b.columns), now)
	}
	return len(b.columns) >= maxHeard
}
