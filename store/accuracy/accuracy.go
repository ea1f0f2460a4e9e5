// Package accuracy measures how exact the decisions of limits are, on live traffic.
//
// For a sample of keys the store counts a second time: beside the bucket of a key there
// is another one, its reference, which counts exactly what the limit has let pass. Every
// decision on the key is compared with what its reference says.
//
//	measured, err := accuracy.New(shared, accuracy.Options{Sample: 0.001})
//	limiter, err := headgate.New(headgate.Options{Store: measured, Rules: set})
//	...
//	report := measured.Report("api.user") // the ID of a rule
//
// # Where it stands
//
// A Store is a layer over others and stands on top of them all: it compares what callers
// are told, also by a layer that remembers denials, leases hits or spreads a bucket over
// several. A layer further down would measure how exact the last store is, which is always
// exact. References go down the same stack, but as takes without a Mode: they are decided
// exactly, in the shared store, and are no hot keys.
//
// # What is measured
//
// Takes whose Mode says Main, of limits that count hits: no slots, no bans, and no limits
// that count denied hits, as these mean to let less pass than their quota. No dry runs, and nothing that is leased over
// regions, of which no store sees all hits. A take counts
// as decided when it passes, and when its limit denies it. It passes when its limit allows
// it and no other take of its group holds it back. What another limit denies outside of
// its group is no matter of a limit: the hits are charged, and the reference counts them.
//
// What the store cannot decide is Missed, whatever is made of it above: a fallback or a
// failure mode answers elsewhere, and neither the bucket nor its reference counts that.
//
// # How
//
// The takes on references stand behind all others of the batch, each alone, because in a
// group they would take part in what is being measured. So a reference never holds
// anything back, and nobody is told of it.
//
// A reference shall have counted what the limit let pass, and nothing else, also for those
// who look at it meanwhile.
//
//   - A limit that decides alone asks the same of its reference. Mostly both say the same,
//     and the reference is right already. What differs a second call puts right: hits that
//     passed and did not fit are charged, hits that fit and did not pass are given back.
//   - Of a limit in a group nobody knows beforehand what the others say. Its reference is
//     peeked at, and what was done is done to the reference in the second call, whose
//     answer says whether it fit.
//   - Refunds, resets and charges reach the reference as well.
//
// The second call takes 5 ms at most. One that fails leaves a reference that lacks hits, or
// has too many, until its window is over.
package accuracy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/memo"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// Options configures a Store.
type Options struct {
	// Sample is the share of keys that are measured, above 0 and up to 1; required. All
	// nodes sample the same keys, and those of a smaller share are among those of a
	// larger one.
	Sample float64
	// Now is the clock for Report.Recent; nil means time.Now. No decision depends on it.
	Now func() time.Time
}

// Store is a layer that measures the decisions of the store beneath. Make one with New.
type Store struct {
	inner      store.Store
	sample     sample
	now        func() time.Time
	references *memo.Memo[*limit.Limit, *reference] // nil: cannot be measured
	gauges     gauges
	batches    sync.Pool // of *batch
}

var _ store.Store = (*Store)(nil)

// New returns a Store over inner that has measured nothing yet.
func New(inner store.Store, o Options) (*Store, error) {
	if inner == nil {
		return nil, errors.New("new accuracy: no store to measure")
	}
	if !(o.Sample > 0 && o.Sample <= 1) {
		return nil, fmt.Errorf("new accuracy: sample %v; hint: a share of keys above 0 and up to 1, such as 0.01", o.Sample)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Store{inner: inner, sample: sampleOf(o.Sample), now: o.Now}
	supports := func(l *limit.Limit) bool { return s.Supports(l) == nil }
	s.references = memo.New(maxReferences, func(l *limit.Limit) (*reference, error) { return newReference(l, supports), nil })
	s.batches.New = func() any { return new(batch) }
	return s, nil
}

// Close closes the store beneath.
func (s *Store) Close() error { return s.inner.Close() }

// Supports implements store.Supporter, as the store beneath does.
func (s *Store) Supports(l *limit.Limit) error { return store.Supports(s.inner, l) }

// Take implements store.Store.
func (s *Store) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	for i := range takes {
		if s.referenceOf(&takes[i]) != nil {
			s.measure(ctx, takes, results, i)
			return
		}
	}
	s.inner.Take(ctx, takes, results)
}

// referenceOf returns what t is compared with; nil where it is not measured.
func (s *Store) referenceOf(t *store.Take) *reference {
	if t.DryRun || t.Mode == nil || !t.Mode.Main || t.Mode.Regions != store.RegionsEach || t.Hits == 0 && t.Op != store.Reset || !s.sample.has(t.Key) {
		return nil
	}
	ref, _ := s.references.Get(t.Limit)
	return ref
}

// measure decides a batch of which the take at first is the first that is measured.
func (s *Store) measure(ctx context.Context, takes []store.Take, results []store.Result, first int) {
	b := s.batches.Get().(*batch)
	b.add(s, takes, first)
	b.ask(ctx, s.inner)
	copy(results, b.results)
	b.judge()
	b.correct(ctx, s.inner)
	b.count(s)
	b.reset()
	s.batches.Put(b) // not after a panic: nothing is known of its state then
}

// Report returns what was measured of the rule with that ID; nothing where nothing was.
func (s *Store) Report(rule string) Report {
	if g := s.gauges.find(rule); g != nil {
		return g.report(limit.MicrosOf(s.now()))
	}
	return Report{}
}

// Forget forgets what was measured of the rules that keep does not want: they are gone, or
// limit in another way than they did.
func (s *Store) Forget(keep func(rule string) bool) { s.gauges.forget(keep) }
