package fault

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/denial"
	"github.com/headgate/headgate/store/lease"
	"github.com/headgate/headgate/store/local"
	"github.com/headgate/headgate/store/redisstore"
	"github.com/headgate/headgate/store/subbucket"
)

const (
	// calmFor is about how long the load runs before, between and after faults.
	calmFor = 200 * time.Millisecond
	// patience bounds the time to heal. The goal is five seconds.
	patience = 60 * time.Second
	// spareGoroutines is what a run may have beside its workers, of which each
	// may have some waiting for it.
	spareGoroutines, perWorker = 150, 3
)

// failureMode is a failure mode, as rules write it.
type failureMode string

const (
	failOpen   failureMode = "open"
	failClosed failureMode = "closed"
	failLocal  failureMode = "local"
)

// ruleMode is how a rule decides, and what it does when it cannot.
type ruleMode struct {
	failure failureMode
	leased  bool
}

// consistency returns the word of rules.
func (r ruleMode) consistency() string {
	if r.leased {
		return "leased"
	}
	return "exact"
}

// ruleText are the limits of the key sets; the verbs are the failure mode, the
// quota and the consistency.
const ruleText = `
domain: fault
match: path
descriptors:
  - {key: below, failure_mode: %[1]s, consistency: %[3]s, rate_limit: {unit: year, requests_per_unit: %[2]d}}
  - {key: partner, failure_mode: %[1]s, consistency: %[3]s, rate_limit: {unit: year, requests_per_unit: %[2]d}}
  - {key: over, failure_mode: %[1]s, consistency: %[3]s, rate_limit: {unit: year, requests_per_unit: %[2]d}}
  - {key: steady, failure_mode: %[1]s, consistency: %[3]s, rate_limit: {unit: year, requests_per_unit: 1000000000}}
`

// scenario is one kind of fault.
type scenario struct {
	name string
	mode failureMode
	// leased has the rules lease. Then a key below its limit may be denied: while
	// the last hits are held by the other node, or when a grant was lost on its
	// way, hits are charged that nobody uses. That is not wrong, but counted.
	leased bool
	// tries is how often the fault happens; 0 means as many as was asked for.
	tries int
	// options says where the store is; a Budget of 0 means begun.budget.
	options redisstore.Options
	// each, if not nil, changes the options of one node.
	each func(node int, o *redisstore.Options)
	// fault makes the fault, lasts as long as it does, and repairs it. It
	// returns the instant of the repair. Where counts may be lost it says so: see
	// faulted.loses.
	fault func(f *faulted) (repaired time.Time)
	// failovers, if not nil, returns how often a server has taken the place of
	// another. There should be one for each loss; those that come unasked, because the
	// machine was so busy that a server seemed to be dead, may lose any count.
	failovers func() int
	// restore makes all as it was before the next fault, when the store decides
	// again; nil does nothing.
	restore func(f *faulted)
	// steady are keys that are asked for ever, beside the others.
	steady []*tally
	// spare is how many goroutines more than usual may wait for an answer.
	spare int
	// gentle says that the fault need not degrade any answer.
	gentle bool
	// after looks at more than the row, when the load has ended and the store
	// has healed.
	after func(f *faulted)
}

// faulted is a run of a scenario.
type faulted struct {
	t     *testing.T
	load  *load
	nodes []*headgate.Limiter
	heard listener
	// length is how long the fault shall last.
	length time.Duration
	row    row
	losses []loss
	remedy remedy
	// opened are the stores of the nodes, options how they were opened.
	opened  []*redisstore.Store
	options redisstore.Options
	// stops are the spans in which a server was stopped.
	stops [][2]time.Time
	// apart is how often the store has answered each node while one was cut off.
	apart [fleet]int64
}

// loses notes that what the store answers from now on, until the returned function is
// called, or what it has answered before, may be lost.
func (f *faulted) loses() (over func()) {
	begin := time.Now()
	return func() { f.losses = append(f.losses, loss{begin, time.Now(), f.remedy}) }
}

