package fault

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

const (
	// margin is what a busy machine may add to the budget of a decision before the
	// call counts as slow. One that takes longer than patience has failed.
	margin = time.Second
	// healedRun is how many answers in a row must come from the store for it to
	// count as healed.
	healedRun = 50
	// sampling is how often the goroutines are counted.
	sampling = 20 * time.Millisecond
)

// fleet is how many nodes ask: limiters with connections and memories of their own.
const fleet = 2

// load asks the nodes of a fleet at a steady rate from several goroutines, and notes
// what it hears.
type load struct {
	nodes       []*headgate.Limiter
	below, pair *keySet
	over, spent *keySet
	steady      []*tally // keys that are asked for ever; nil for none

	stop    chan struct{}
	ending  sync.Once
	group   sync.WaitGroup
	failed  atomic.Int64
	slow    atomic.Int64
	byStore atomic.Int64 // answers of the store
	decided atomic.Int64 // answers of all kinds
	// meanwhile are the answers of the store to each node under a fault.
	meanwhile [fleet]atomic.Int64
	hiccups   atomic.Int64 // degraded answers when there was no fault
	workers   []*worker
	// underFault says that a fault is under way, or not healed yet.
	underFault atomic.Bool

	mu   sync.Mutex
	errs []error // the first few
	runs []run   // the times in which the store answered; the last may go on
	most int     // goroutines
}

// run is a time in which all answers came from the store. It counts when there
// were healedRun of them.
type run struct {
	answers    int
	start, end time.Time // end is zero while it goes on
}

// worker is one goroutine of a load.
type worker struct {
	*load
	calm, faulty []time.Duration // how long checks took
	// degraded are the calls on keys below their limits that the store did not
	// answer: when they began, once for each hit.
	degraded []time.Time
}

// startLoad begins to ask.
func startLoad(nodes []*headgate.Limiter, steady []*tally) *load {
	l := &load{
		nodes: nodes, steady: steady, stop: make(chan struct{}),
		below: newKeySet("below", quota, belowLanes),
		pair:  newKeySet("pair", quota, belowLanes),
		over:  newKeySet("over", demand*quota, overLanes),
	}
	l.pair.twins = true
	l.over.logs = true
	// A quarter of the rate, for four seconds.
	l.spent = newKeySet("spent", max(demand*quota, int64(begun.rate/spentLanes)), spentLanes)
	l.spent.logs = true
	for i := range begun.workers {
		w := &worker{load: l}
		l.workers = append(l.workers, w)
		l.group.Go(func() { w.ask(i) })
	}
	l.group.Go(l.watchGoroutines)
	return l
}

// finish stops asking and waits for the last answers. It may be called more than
// once.
func (l *load) finish() {
	l.ending.Do(func() { close(l.stop) })
	l.group.Wait()
}

// ask makes one check at each tick. A tick that comes while a check is under way
// is left out.
func (w *worker) ask(i int) {
	ticker := time.NewTicker(time.Second * time.Duration(begun.workers) / time.Duration(begun.rate))
	defer ticker.Stop()
	random := newRand(fmt.Sprint("worker ", i))
	for n := i; ; n++ {
		select {
		case <-w.stop:
			return
		case <-ticker.C:
		}
		switch {
		case w.steady != nil && n%2 == 0:
			w.check(n/2, asked{"steady", w.steady[n/2%len(w.steady)]})
		case random.IntN(4) == 0:
			key, hit := w.over.next()
			w.check(hit, asked{"over", key})
		case random.IntN(3) == 0:
			key, hit := w.spent.next()
			w.check(hit, asked{"over", key})
		case random.IntN(2) == 0:
			key, hit := w.below.next()
			w.check(hit, asked{"below", key})
		default:
			// Two limits at once, which may be of two shards.
			key, hit := w.pair.next()
			w.check(hit, asked{"below", key}, asked{"partner", key.twin})
		}
	}
}

// asked is a key and the key of its descriptor's entry.
type asked struct {
	entry string
	key   *tally
}

// check makes one check with one hit on each key, at the node whose turn it is.
func (w *worker) check(turn int, keys ...asked) {
	request := headgate.Request{Domain: "fault"}
	for _, k := range keys {
		request.Descriptors = append(request.Descriptors, headgate.Descriptor{
			Entries: []descriptor.Entry{{Key: k.entry, Value: k.key.value}}, Hits: 1,
		})
	}
	faulty := w.underFault.Load()
	var responses [1]headgate.Response
	start := time.Now()
	node := turn % len(w.nodes)
	err := w.nodes[node].Check(context.Background(), []headgate.Request{request}, responses[:])
	end := time.Now()
	took := end.Sub(start)
	if faulty = faulty || w.underFault.Load(); faulty {
		w.faulty = append(w.faulty, took)
	} else {
		w.calm = append(w.calm, took)
	}
	switch {
	case err != nil:
		w.fail(err)
		return
	case len(responses[0].Verdicts) != len(keys):
		w.fail(fmt.Errorf("%d verdicts on %d keys", len(responses[0].Verdicts), len(keys)))
		return
	case took > patience:
		w.fail(fmt.Errorf("a decision took %v", took))
	case took > begun.budget+margin:
		w.slow.Add(1)
	}
	w.decided.Add(int64(len(keys)))
	for i, k := range keys {
		v := &responses[0].Verdicts[i]
		if faulty && v.Degraded == store.NoReason {
			w.meanwhile[node].Add(1)
		}
		k.key.count(v, answer{node: node, start: start, end: end, passed: responses[0].Allowed}, faulty)
		if !faulty && v.Degraded != store.NoReason {
			w.hiccups.Add(1)
		}
		if (k.entry == "below" || k.entry == "partner") && v.Degraded != store.NoReason {
			w.degraded = append(w.degraded, start)
		}
		if k.entry != "over" {
			// Only these go to the store each time: a denial may be remembered.
			w.answered(v.Degraded == store.NoReason)
		}
	}
}

