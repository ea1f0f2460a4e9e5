package rlqs

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const step = 10 * time.Millisecond

// play lets each of envoys ask for the bucket of one user as often a second as demand says,
// and returns how many requests each of them let pass in each second.
func (w *world) play(envoys []*envoy, lasts time.Duration, demand func(envoy int, at time.Duration) float64) (passed [][]int) {
	passed = make([][]int, len(envoys))
	owed := make([]float64, len(envoys))
	for at := time.Duration(0); at < lasts; at += step {
		for i, e := range envoys {
			if at%time.Second == 0 {
				passed[i] = append(passed[i], 0)
			}
			e.tick()
			e.wake()
			for owed[i] += demand(i, at) * step.Seconds(); owed[i] >= 1; owed[i]-- {
				if e.pass("u") {
					passed[i][len(passed[i])-1]++
				}
			}
		}
		w.now = w.now.Add(step)
	}
	return passed
}

func sum(seconds []int) (n int) {
	for _, s := range seconds {
		n += s
	}
	return n
}

func total(passed [][]int) (n int) {
	for _, seconds := range passed {
		n += sum(seconds)
	}
	return n
}

// simulated are rules, what they let pass in two minutes that begin with a window, and what
// may pass beyond that while streams find their parts.
var simulated = []struct {
	rule          string
	passes, grace int
}{
	{"{unit: hour, requests_per_unit: 1000, algorithm: fixed_window}", 1000, 0},
	{"{unit: hour, requests_per_unit: 1000}", 1000, 0},
	{"{unit: hour, requests_per_unit: 1000, algorithm: sliding_log}", 1000, 0},
	{"{unit: minute, requests_per_unit: 10, algorithm: fixed_window}", 20, 0},
	{"{unit: minute, requests_per_unit: 600}", 1200, 0},
	{"{unit: minute, requests_per_unit: 600, algorithm: token_bucket, burst: 20}", 20 + 1200, 50},
	{"{unit: second, requests_per_unit: 100, algorithm: gcra, burst: 50}", 50 + 12000, 500},
	{"{unit: second, requests_per_unit: 100, algorithm: fixed_window}", 100 + 12000, 500},
	{"{unit: second, requests_per_unit: 100}", 100 + 12000, 500},
}

// TestSimulationOfTooMuch: whoever asks, over however many nodes, all together get the limit,
// and nearly all of it: of a limit that comes back all the time, at most what comes back in an
// interval more, and one request for each Envoy while it was not told anything.
func TestSimulationOfTooMuch(t *testing.T) {
	for _, tt := range simulated {
		for _, many := range [][2]int{{1, 1}, {1, 4}, {2, 2}, {2, 5}, {3, 3}} {
			nodes, n := many[0], many[1]
			t.Run(fmt.Sprintf("%s, %d nodes, %d Envoys", tt.rule, nodes, n), func(t *testing.T) {
				w := newWorld(t, "domain: d\ndescriptors: [{key: user, rate_limit: "+tt.rule+"}]\n", nodes)
				var all []*envoy
				for i := range n {
					all = append(all, w.envoy(i%nodes, time.Duration(i)*1300*time.Millisecond))
				}
				passed := w.play(all, 2*time.Minute, func(int, time.Duration) float64 { return 200 })
				got := total(passed)
				t.Logf("%d of %d passed", got, tt.passes)
				if got > tt.passes+tt.grace+n {
					t.Errorf("%d passed, of %d and %d", got, tt.passes, tt.grace+n)
				}
				if got < tt.passes*9/10-2*n { // what is promised to one is missing for others
					t.Errorf("%d passed, of %d that might", got, tt.passes)
				}
			})
		}
	}
}