// patientBudget is the budget of scenarios that look for faults where there must be
// none: so long that a machine which is busy with other things does not look like
// one.
const patientBudget = 250 * time.Millisecond

// openLimiter returns a limiter over the Redis that o names, with the stack of
// stores that `headgate serve` has, as a node of the fleet, and rules in that mode.
// heard is told why the store does not decide.
func openLimiter(t *testing.T, o redisstore.Options, rule ruleMode, heard *listener) *headgate.Limiter {
	t.Helper()
	limiter, _ := openNode(t, o, rule, heard)
	return limiter
}

// openNode is openLimiter and returns the store at the bottom of the stack too.
func openNode(t *testing.T, o redisstore.Options, rule ruleMode, heard *listener) (*headgate.Limiter, *redisstore.Store) {
	t.Helper()
	if o.Budget == 0 {
		o.Budget = begun.budget
	}
	shared, err := redisstore.New(o)
	if err != nil {
		t.Fatal(err)
	}
	nodes := func() int { return fleet }
	fallback, err := local.New(local.Options{Nodes: nodes})
	if err != nil {
		t.Fatal(err)
	}
	leases := lease.New(lease.Options{Store: &overheard{shared, heard}, Local: fallback, Nodes: nodes})
	stack := denial.New(subbucket.New(leases), denial.Options{})
	t.Cleanup(func() {
		for _, s := range []store.Store{stack, fallback} {
			if err := s.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		}
	})
	set := testrules.Load(t, fmt.Sprintf(ruleText, rule.failure, quota, rule.consistency()))
	limiter, err := headgate.New(headgate.Options{Store: stack, Fallback: fallback.Fallback(func(t *store.Take, now limit.Micros) (limit.State, bool) { return shared.Recall(t.Key, t.Limit, now) }), Rules: set})
	if err != nil {
		t.Fatal(err)
	}
	return limiter, shared
}

// run makes the faults of a scenario under load, and demands what must hold in
// each: no failed call, nothing wrongly denied, no excess without an excuse, and
// that the store decides again afterwards.
func (s scenario) run(t *testing.T) {
	t.Helper()
	before := runtime.NumGoroutine()
	f := &faulted{t: t, remedy: remembered, options: s.options}
	switch {
	case s.leased:
		f.remedy = outstanding
	case s.options.Remembered < 0:
		f.remedy = nothing
	}
	for i := range fleet {
		o := s.options
		if s.each != nil {
			s.each(i, &o)
		}
		node, shared := openNode(t, o, ruleMode{s.mode, s.leased}, &f.heard)
		f.nodes, f.opened = append(f.nodes, node), append(f.opened, shared)
	}
	failovers := 0
	if s.failovers != nil {
		failovers = s.failovers()
	}
	tries := s.tries
	if tries == 0 {
		tries = begun.tries
	}
	random := newRand(s.name)
	f.load = startLoad(f.nodes, s.steady)
	defer f.load.finish()
	if _, ok := f.load.waitHealed(time.Now(), patience); !ok {
		t.Error("the store does not answer before the first fault")
		tries = 0
	}
	healed := true
	for i := 0; (i < tries || f.load.decided.Load() < begun.decisions) && healed && !t.Failed(); i++ {
		pause(calmFor + time.Duration(random.Int64N(int64(calmFor))))
		f.length = begun.length + time.Duration(random.Int64N(int64(begun.length)))
		f.load.breaks()
		begin := time.Now()
		repaired := s.fault(f)
		var took time.Duration
		if took, healed = f.load.waitHealed(repaired, patience); !healed {
			t.Errorf("try %d: not healed %v after the repair", i+1, patience)
		}
		f.row.tries++
		f.row.heal = append(f.row.heal, took)
		f.row.outage = append(f.row.outage, repaired.Add(took).Sub(begin))
		if s.restore != nil && healed {
			s.restore(f)
		}
	}
	pause(calmFor)
	f.load.finish()
	if healed {
		f.load.exhaust()
	}
	if s.failovers != nil {
		f.unasked(s.failovers() - failovers - len(f.losses))
	}
	s.judge(f, before)
	if s.after != nil && healed {
		s.after(f)
	}
	results.add(f.row)
}

