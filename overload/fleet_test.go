package overload

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// fleetModel is some nodes in virtual time that share one figure of what all of
// them admitted in the last second, which may come a second late.
type fleetModel struct {
	nodes    []*Fleet
	capacity float64
	lag      int
	// demand is what is asked in a second, in parts of the capacity.
	demand func(second int) [Priorities]float64
	// known says whether the figure is there; nil is always.
	known func(second int) bool

	rng    *rand.Rand
	second int
	used   []float64
	// admitted by second, in parts of the capacity, and its share of the asked.
	admitted []float64
	shares   [][Priorities]float64
}

func newFleetModel(t *testing.T, nodes, lag int, demand func(int) [Priorities]float64) *fleetModel {
	m := &fleetModel{capacity: 2000, lag: lag, demand: demand, rng: rand.New(rand.NewPCG(1, 2))}
	for range nodes {
		f, err := NewFleet(FleetOptions{Usage: m.usage}, testOrigin)
		if err != nil {
			t.Fatal(err)
		}
		f.draw = m.rng.Float64
		m.nodes = append(m.nodes, f)
	}
	return m
}

func (m *fleetModel) usage() Usage {
	i := len(m.used) - 1 - m.lag
	if i < 0 || m.known != nil && !m.known(m.second) {
		return Usage{}
	}
	return Usage{Used: m.used[i], Capacity: m.capacity}
}

func (m *fleetModel) run(seconds int) {
	for ; m.second < seconds; m.second++ {
		demand := m.demand(m.second)
		var asked, admitted [Priorities]float64
		total := 0.0
		for p := range Priorities {
			mean := demand[p] * m.capacity
			n := int(math.Round(mean + math.Sqrt(mean)*m.rng.NormFloat64()))
			for i := range max(n, 0) {
				at := time.Duration(m.second)*time.Second + time.Duration(float64(i)/float64(n)*float64(time.Second))
				asked[p]++
				if m.nodes[m.rng.IntN(len(m.nodes))].Admit(Priority(p), testOrigin.Add(at)).Admitted() {
					admitted[p]++
					total++
				}
			}
		}
		m.used = append(m.used, total)
		m.admitted = append(m.admitted, total/m.capacity)
		var shares [Priorities]float64
		for p := range Priorities {
			shares[p] = 1
			if asked[p] > 0 {
				shares[p] = admitted[p] / asked[p]
			}
		}
		m.shares = append(m.shares, shares)
	}
}

// TestFleetHoldsItsThresholds (J3, J5) holds where the usage of the fleet comes to rest
// under a steady load, who is shed there, that it does not swing by more than
// noise, and that all is admitted again within 8 s of the load's end: a second
// to see it, a second of lag, and six for three priorities in halves.
func TestFleetHoldsItsThresholds(t *testing.T) {
	skipModel(t)
	for _, c := range []struct {
		name   string
		demand [Priorities]float64
		used   float64
		shares [Priorities]float64
	}{
		{"room for all", [4]float64{.1, .2, .2, .1}, .6, [4]float64{1, 1, 1, 1}},
		{"P3 above its threshold", [4]float64{.1, .2, .2, .4}, .7, [4]float64{1, 1, 1, .5}},
		{"a flood of P3", [4]float64{.1, .1, .1, 9}, .7, [4]float64{1, 1, 1, .044}},
		{"P2 between two thresholds", [4]float64{.1, .3, .35, .5}, .75, [4]float64{1, 1, 1, 0}},
		{"P2 above its threshold", [4]float64{.2, .3, .6, 1}, .8, [4]float64{1, 1, .5, 0}},
		{"P1 above its threshold", [4]float64{.3, 1.2, 1, 1}, .9, [4]float64{1, .5, 0, 0}},
		{"the reserve beside little critical traffic", [4]float64{.01, 1.6, 0, 0}, .81, [4]float64{1, .5, 1, 1}},
		{"no critical traffic", [4]float64{0, 1.6, 0, 0}, .9, [4]float64{1, .5625, 1, 1}},
		{"critical traffic alone", [4]float64{2, .1, .1, .1}, 2, [4]float64{1, 0, 0, 0}},
	} {
		for _, lag := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s, lag %d", c.name, lag), func(t *testing.T) {
				const settled, minutes = 20, 5
				end := settled + 60*minutes
				m := newFleetModel(t, 5, lag, func(second int) [Priorities]float64 {
					if second >= end {
						return [4]float64{.1, .1, .1, .1}
					}
					return c.demand
				})
				m.run(end + 10)
				var used float64
				var shares [Priorities]float64
				for s := settled; s < end; s++ {
					used += m.admitted[s] / float64(60*minutes)
					for p := range Priorities {
						shares[p] += m.shares[s][p] / float64(60*minutes)
					}
				}
				turns := reversals(m.admitted[settled:end], 0.15*c.used)
				t.Logf("used %.3f, admitted %.2f, %d turns in %d minutes", used, shares, turns, minutes)
				if math.Abs(used-c.used) > 0.06*c.used {
					t.Errorf("used %.3f of the capacity, want %.3f", used, c.used)
				}
				for p := range Priorities {
					if math.Abs(shares[p]-c.shares[p]) > 0.06 {
						t.Errorf("%.2f of P%d admitted, want %.2f", shares[p], p, c.shares[p])
					}
				}
				if turns > 2*minutes {
					t.Errorf("usage turned %d times in %d minutes, want at most %d", turns, minutes, 2*minutes)
				}
				for p := range Priorities {
					for s := range end {
						if c.shares[p] == 1 && m.shares[s][p] < 0.8 {
							t.Errorf("second %d: %.2f of P%d admitted on the way", s, m.shares[s][p], p)
						}
					}
				}
				if last := m.shares[end+8]; last != [4]float64{1, 1, 1, 1} {
					t.Errorf("8 s after the load %v is admitted, want all", last)
				}
			})
		}
	}
}

