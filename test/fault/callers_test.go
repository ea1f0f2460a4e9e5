package fault

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

const (
	// nodeShare is which part of the rate is asked of processes over HTTP, where a check with an id costs three trips to
	// Redis and runs through sockets.
	nodeShare = 4
	// changesEvery is the time between two changes of accounts.
	changesEvery = 50 * time.Millisecond
)

// processLoad asks machines over HTTP at a steady rate, with an id for each check: whoever gets no answer asks the next
// machine by the same id.
type processLoad struct {
	machines    []*machine
	below, over *keySet

	stop       chan struct{}
	ending     sync.Once
	group      sync.WaitGroup
	underFault atomic.Bool
	decided    atomic.Int64
	failed     atomic.Int64
	slow       atomic.Int64
	hiccups    atomic.Int64
	callers    []*caller

	mu      sync.Mutex
	errs    []error          // the first few
	repeats map[*tally]int64 // checks on the key that got no answer at first
	refused map[*tally]int64 // those of them that were denied by the store when they were asked again
	// answers of the store, of which healedRun in a row make it healed
	inRow int
	since time.Time // of inRow

	accounts accounts
}

// accounts are the quotas that were changed under way, each once.
type accounts struct {
	asked, refused int
	changed        []string // those of which a node said so
	lost           int      // of these
}

// caller is one goroutine of the load.
type caller struct {
	*processLoad
	number, asked int
	// heard are the answers of each life of each machine, in their order.
	heard        map[life][]hearing
	calm, faulty []time.Duration
	mended       []time.Time // when a check was answered that had got no answer at first
}

// life is a machine between two of its deaths.
type life struct {
	machine int
	number  int64
}

// hearing is an answer to a check, of which the life of the machine should have written an event.
type hearing struct {
	trace string // of the event
	at    time.Time
}

// startProcessLoad begins to ask.
func startProcessLoad(machines []*machine) *processLoad {
	l := &processLoad{machines: machines, stop: make(chan struct{}), repeats: map[*tally]int64{}, refused: map[*tally]int64{},
		below: newKeySet("below", quota, belowLanes), over: newKeySet("over", demand*quota, overLanes)}
	workers := max(begun.workers/nodeShare, 4)
	rate := max(begun.rate/nodeShare, 100)
	for i := range workers {
		c := &caller{processLoad: l, number: i, heard: map[life][]hearing{}}
		l.callers = append(l.callers, c)
		l.group.Go(func() { c.run(time.Second * time.Duration(workers) / time.Duration(rate)) })
	}
	l.group.Go(l.changeAccounts)
	return l
}

// finish stops asking and waits for the last answers. It may be called more than once.
func (l *processLoad) finish() {
	l.ending.Do(func() { close(l.stop) })
	l.group.Wait()
}

// run makes a check at each tick.
func (c *caller) run(every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for n := c.number; ; n++ {
		select {
		case <-c.stop:
			return
		case <-ticker.C:
		}
		if n%2 == 0 {
			key, hit := c.below.next()
			c.check(hit, asked{"below", key})
		} else {
			key, hit := c.over.next()
			c.check(hit, asked{"over", key})
		}
	}
}

// check takes one hit at the machine whose turn it is, or at the next one that answers.
func (c *caller) check(turn int, k asked) {
	c.asked++
	trace := fmt.Sprintf("%016x%016x", c.number+1, c.asked)
	body := fmt.Sprintf(`{"domain":"fault","id":%q,"descriptors":[{"entries":[{"key":%q,"value":%q}]}]}`, trace, k.entry, k.key.value)
	header := "00-" + trace + fmt.Sprintf("-%016x-01", c.asked)
	faulty := c.underFault.Load()
	start := time.Now()
	var errs []error
	for i := range c.machines {
		m := c.machines[(turn+i)%len(c.machines)]
		if m.away.Load() {
			continue
		}
		before := m.life.Load()
		a, err := m.ask("/v1/check", body, header)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		end := time.Now()
		faulty = faulty || c.underFault.Load()
		if len(errs) == 0 && m.life.Load() == before {
			l := life{m.number, before}
			c.heard[l] = append(c.heard[l], hearing{trace, end})
		}
		c.note(k.key, &a, answer{node: m.number, start: start, end: end, passed: a.Allowed}, faulty, len(errs) > 0)
		return
	}
	c.failed.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.errs) < 5 {
		c.errs = append(c.errs, errors.Join(errs...))
	}
}

