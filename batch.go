package headgate

import (
	"bytes"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/verdict"
)

// batch is what one call asks of the store, and which verdict each answer belongs to.
type batch struct {
	takes   []store.Take
	results []store.Result
	// locally[i] says by which part of its limit the fallback decides takes[i] when the
	// store does not, and after fallBack by which part it did; ByStore is for none.
	locally []verdict.Decider
	// keys holds the bytes of all bucket keys; ends[i] is the end of the key of
	// takes[i]. The slices are bound once keys has stopped growing.
	keys []byte
	ends []int
	// verdictTake[i] is the take of the i-th verdict of the batch, or -1.
	verdictTake []int
	// spans[i] are the parts of request i.
	spans []parts
	// hit are the roles of limits of rules on which hits are made.
	hit roles
	// dryRun says that nothing is charged.
	dryRun bool

	// again and againResults are what is asked after the first answers, and againOf which
	// takes those are, -1 for none.
	again        []store.Take
	againResults []store.Result
	againOf      []int
	// giveBack is what a rider has been charged for a request that has not passed all
	// the same, as takes that give it back.
	giveBack []store.Take
}

// parts are the ranges of one request in takes and in verdictTake, and what it asked
// to hold by.
type parts struct {
	takes, verdicts span
	hold            limit.Hold
}

type span struct{ from, to int }

// roles is a set of roles.
type roles uint32

func (r *roles) add(role rules.Role) { *r |= 1 << role }

func (r roles) has(role rules.Role) bool { return r&(1<<role) != 0 }

// empty drops all but working memory. The takes of requests may stay in it: they refer to limits,
// to modes of rules and to keys, which are working memory too. No pointer is written that need
// not be: that costs most while garbage is collected.
func (b *batch) empty() {
	emptyResults(b.results)
	emptyResults(b.againResults)
	clear(b.again) // their keys may be those of orphans
	clear(b.giveBack)
	b.takes, b.results, b.locally = b.takes[:0], b.results[:0], b.locally[:0]
	b.keys, b.ends = b.keys[:0], b.ends[:0]
	b.verdictTake, b.spans = b.verdictTake[:0], b.spans[:0]
	b.again, b.againResults, b.againOf = b.again[:0], b.againResults[:0], b.againOf[:0]
	b.giveBack = b.giveBack[:0]
	b.hit, b.dryRun = 0, false
}

// emptyResults makes results as new: stores do not write all of one.
func emptyResults(results []store.Result) {
	for i := range results {
		r := &results[i]
		r.Decision, r.Skipped, r.Basis = limit.Decision{}, false, 0
		if r.Err != nil {
			r.Err = nil
		}
	}
}

// isHuge reports whether b has grown too large to be kept.
func (b *batch) isHuge() bool { return cap(b.keys) > maxPooledKeys || cap(b.takes) > maxPooledTakes }

// maxPooledKeys and maxPooledTakes keep one huge request from staying in the
// pool for ever.
const (
	maxPooledKeys  = 64 << 10
	maxPooledTakes = 1024
)

// newTake returns an unused take, which is one of takes once addTake has added it.
func (b *batch) newTake() *store.Take {
	n := len(b.takes)
	b.takes = append(b.takes, store.Take{})[:n]
	return &b.takes[:n+1][n]
}

// addTake adds the take that newTake has returned last.
func (b *batch) addTake(part verdict.Decider) {
	b.takes = b.takes[:len(b.takes)+1]
	b.locally = append(b.locally, part)
}

// addTakeOn adds take, on the bucket with that key, which no fallback decides, and returns
// which take it is.
func (b *batch) addTakeOn(key []byte, take store.Take) int {
	b.keys = append(b.keys, key...)
	b.ends = append(b.ends, len(b.keys))
	*b.newTake() = take
	b.addTake(verdict.ByStore)
	return len(b.takes) - 1
}

// addVerdict appends a verdict on a take, -1 for none, and returns it to be filled in.
func (b *batch) addVerdict(resp *Response, take int) *Verdict {
	resp.Verdicts = append(resp.Verdicts, Verdict{})
	b.verdictTake = append(b.verdictTake, take)
	return &resp.Verdicts[len(resp.Verdicts)-1]
}

// groupSince makes the takes since first all or nothing. A take alone needs no
// group.
func (b *batch) groupSince(first int) {
	if len(b.takes)-first < 2 {
		return
	}
	for i := first; i < len(b.takes); i++ {
		b.takes[i].Group = uint32(len(b.spans) + 1)
	}
}

// sameBucket returns the take since first whose key is b.keys[start:], or -1.
func (b *batch) sameBucket(first, start int) int {
	from := 0
	if first > 0 {
		from = b.ends[first-1]
	}
	for t := first; t < len(b.ends); t++ {
		if bytes.Equal(b.keys[from:b.ends[t]], b.keys[start:]) {
			return t
		}
		from = b.ends[t]
	}
	return -1
}

// bindKeys points each take to its key and makes room for the results.
func (b *batch) bindKeys() {
	from := 0
	for i, end := range b.ends {
		b.takes[i].Key = b.keys[from:end:end]
		from = end
	}
	if cap(b.results) < len(b.takes) {
		b.results = make([]store.Result, len(b.takes))
	}
	b.results = b.results[:len(b.takes)]
}

// decided reports whether the store, or when locally the fallback, decided take t.
func (b *batch) decided(t int, locally bool) bool {
	failed := b.results[t].Err != nil
	return failed == locally && (!locally || b.locally[t] != verdict.ByStore)
}

// clearAgain makes room for what is asked next.
func (b *batch) clearAgain() { b.again, b.againOf = b.again[:0], b.againOf[:0] }

// addAgain appends take, made of take t.
func (b *batch) addAgain(t int, take store.Take) {
	b.again, b.againOf = append(b.again, take), append(b.againOf, t)
}