// fail notes a failed call.
func (l *load) fail(err error) {
	l.failed.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.errs) < 5 {
		l.errs = append(l.errs, err)
	}
}

// answered notes whether an answer came from the store.
func (l *load) answered(byStore bool) {
	if byStore {
		l.byStore.Add(1)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	last := len(l.runs) - 1
	going := last >= 0 && l.runs[last].end.IsZero()
	switch {
	case byStore && going:
		l.runs[last].answers++
	case byStore:
		l.runs = append(l.runs, run{answers: 1, start: time.Now()})
	case going && l.runs[last].answers < healedRun:
		l.runs = l.runs[:last]
	case going:
		l.runs[last].end = time.Now()
	}
}

// healedAfter returns how long after from the store answered again; false if it
// has not yet.
func (l *load) healedAfter(from time.Time) (time.Duration, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.runs {
		if r.answers >= healedRun && (r.end.IsZero() || r.end.After(from)) {
			return max(0, r.start.Sub(from)), true
		}
	}
	return 0, false
}

// breaks notes that a fault begins.
func (l *load) breaks() { l.underFault.Store(true) }

// waitHealed waits until the store decides again after a repair, and returns how
// long that took; false if it took longer than patience.
func (l *load) waitHealed(from time.Time, patience time.Duration) (time.Duration, bool) {
	for end := time.Now().Add(patience); time.Now().Before(end); pause(sampling) {
		if took, ok := l.healedAfter(from); ok {
			l.underFault.Store(false)
			return took, true
		}
	}
	return 0, false
}

// watchGoroutines keeps the largest number of goroutines.
func (l *load) watchGoroutines() {
	ticker := time.NewTicker(sampling)
	defer ticker.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-ticker.C:
			l.most = max(l.most, runtime.NumGoroutine())
		}
	}
}

// waitAnswers waits for healedRun more answers of the store; false if that takes
// longer than patience.
func (l *load) waitAnswers() bool {
	wanted := l.byStore.Load() + healedRun
	for end := time.Now().Add(patience); time.Now().Before(end); pause(sampling) {
		if l.byStore.Load() >= wanted {
			return true
		}
	}
	return false
}

// exhaust asks for more hits of the last keys that are above their limits, when the load
// has ended: however slow the machine was, these have reached them.
func (l *load) exhaust() {
	w := &worker{load: l}
	for i := range l.over.lanes {
		if keys := l.over.lanes[i].keys; len(keys) > 0 {
			for hit := range demand * quota {
				w.check(hit, asked{"over", keys[len(keys)-1]})
			}
		}
	}
	l.workers = append(l.workers, w)
}

// percentile returns the p-th of durations, 0 < p <= 1; 0 if there are none.
func percentile(durations []time.Duration, p float64) time.Duration {
	if len(durations) == 0 {
		return 0
	}
	slices.Sort(durations)
	return durations[min(int(p*float64(len(durations))), len(durations)-1)]
}

// durations returns how long the checks took, in calm times and under faults.
func (l *load) durations() (calm, faulty []time.Duration) {
	for _, w := range l.workers {
		calm, faulty = append(calm, w.calm...), append(faulty, w.faulty...)
	}
	return calm, faulty
}

// stored asks a healthy store how many hits each key of a set has been charged.
func stored(t *testing.T, limiter *headgate.Limiter, entry string, keys []*tally) []int64 {
	t.Helper()
	charged := make([]int64, len(keys))
	for i, key := range keys {
		charged[i] = quota - ask(t, limiter, asked{entry, key}, 0).Remaining
	}
	return charged
}

// ask takes hits of one key, again until the store itself answers: it may still be
// looking around, or the machine be busy. So hits are 0 or on a key for which it
// does not matter.
func ask(t *testing.T, limiter *headgate.Limiter, k asked, hits int64) limit.Decision {
	t.Helper()
	request := []headgate.Request{{Domain: "fault", Descriptors: []headgate.Descriptor{{
		Entries: []descriptor.Entry{{Key: k.entry, Value: k.key.value}}, Hits: hits,
	}}}}
	for end := time.Now().Add(patience); ; pause(sampling) {
		var response [1]headgate.Response
		if err := limiter.Check(context.Background(), request, response[:]); err != nil {
			t.Fatal(err)
		}
		v := &response[0].Verdicts[0]
		if v.Degraded == store.NoReason {
			return v.Decision
		}
		if time.Now().After(end) {
			t.Fatalf("a healthy store does not answer: %s", v.Degraded)
		}
	}
}