// note counts an answer.
func (c *caller) note(key *tally, a *said, at answer, faulty, again bool) {
	v := headgate.Verdict{Degraded: store.Reason(a.Degraded), Decision: limit.Decision{Allowed: a.Allowed}}
	key.count(&v, at, faulty)
	took := at.end.Sub(at.start)
	if c.decided.Add(1); faulty {
		c.faulty = append(c.faulty, took)
	} else {
		c.calm = append(c.calm, took)
		if v.Degraded != store.NoReason {
			c.hiccups.Add(1)
		}
	}
	if took > nodeBudget+margin && !again {
		c.slow.Add(1)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if again {
		c.repeats[key]++
		if !a.Allowed && v.Degraded == store.NoReason {
			c.refused[key]++
		}
		c.mended = append(c.mended, at.end)
	}
	switch {
	case v.Degraded != store.NoReason:
		c.inRow = 0
	default:
		if c.inRow == 0 {
			c.since = at.end
		}
		c.inRow++
	}
}

// waitHealed waits until the store answers all that is asked, and returns how long after from it has begun to.
func (l *processLoad) waitHealed(from time.Time) (time.Duration, bool) {
	l.mu.Lock()
	l.inRow = 0
	l.mu.Unlock()
	for end := time.Now().Add(patience); time.Now().Before(end); pause(sampling) {
		l.mu.Lock()
		inRow, since := l.inRow, l.since
		l.mu.Unlock()
		if inRow >= healedRun {
			l.underFault.Store(false)
			return max(0, since.Sub(from)), true
		}
	}
	return 0, false
}

// exhaust asks for more hits of the last keys that are above their limits, when the load has ended.
func (l *processLoad) exhaust() {
	c := &caller{processLoad: l, number: len(l.callers), heard: map[life][]hearing{}}
	for i := range l.over.lanes {
		if keys := l.over.lanes[i].keys; len(keys) > 0 {
			for hit := range demand * quota {
				c.check(hit, asked{"over", keys[len(keys)-1]})
			}
		}
	}
	l.callers = append(l.callers, c)
}

// changeAccounts changes one account after the other, at the machines in turn.
func (l *processLoad) changeAccounts() {
	ticker := time.NewTicker(changesEvery)
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-l.stop:
			return
		case <-ticker.C:
		}
		m := l.machines[n%len(l.machines)]
		if m.away.Load() {
			continue
		}
		account := fmt.Sprintf("tenant:a%d", n)
		l.accounts.asked++
		err := m.change(account)
		var refused refusal
		switch {
		case err == nil:
			l.accounts.changed = append(l.accounts.changed, account)
		case errors.As(err, &refused):
			l.accounts.refused++
		}
	}
}

// durations returns how long checks took, in calm times and under faults.
func (l *processLoad) durations() (calm, faulty []time.Duration) {
	for _, c := range l.callers {
		calm, faulty = append(calm, c.calm...), append(faulty, c.faulty...)
	}
	return calm, faulty
}

// mended returns when checks were answered that had got no answer at first, in order.
func (l *processLoad) mended() []time.Time {
	var all []time.Time
	for _, c := range l.callers {
		all = append(all, c.mended...)
	}
	slices.SortFunc(all, time.Time.Compare)
	return all
}

// unaccounted compares what Redis has charged the keys below their limits with what nodes have answered, as
// faulted.unaccounted does.
func (l *processLoad) unaccounted(t *testing.T) (late, lost int64) {
	t.Helper()
	for i, key := range l.below.all() {
		a, _ := l.machines[i%len(l.machines)].take(t, "below", key.value, 0)
		charged := quota - a.Remaining
		late += max(0, charged-key.allowed)
		lost += max(0, key.allowed-charged)
	}
	return late, lost
}