// TestFleetUnknownUsage holds that nothing is shed while the usage is unknown,
// at once, and that what was learnt is not lost over a short gap.
func TestFleetUnknownUsage(t *testing.T) {
	m := newFleetModel(t, 3, 0, func(int) [Priorities]float64 { return [4]float64{.2, .2, .2, 3} })
	m.known = func(second int) bool { return second < 20 || second > 21 }
	m.run(24)
	if share := m.shares[18][P3]; share > 0.1 {
		t.Fatalf("%.2f of P3 admitted before the gap, want some 0.03", share)
	}
	if share := m.shares[21]; share != [4]float64{1, 1, 1, 1} {
		t.Errorf("%v admitted in the gap, want all", share)
	}
	if share := m.shares[23][P3]; share > 0.5 {
		t.Errorf("%.2f of P3 admitted after the gap, want the level to be kept", share)
	}
}

// TestUsageKnown holds that figures of no sense are unknown.
func TestUsageKnown(t *testing.T) {
	for _, u := range []Usage{{}, {1, 0}, {1, -1}, {-1, 1}, {math.NaN(), 1}, {1, math.NaN()}, {math.Inf(1), 1}, {1, math.Inf(1)}} {
		if u.known() {
			t.Errorf("%+v is known", u)
		}
	}
	for _, u := range []Usage{{0, 1}, {5, 1}} {
		if !u.known() {
			t.Errorf("%+v is unknown", u)
		}
	}
}

func drawFleetSample(t *rapid.T) fleetSample {
	m := fleetSample{intervals: rapid.Float64Range(0, 100).Draw(t, "intervals")}
	m.usage = Usage{Used: rapid.Float64Range(0, 50).Draw(t, "used"), Capacity: rapid.SampledFrom([]float64{0, 1, 10}).Draw(t, "capacity")}
	for p := range m.arrived {
		m.arrived[p] = rapid.SampledFrom([]float64{0, 0.1, 3, 100, 1e6}).Draw(t, "arrived")
	}
	return m
}