// unasked notes failovers that nothing in the scenario has caused.
func (f *faulted) unasked(failovers int) {
	for range failovers {
		l := loss{end: time.Now(), remedy: nothing}
		if f.remedy == outstanding {
			l.remedy = outstanding
		}
		f.losses = append(f.losses, l)
	}
	if failovers > 0 {
		f.row.notes = append(f.row.notes, fmt.Sprintf("%d failovers of a living primary", failovers))
	}
}

// judge fills the row and demands what must hold.
func (s scenario) judge(f *faulted, before int) {
	t, r, l := f.t, &f.row, f.load
	r.scenario, r.mode = s.name, ruleMode{s.mode, s.leased}.consistency()+", "+string(s.mode)
	r.failed, r.slow, r.most, r.hiccups = l.failed.Load(), l.slow.Load(), l.most, l.hiccups.Load()
	for _, shared := range f.opened {
		for _, shard := range shared.Stats().Shards {
			r.reseeded += shard.Reseeded
		}
	}
	calm, faulty := l.durations()
	r.p99, r.calm = percentile(faulty, 0.99), percentile(calm, 0.99)
	r.worst = max(longest(faulty), longest(calm))
	for _, key := range slices.Concat(l.below.all(), l.pair.all(), twinsOf(l.pair.all()), s.steady) {
		r.add(key.counts)
		if wrong := key.denied + key.localDenied; wrong > 0 {
			r.wrong += wrong
			if !s.leased {
				t.Logf("key %s, below its limit, was denied: %+v, degraded %v, answers %+v", key.value, key.counts, key.reasons, key.answers)
			}
		}
	}
	for _, key := range slices.Concat(l.over.all(), l.spent.all()) {
		r.add(key.counts)
		excess, byStore, bound := key.excess(f.losses)
		r.excess += excess
		r.byStore += byStore
		r.bound += bound
		if byStore > bound {
			t.Errorf("key %s: the store let %d pass beyond the limit of %d, and can have forgotten %d: %+v", key.value, byStore, quota, bound, key.counts)
		}
		if key.openAllowed > fleet*quota {
			t.Errorf("key %s: the nodes let %d pass by failure mode open, more than %d times the limit of %d", key.value, key.openAllowed, fleet, quota)
		}
		if key.localAllowed > quota {
			t.Errorf("key %s: the fallbacks let %d pass, more than the limit of %d", key.value, key.localAllowed, quota)
		}
	}
	if r.denied+r.localDenied == r.wrong {
		t.Error("no key above its limit was denied")
	}
	if r.degraded() == 0 && !s.gentle {
		t.Error("no answer was degraded: there was no fault")
	}
	if r.failed > 0 {
		t.Errorf("%d failed calls, the first: %v", r.failed, l.errs)
	}
	if s.leased {
		r.notes = append(r.notes, fmt.Sprintf("%d denied while leases held the rest", r.wrong))
		r.wrong = 0
	}
	if r.wrong > 0 {
		t.Errorf("%d wrongly denied", r.wrong)
	}
	if bound := before + perWorker*begun.workers + spareGoroutines + s.spare; r.most > bound {
		t.Errorf("%d goroutines at one time, more than %d", r.most, bound)
	}
	t.Logf("why answers were degraded: %s", &f.heard)
	t.Logf("%d decisions, %d degraded (%d in calm times), excess %d, by the store %d of at most %d, healed after %v, p99 %v (calm %v), worst %v, %d goroutines",
		r.decisions(), r.degraded(), r.hiccups, r.excess, r.byStore, r.bound, r.heal, r.p99, r.calm, r.worst, r.most)
}
