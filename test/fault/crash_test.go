package fault

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testserver"
)

// nodeBudget is the --store-budget of machines: long, because Redis is well while they die.
const nodeBudget = patientBudget

// crash is a scenario in which machines die.
type crash struct {
	name  string
	tries int
	// upset, if not nil, makes another fault before the machine dies, and repairs it afterwards.
	upset func(r *machineRig, dies *machine) (repair func())
}

// A machine dies with all that it holds: requests in flight with their slots, leases, reservations, events that are not
// written yet, changes of quotas under way. Whoever was asking it asks another one by the same id.
//
//promise:node-dies-slots node-dies-leases node-dies-reservations
//promise:node-dies-checks node-dies-events node-dies-changes
func TestMachineKills(t *testing.T) {
	crash{name: "3 machines: kill -9 of one, node and proxy", tries: begun.nodeKills}.run(t)
}

// The same while all ways to Redis are slow.
func TestMachineKillsInABrownout(t *testing.T) {
	if !*long {
		t.Skip("only with -long")
	}
	crash{name: "3 machines: kill -9 of one in a brownout of 500 ms", tries: begun.tries, upset: func(r *machineRig, _ *machine) func() {
		slow := testserver.Toxic{Latency: 250 * time.Millisecond}
		for _, m := range r.machines {
			m.way.Set(testserver.Toxics{Up: slow, Down: slow})
		}
		return func() {
			for _, m := range r.machines {
				m.way.Heal()
			}
		}
	}}.run(t)
}

// The same while another machine is cut off from Redis: one of three is left.
//
//promise:node-cut-off
func TestMachineKillsWhileAnotherIsCutOff(t *testing.T) {
	if !*long {
		t.Skip("only with -long")
	}
	crash{name: "3 machines: kill -9 of one while another is cut off from Redis", tries: begun.tries, upset: func(r *machineRig, dies *machine) func() {
		way := r.machines[(dies.number+1)%machineCount].way
		way.Set(testserver.Toxics{Up: testserver.Toxic{Stall: true}, Down: testserver.Toxic{Stall: true}})
		return way.Heal
	}}.run(t)
}

// run lets machines die in turn, and demands what must hold in each case.
func (c crash) run(t *testing.T) {
	t.Helper()
	r := openMachines(t, nodeBudget)
	l := startProcessLoad(r.machines)
	defer l.finish()
	random := newRand(c.name)
	row := row{scenario: c.name, mode: "exact, closed"}
	of := leftRow{scenario: c.name}
	deaths := map[life]time.Time{}
	var killed []time.Time
	if _, ok := l.waitHealed(time.Now()); !ok {
		t.Fatal("the store does not answer before the first fault")
	}
	for i := 0; (i < c.tries || l.decided.Load() < begun.decisions) && !t.Failed(); i++ {
		e := r.newEstate(i%machineCount, fmt.Sprint(i))
		e.fill()
		pause(calmFor + time.Duration(random.Int64N(int64(calmFor))))
		l.underFault.Store(true)
		begin, at := time.Now(), life{e.dead.number, e.dead.life.Load()}
		repaired := c.death(r, e)
		deaths[at], killed = e.killed, append(killed, e.killed)
		took, ok := l.waitHealed(repaired)
		if !ok {
			t.Errorf("kill %d: the store does not answer the others %v later", i+1, patience)
		}
		row.tries++
		row.heal, row.outage = append(row.heal, took), append(row.outage, repaired.Add(took).Sub(begin))
		e.inherit()
		e.restart()
		of.lefts = append(of.lefts, e.left)
	}
	pause(calmFor)
	l.finish()
	l.exhaust()
	row.late, row.lost = l.unaccounted(t)
	for _, m := range r.machines {
		m.awaitFinished(t)
		m.end()
	}
	of.events = l.countEvents(t, deaths)
	of.chain = r.verify(t, &l.accounts)
	of.accounts = l.accounts
	l.judge(t, &row, killed)
	results.add(row)
	leftovers.add(of)
	t.Logf("%+v", of)
}

// death lets the machine die, under another fault if there is one, and returns when that was repaired, or else the
// instant of the death.
func (c crash) death(r *machineRig, e *estate) time.Time {
	e.t.Helper()
	if c.upset == nil {
		e.die()
		return e.killed
	}
	repair := c.upset(r, e.dead)
	defer repair()
	pause(begun.length / 2)
	e.die()
	pause(begun.length / 2)
	repair()
	return time.Now()
}

// judge fills the row and demands what must hold.
func (l *processLoad) judge(t *testing.T, r *row, killed []time.Time) {
	t.Helper()
	r.failed, r.slow, r.hiccups = l.failed.Load(), l.slow.Load(), l.hiccups.Load()
	calm, faulty := l.durations()
	r.p99, r.calm = percentile(faulty, 0.99), percentile(calm, 0.99)
	r.worst = max(longest(faulty), longest(calm))
	var repeats int64
	for _, n := range l.repeats {
		repeats += n
	}
	for _, key := range l.below.all() {
		r.add(key.counts)
		r.wrong += key.denied
		// A check that got no answer may have been charged. Its repeat is told what would be decided: a denial
		// where that hit was the last one of the key. Every other denial is wrong.
		if key.denied > l.refused[key] {
			t.Errorf("key %s, below its limit, was denied %d times, %d of them to checks that were asked again: %+v", key.value, key.denied, l.refused[key], key.counts)
		}
	}
	for _, key := range l.over.all() {
		r.add(key.counts)
		// A check that got no answer may not have been charged, and its repeat is not: it is told what would be
		// decided. So it may pass once more.
		excess, bound := max(0, key.passed()-quota), l.repeats[key]
		r.excess, r.byStore, r.bound = r.excess+excess, r.byStore+excess, r.bound+bound
		if excess > bound {
			t.Errorf("key %s: %d hits passed beyond its limit, and %d checks of it were asked twice: %+v", key.value, excess, bound, key.counts)
		}
	}
	r.notes = append(r.notes, fmt.Sprintf("%d checks were cut and asked again by their ids, the last one answered %s after a kill", repeats, rounded(l.answeredAgain(killed))))
	switch {
	case r.denied == 0:
		t.Error("no key above its limit was denied")
	case r.failed > 0:
		t.Errorf("%d failed calls, the first: %v", r.failed, l.errs)
	case r.lost > repeats || r.late > r.degraded()+repeats:
		t.Errorf("%d hits charged late with %d degraded, %d not charged; %d checks were asked again", r.late, r.degraded(), r.lost, repeats)
	}
	t.Logf("%d decisions, %d degraded (%d in calm times), excess %d of at most %d, healed after %v, p99 %v (calm %v), worst %v",
		r.decisions(), r.degraded(), r.hiccups, r.byStore, r.bound, r.heal, r.p99, r.calm, r.worst)
}

// answeredAgain is the longest time between a death and the answer to a check that it cut.
func (l *processLoad) answeredAgain(killed []time.Time) (most time.Duration) {
	for _, end := range l.mended() {
		i, _ := slices.BinarySearchFunc(killed, end, time.Time.Compare)
		if i > 0 {
			most = max(most, end.Sub(killed[i-1]))
		}
	}
	return most
}
