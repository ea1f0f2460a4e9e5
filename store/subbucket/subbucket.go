// Package subbucket spreads one bucket over several, so that a bucket that gets
// more load than one place of a store can bear lies in several places.
//
// Takes whose Mode.SubBuckets is n > 1 go to parts of their bucket: n buckets
// with keys of their own, and limits that are the n-th part of the limit. The
// parts of quota and burst are whole numbers that differ by one at most and add
// up to the limit exactly. So, whatever is decided in which part, together they
// admit what their limits admit: never more than the limit at one instant, and
// over any time the sum of the bounds of the parts, which is the bound of the
// limit.
//
// # Hits
//
// A hit is put whole into one part: of two that are drawn at random, the one of
// which this node believes that more is left. If that one denies it, all parts
// are asked what is left, and the hit goes to the one with the most, or if it
// fits into none, but into several together, it is charged to several, all or
// nothing. Hits that are larger than a part, or than what seems to be left in any,
// begin there. So hits are denied
//
//   - when what is left in all parts together, rounded down in each, is not
//     enough: up to n-1 hits fewer than one bucket would let pass;
//   - when others were faster three times in a row.
//
// A denial costs n peeks more than a hit that passes. Its RetryAfter is the time
// of the part that denied, or of the latest of several: the hits may pass
// earlier, by what a part needs to drain so many, but not later.
//
// Remaining is what is left in the part just used, plus what this node last saw
// in the others; peeks ask all parts and add up. ResetAfter is the longest of the
// parts that were asked.
//
// A Refund goes to the parts of which the most is used, no matter where its hits
// went; a Reset to all; a Charge to one part, or evenly to all if it is larger
// than a part. What one part owes the others do not pay back.
//
// # Batches and groups
//
// Within a batch a hit that has to be tried again is decided after those that
// follow it. A group is all or nothing as ever, and is tried again as a whole; a
// Shadow hit in a group is not tried again by itself, and one that is larger than
// a part may be charged for some of it when it is denied.
//
// # Dry runs
//
// A dry run is sent as a hit would be, to parts that are drawn as for one, so it tells
// of an allowed hit what such a hit is told, and of a denied one when the parts would
// let it pass that were asked. Nothing is noted of it. A dry run that has to be tried
// again does not see those before it in its batch, unless they are of its group.
//
// # What is not spread
//
// Limits with a quota or a burst below n; leaky_bucket and leaky_queue, whose
// even spacing parts cannot keep; concurrency, whose slots are renewed and
// released where they were taken; bans, which end in all parts or in none; limits
// with CountDenied, which would count one denied hit in several parts. Their takes
// pass through as they are. So do those whose rule asks for no sub-buckets. A
// bucket whose number of parts changes keeps what was used in the parts that stay;
// one that was whole begins anew.
package subbucket

import (
	"context"
	"hash/maphash"
	"sync/atomic"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// maxTries is how often a hit is sent to parts that seemed to have room for it.
const maxTries = 3

// Store spreads buckets over the parts that their takes ask for. Make one with
// New.
type Store struct {
	inner store.Store
	cuts  cuts
	views views
	seed  maphash.Seed

	hits, again, spread, denied atomic.Uint64
}

var _ store.Store = (*Store)(nil)

// New returns a Store over inner.
func New(inner store.Store) *Store { return &Store{inner: inner, seed: maphash.MakeSeed()} }

// Close closes the store beneath.
func (s *Store) Close() error { return s.inner.Close() }

// Supports implements store.Supporter, as the store beneath does.
func (s *Store) Supports(l *limit.Limit) error { return store.Supports(s.inner, l) }

// Take implements store.Store.
func (s *Store) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	if end := store.RunEnd(takes, 0); end < len(takes) {
		s.Take(ctx, takes[:end], results[:end])
		s.Take(ctx, takes[end:], results[end:])
		return
	}
	inParts, others := s.concerns(takes)
	if inParts == 0 && !others {
		s.inner.Take(ctx, takes, results)
		return
	}
	w := works.Get().(*work)
	defer w.release()
	w.begin(s, takes, results, inParts)
	for try := 1; w.open > 0; try++ {
		w.look(ctx)
		if w.open > 0 {
			w.send(ctx)
			w.read(try == maxTries)
		}
	}
	w.count()
}

// concerns returns how many of the takes are on buckets in parts, and whether
// others must not pass as they are.
func (s *Store) concerns(takes []store.Take) (inParts int, others bool) {
	for i := range takes {
		if s.cuts.of(&takes[i]) != nil {
			inParts++
		} else if marked(takes[i].Key) {
			others = true
		}
	}
	return inParts, others
}

// Stats is what a Store has done since New.
type Stats struct {
	// Hits counts the hits of buckets that are in parts; Again how often one was
	// tried again because a part had denied it; Spread how often one was sent to
	// several parts; Denied those that were denied in the end.
	Hits, Again, Spread, Denied uint64
}

// Stats returns a snapshot.
func (s *Store) Stats() Stats {
	return Stats{s.hits.Load(), s.again.Load(), s.spread.Load(), s.denied.Load()}
}
