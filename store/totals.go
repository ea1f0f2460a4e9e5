package store

import (
	"context"
	"time"

	"github.com/headgate/headgate/limit"
)

// Column names a count that one process keeps of one bucket, from when it begins to count until
// it forgets. It is drawn at random, so that no two counts share one.
type Column [16]byte

// Counts are what one process has counted of one bucket since it began to. They only grow.
type Counts struct {
	// Hits passed, Back were given back, each from 0 to 2^53 - 1.
	Hits, Back int64
	// Resets is how often the bucket was reset.
	Resets int64
}

// Max returns the larger of each.
func (c Counts) Max(o Counts) Counts {
	return Counts{Hits: max(c.Hits, o.Hits), Back: max(c.Back, o.Back), Resets: max(c.Resets, o.Resets)}
}

// Plus returns the sum of each.
func (c Counts) Plus(o Counts) Counts {
	return Counts{Hits: c.Hits + o.Hits, Back: c.Back + o.Back, Resets: c.Resets + o.Resets}
}

// Less returns how much more than o c is in each.
func (c Counts) Less(o Counts) Counts {
	return Counts{Hits: c.Hits - o.Hits, Back: c.Back - o.Back, Resets: c.Resets - o.Resets}
}

// Total tells a store what a process elsewhere has counted of one bucket.
type Total struct {
	// Key and Limit are as in a Take. The algorithm is none of concurrency and ban.
	Key   []byte
	Limit *limit.Limit
	// Column is whose count it is.
	Column Column
	// Now is the count, and Heard the part of it that the store has heard of, as the process
	// knows for certain, or that no longer weighs; Heard is at most Now in each number.
	Now, Heard Counts
	// Keep is how long the store remembers that it has heard Now, in whole microseconds up to
	// MaxKeepTotal. A Total of an earlier Heard that arrives later than that counts again.
	Keep time.Duration
}

// MaxKeepTotal bounds Total.Keep: longer than any limit looks back.
const MaxKeepTotal = 2 * 366 * 24 * time.Hour

// News returns what t tells a store that has last heard of known from the same column, or of
// nothing, which is the zero value: whether the bucket is to be reset first, how many hits
// are to be charged then, below 0 to be given back, and what the store has heard of now.
//
// Because counts only grow, and because the store adds what is new in the step in which it
// notes it, it does not matter in which order totals arrive, how often, and which are lost:
// the last one says it all.
func (t *Total) News(known Counts) (reset bool, hits int64, heard Counts) {
	from := known.Max(t.Heard)
	heard = from.Max(t.Now)
	return heard.Resets > from.Resets, (heard.Hits - from.Hits) - (heard.Back - from.Back), heard
}

// Take returns the take that puts hits of News into the bucket of t.
func (t *Total) Take(hits int64) Take {
	k := Take{Key: t.Key, Limit: t.Limit, Op: Charge, Hits: hits}
	if hits < 0 {
		k.Op, k.Hits = Refund, -hits
	}
	return k
}

// Importer is a Store that is told what passed elsewhere.
//
// The rules that every Importer keeps, and that package storetest checks:
//
//   - A Total is decided in one step, by News: the reset, what is charged or given back, and
//     the note of what was heard. It answers as a peek after it.
//   - Columns of one bucket have nothing to do with each other, and neither have buckets.
//   - What was heard is forgotten after Keep, counted anew from each Total of the column.
//     A reset of the bucket through a Take leaves it.
//   - A store that has no room to note what it heard charges all the same.
type Importer interface {
	Store
	// Import puts totals[i] into its bucket and answers in results[i]; the slices have the
	// same length. Totals are in no order. Like Take it returns when all are answered or ctx
	// has ended; one whose answer is an error may be in its bucket or not, and can be told
	// again.
	Import(ctx context.Context, totals []Total, results []Result)
}