// Streams that want the same get about the same once they know of each other (a tenth is not
// worth telling), and one that wants little gets all of that.
func TestSimulationOfFairness(t *testing.T) {
	for _, nodes := range []int{1, 2} {
		w := newWorld(t, "domain: d\ndescriptors: [{key: user, rate_limit: {unit: second, requests_per_unit: 100, algorithm: gcra, burst: 50}}]\n", nodes)
		all := []*envoy{w.envoy(0, 0), w.envoy(nodes-1, 1300*time.Millisecond), w.envoy(0, 2900*time.Millisecond)}
		passed := w.play(all[:2], 2*time.Minute, func(int, time.Duration) float64 { return 300 })
		for i := range 2 {
			if got := sum(passed[i][60:]); got < 2500 || got > 3500 {
				t.Errorf("%d nodes: %d of 6000 passed for Envoy %d", nodes, got, i)
			}
		}
		passed = w.play(all, 2*time.Minute, func(i int, _ time.Duration) float64 { return []float64{300, 300, 5}[i] })
		if got := sum(passed[2][60:]); got < 285 || got > 301 {
			t.Errorf("%d nodes: %d of the 300 passed of who wants little", nodes, got)
		}
		if got := sum(passed[0][60:]) + sum(passed[1][60:]); got < 5000 || got > 6000 {
			t.Errorf("%d nodes: %d of 5700 passed of the others", nodes, got)
		}
	}
}

// What is not used goes back: who was alone and has stopped leaves all of it to who comes.
func TestSimulationOfShifts(t *testing.T) {
	w := newWorld(t, "domain: d\ndescriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 10000, algorithm: fixed_window}}]\n", 2)
	all := []*envoy{w.envoy(0, 0), w.envoy(1, 1300*time.Millisecond)}
	passed := w.play(all, 3*time.Minute, func(i int, at time.Duration) float64 {
		if (at < time.Minute) == (i == 0) {
			return 70
		}
		return 0
	})
	if got := total(passed); got < 9990 || got > 10002 {
		t.Errorf("%d of 10000 passed", got)
	}
}

// TestSimulationOfDemand is TestSimulationOfTooMuch for demand that comes and goes, streams that break and
// Envoys that come late. What a broken stream has passed and never reports is at most its
// assignment for as long as it lasts.
func TestSimulationOfDemand(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		tt := rapid.SampledFrom(simulated).Draw(r, "rule")
		nodes := rapid.IntRange(1, 3).Draw(r, "nodes")
		w := newWorld(t, "domain: d\ndescriptors: [{key: user, rate_limit: "+tt.rule+"}]\n", nodes)
		var all []*envoy
		var demands [][]float64
		for i := range rapid.IntRange(1, 5).Draw(r, "envoys") {
			all = append(all, w.envoy(i%nodes, time.Duration(rapid.IntRange(0, 499).Draw(r, "phase"))*step))
			demands = append(demands, rapid.SliceOfN(rapid.SampledFrom([]float64{0, 0.3, 7, 60, 300}), 8, 8).Draw(r, "demand"))
		}
		passed := w.play(all, 2*time.Minute, func(i int, at time.Duration) float64 { return demands[i][at/(15*time.Second)] })
		// What of a promise is left when a window ends may be used in the next one, and while it
		// is idle a limit that drains gives its burst anew to who has tokens yet.
		most := tt.passes + tt.grace + 3*len(all)
		if got := total(passed); got > most+tt.passes/4 {
			r.Fatalf("%d passed, of %d: %v", got, most, passed)
		}
	})
}

// TestStreamsBreak: Envoy goes on by what it was told until that ends, and reports to another
// node.
func TestStreamsBreak(t *testing.T) {
	w := newWorld(t, "domain: d\ndescriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 10000, algorithm: fixed_window}}]\n", 2)
	e := w.envoy(0, 0)
	passed := w.play([]*envoy{e}, time.Minute, func(int, time.Duration) float64 { return 100 })
	e.service.ledger.leave(e.session)
	if s := w.nodes[0].Stats(); s.Buckets != 0 || len(w.nodes[0].ledger.buckets) != 0 {
		t.Fatalf("something is left of a stream: %+v", s)
	}
	e.service, e.session = w.nodes[1], &session{service: w.nodes[1], domain: "d", leases: map[string]*lease{}}
	passed = slices.Concat(passed, w.play([]*envoy{e}, 2*time.Minute, func(int, time.Duration) float64 { return 100 }))
	// What was promised to the stream is lost with it: about twice what it used in an interval.
	if got := total(passed); got < 10000-1200 || got > 10002 {
		t.Errorf("%d of 10000 passed", got)
	}
}
