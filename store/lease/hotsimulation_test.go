package lease_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
)

// hotRate is how often a second the fleet is asked for the hot key.
const hotRate = 5000

// TestSimulationHotKey has three nodes asked for one key, 5,000 times a second, by a
// rule that says nothing of how it is decided, with denials remembered above: the store
// is called at most 1.5 times for 100 asks, and once where the window is not of a few
// seconds.
//
//promise:hot-keys-stay-exact
func TestSimulationHotKey(t *testing.T) {
	if raceEnabled || testing.Short() {
		t.Skip("a million decisions")
	}
	scenarios, length := hotScenarios(), 8*time.Second
	if long() {
		scenarios, length = append(scenarios, longHotScenarios()...), 60*time.Second
	}
	printHead("hot key: 3 nodes, 1 ms away, 5,000 asks per second")
	for _, sc := range scenarios {
		l := limit.Must(sc.spec)
		sc.mode, sc.denial, sc.nodes, sc.length = autoMode, true, 3, length
		sc.demand = hotRate * l.Period.Seconds() / float64(l.Quota)
		t.Run(sc.name, func(t *testing.T) {
			for _, seed := range seeds() {
				o := simulate(t, sc, seed)
				printRow(sc, o)
				sc.checkHot(t, o, seed)
			}
		})
	}
}

// checkHot holds what is promised of hot keys.
func (sc *scenario) checkHot(t *testing.T, o outcome, seed uint64) {
	if o.excess > 0 {
		t.Errorf("seed %d: %d hits over the limit", seed, o.excess)
	}
	if calls := o.steadyCalls(); sc.maxCalls > 0 && calls > sc.maxCalls {
		t.Errorf("seed %d: %.3f calls per 100 asks, want at most %v", seed, calls, sc.maxCalls)
	}
	if sc.maxUnder > 0 && o.underUse() > sc.maxUnder {
		t.Errorf("seed %d: %.2f %% under-use, want at most %v", seed, o.underUse(), sc.maxUnder)
	}
}

func per(quota int64, period time.Duration, algorithm limit.Algorithm) limit.Spec {
	s := limit.Spec{Algorithm: algorithm, Quota: quota, Period: period}
	if algorithm.IsBucket() {
		s.Burst = quota
	}
	return s
}

// hotScenarios are run in every test, longHotScenarios beside them when there is time.
func hotScenarios() []scenario {
	const sliding, fixed, gcra = limit.SlidingWindow, limit.FixedWindow, limit.GCRA
	return []scenario{
		{name: "sliding 1,000/s", spec: per(1000, time.Second, sliding), maxCalls: 1.5, maxUnder: 10},
		{name: "sliding 10,000/s", spec: per(10_000, time.Second, sliding), maxCalls: 1, maxUnder: 1},
		{name: "sliding 10,000/10s", spec: per(10_000, 10*time.Second, sliding), maxCalls: 1, maxUnder: 3},
		{name: "sliding 10,000/min", spec: per(10_000, time.Minute, sliding), maxCalls: 1, maxUnder: 3},
		{name: "sliding 1,000,000/min", spec: per(1_000_000, time.Minute, sliding), maxCalls: 1, maxUnder: 1},
		{name: "fixed 1,000/s", spec: per(1000, time.Second, fixed), maxCalls: 1.5, maxUnder: 1},
		{name: "fixed 10,000/min", spec: per(10_000, time.Minute, fixed), maxCalls: 1, maxUnder: 1},
		{name: "gcra 1,000/s", spec: per(1000, time.Second, gcra), maxCalls: 1.5, maxUnder: 3},
		{name: "gcra 10,000/10s", spec: per(10_000, 10*time.Second, gcra), maxCalls: 1, maxUnder: 3},
		{name: "gcra 100,000/min", spec: per(100_000, time.Minute, gcra), maxCalls: 1, maxUnder: 1},
		{name: "sub_windows 100,000/min", spec: per(100_000, time.Minute, limit.SubWindows), maxCalls: 1, maxUnder: 5},
		{name: "sliding 10,000/10s, one crashes", spec: per(10_000, 10*time.Second, sliding), maxCalls: 1.5, events: hotCrash},
		// While nobody answers, every ask asks: that is for breakers.
		{name: "gcra 10,000/10s, all cut off", spec: per(10_000, 10*time.Second, gcra), events: outage},
		{name: "fixed 10,000/2s, paused", spec: per(10_000, 2*time.Second, fixed), maxCalls: 2, events: hotPauses},
		{name: "gcra 10,000/10s, lossy", spec: per(10_000, 10*time.Second, gcra), events: lossy},
	}
}

func longHotScenarios() []scenario {
	var all []scenario
	for _, algorithm := range []limit.Algorithm{limit.SlidingWindow, limit.FixedWindow, limit.GCRA} {
		for _, of := range []struct {
			name   string
			quota  int64
			period time.Duration
		}{
			{"100/s", 100, time.Second}, {"4,000/s", 4000, time.Second}, {"1,000/10s", 1000, 10 * time.Second},
			{"100/min", 100, time.Minute}, {"1,000,000/h", 1_000_000, time.Hour},
		} {
			all = append(all, scenario{name: algorithm.String() + " " + of.name, spec: per(of.quota, of.period, algorithm), maxCalls: 1.5, maxUnder: 10})
		}
	}
	return all
}

// hotCrash: one node stops in the middle, and gives nothing back.
func hotCrash(_ *world, nodes []*node) {
	time.Sleep(4 * time.Second)
	nodes[1].dead.Store(true)
	nodes[1].link.cut.Store(true)
}

// outage: the store cannot be reached for two seconds.
func outage(_ *world, nodes []*node) {
	time.Sleep(3 * time.Second)
	for _, n := range nodes {
		n.link.cut.Store(true)
	}
	time.Sleep(2 * time.Second)
	for _, n := range nodes {
		n.link.cut.Store(false)
	}
}

// hotPauses: machines stand still for longer than a window, and their monotonic clocks
// with them.
func hotPauses(_ *world, nodes []*node) {
	for _, n := range nodes[:2] {
		time.Sleep(1700 * time.Millisecond)
		at := time.Now()
		n.suspended.Store(&suspension{at, at.Add(2300 * time.Millisecond)})
	}
}