// TestFleetOrder (J5) holds, over any history: the level stays in its range; a share
// of one priority is admitted only where all of the next higher one is; P0 is
// never shed; with one draw no higher priority is shed while a lower one passes;
// and one interval moves no further than the steps allow.
func TestFleetOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := FleetOptions{Usage: func() Usage { return Usage{} }}.withDefaults()
		var f fleetLevel
		for range rapid.IntRange(1, 30).Draw(t, "intervals") {
			m, before := drawFleetSample(t), f.level
			f = f.next(o, m)
			if !(f.level >= 0 && f.level <= 3) {
				t.Fatalf("level %v", f.level)
			}
			if f.level-before > o.ShedStep+1e-9 || before-f.level > o.RestoreStep*max(m.intervals, 1)+1e-9 {
				t.Fatalf("level moved from %v to %v", before, f.level)
			}
			shares, draw := admittedShares(f.level), rapid.Float64Range(0, 0.999999).Draw(t, "draw")
			if shares[P0] != 1 {
				t.Fatalf("P0: %v", shares)
			}
			for p := P1; p <= P3; p++ {
				if shares[p] > 0 && shares[p-1] < 1 {
					t.Fatalf("shares %v at level %v: a lower priority is admitted while a higher one is shed", shares, f.level)
				}
				if admitsDraw(shares[p], draw) && !admitsDraw(shares[p-1], draw) {
					t.Fatalf("draw %v admits %v and not %v", draw, p, p-1)
				}
			}
		}
	})
}

// TestFleetGoalRises holds that a fuller fleet never has a lower goal.
func TestFleetGoalRises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := FleetOptions{Usage: func() Usage { return Usage{} }}.withDefaults()
		f := fleetLevel{level: rapid.Float64Range(0, 3).Draw(t, "level"), arrived: drawFleetSample(t).arrived}
		used := rapid.Float64Range(0, 5).Draw(t, "used")
		more := used + rapid.Float64Range(0, 5).Draw(t, "more")
		if low, high := f.goal(o, used), f.goal(o, more); low > high+1e-9 {
			t.Fatalf("goal %v at %v of the capacity and %v at %v", low, used, high, more)
		}
	})
}

func TestFleetOptionsValidate(t *testing.T) {
	usage := func() Usage { return Usage{} }
	for _, o := range []FleetOptions{
		{},
		{Usage: usage, ShedAt: [4]float64{P1: .5, P2: .8}},
		{Usage: usage, ShedAt: [4]float64{P3: math.NaN()}},
		{Usage: usage, ShedAt: [4]float64{P1: -1}},
		{Usage: usage, Reserve: 1},
		{Usage: usage, Reserve: math.NaN()},
		{Usage: usage, Interval: time.Nanosecond},
		{Usage: usage, ShedStep: -1},
		{Usage: usage, RestoreStep: math.NaN()},
		{Usage: usage, RetryAfter: -1},
	} {
		if _, err := NewFleet(o, testOrigin); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
	if _, err := NewFleet(FleetOptions{Usage: usage, ShedAt: [4]float64{P1: .6}}, testOrigin); err != nil {
		t.Errorf("a lower threshold of P1 alone: %v", err)
	}
}

// TestFleetClockStepsBack holds that a clock which steps back an hour does not
// stop the shedder.
func TestFleetClockStepsBack(t *testing.T) {
	asked := 0
	f, err := NewFleet(FleetOptions{Usage: func() Usage { asked++; return Usage{Used: 1, Capacity: 10} }}, testOrigin)
	if err != nil {
		t.Fatal(err)
	}
	f.Admit(P1, testOrigin.Add(2*time.Hour))
	for i := range 10 {
		f.Admit(P1, testOrigin.Add(time.Hour+time.Duration(i)*time.Second))
	}
	if asked < 9 {
		t.Errorf("the usage was asked %d times, want once a second", asked)
	}
}

// TestReserveIsForThoseWhoCome: the room of P0 is kept for a minute after the last of its
// requests, from the start too, and is there again with the first one that comes.
func TestReserveIsForThoseWhoCome(t *testing.T) {
	o := FleetOptions{}.withDefaults()
	var f fleetLevel
	turn := func(critical float64) float64 {
		f = f.next(o, fleetSample{usage: Usage{Used: 0.5, Capacity: 1}, arrived: [Priorities]float64{P0: critical}, intervals: 1})
		return f.reserved(o)
	}
	for i := range reserveKept - 1 {
		if got := turn(0); got != o.Reserve {
			t.Fatalf("%v is kept %d s after the start", got, i+1)
		}
	}
	if got := turn(0); got != 0 {
		t.Errorf("%v is kept after a minute without critical traffic", got)
	}
	if got := turn(0.25); got != o.Reserve {
		t.Errorf("%v is kept with critical traffic", got)
	}
	for range reserveKept - 1 {
		turn(0)
	}
	if got := f.reserved(o); got != o.Reserve {
		t.Errorf("%v is kept just before the minute is over", got)
	}
}
