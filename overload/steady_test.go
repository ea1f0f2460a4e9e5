package overload

import (
	"testing"
	"time"
)

// steady is the storm's server under an even load.
func steady(rate float64, s *Shedder) *world {
	w := storm(s, deaf)
	w.tries = 1
	w.rate = func(time.Duration) float64 { return rate }
	return w
}

// reversals counts how often a series turns by more than band.
func reversals(series []float64, band float64) int {
	if len(series) == 0 {
		return 0
	}
	turns, rising, falling := 0, true, true
	low, high := series[0], series[0]
	for _, v := range series[1:] {
		low, high = min(low, v), max(high, v)
		switch {
		case rising && v < high-band:
			if !falling {
				turns++
			}
			rising, falling, low = false, true, v
		case falling && v > low+band:
			if !rising {
				turns++
			}
			rising, falling, high = true, false, v
		}
	}
	return turns
}

// TestSteadyOverload (J4) holds for ten minutes of twice the load that goodput stays
// near capacity, that the best latency seen does not drift with the queue, and
// that what is admitted does not swing: no more than two turns a minute by more
// than 10 % of what is asked.
func TestSteadyOverload(t *testing.T) {
	skipModel(t)
	const minutes = 10
	shedder := newTestShedder(t, Options{})
	w := steady(2*capacity, shedder)
	w.run(minutes*time.Minute, 3)
	all := w.total(10, minutes*60)
	if mean := float64(all.good) / (minutes*60 - 10); mean < 0.95*capacity {
		t.Errorf("%.0f/s good, want 95 %% of %d/s", mean, capacity)
	}
	if p99 := quantile(all.latencies, .99); p99 > 6*w.service {
		t.Errorf("p99 %v, want at most %v", p99, 6*w.service)
	}
	if base := shedder.Stats().Base; base > 3*w.service/2 || base < w.service/2 {
		t.Errorf("the best latency seen is %v after %d minutes, want about %v", base, minutes, w.service)
	}
	var admitted []float64
	for s := 10; s < minutes*60; s++ {
		x := w.total(s, s+1)
		admitted = append(admitted, 1-share(x.shed, x.tries))
	}
	turns := reversals(admitted, 0.1)
	t.Logf("limit %.0f, base %v, latency %v, %d turns in %d minutes, served by priority %v of %v",
		shedder.Stats().Limit, shedder.Stats().Base, shedder.Stats().Latency, turns, minutes, all.served, all.arrived)
	if turns > 2*minutes {
		t.Errorf("the admitted share turned %d times in %d minutes, want at most %d", turns, minutes, 2*minutes)
	}
	// P0 to P2 ask for 1.5 of the capacity here, P0 and P1 for half of it.
	for p := P0; p <= P1; p++ {
		if got := share(all.served[p], all.arrived[p]); got < 0.995 {
			t.Errorf("%.4f of %v served, want all: it asks for half of the capacity at most", got, p)
		}
	}
	if p3, p2 := share(all.served[P3], all.arrived[P3]), share(all.served[P2], all.arrived[P2]); p3 > 0.05 || p2 < 0.4 {
		t.Errorf("%.2f of P2 and %.2f of P3 served, want P3 to give way to P2", p2, p3)
	}
}

// TestNoSheddingBelowCapacity holds that a server at 80 % of its capacity sheds
// next to nothing.
func TestNoSheddingBelowCapacity(t *testing.T) {
	skipModel(t)
	for _, workers := range []int{1, 4, 10, 40} {
		w := steady(0.8*float64(workers)*50, newTestShedder(t, Options{}))
		w.workers = workers
		w.run(2*time.Minute, 5)
		all := w.total(10, 120)
		got := share(all.shed, all.tries)
		t.Logf("%d workers: %.4f shed, limit %.0f", workers, got, all.limit)
		if most := map[int]float64{1: 0.08, 4: 0.01, 10: 0.001, 40: 0.001}[workers]; got > most {
			t.Errorf("%d workers: %.4f shed, want at most %v", workers, got, most)
		}
	}
}

// TestServerBecomesSlower holds that a server which is slower for good, with
// room for the load, is not strangled by the memory of its better days, and that
// one which becomes fast again is used.
func TestServerBecomesSlower(t *testing.T) {
	skipModel(t)
	w := steady(200, newTestShedder(t, Options{}))
	w.workers = 100
	w.slowness = func(at time.Duration) float64 {
		if at >= 30*time.Second && at < 90*time.Second {
			return 10
		}
		return 1
	}
	w.run(2*time.Minute, 7)
	for s := 20; s < 120; s += 10 {
		x := w.total(s, s+10)
		t.Logf("%d s: asked %d shed %d good %d, p50 %v, limit %.0f", s, sum(x.arrived), x.shed, x.good, quantile(x.latencies, .5), x.limit)
	}
	for _, phase := range [][2]int{{50, 90}, {95, 120}} {
		x := w.total(phase[0], phase[1])
		if got := share(x.shed, x.tries); got > 0.02 {
			t.Errorf("seconds %v: %.3f shed, want none: the server has room", phase, got)
		}
	}
}

// TestReversals pins the measure that the tests of flapping stand on.
func TestReversals(t *testing.T) {
	for _, c := range []struct {
		series []float64
		want   int
	}{
		{nil, 0},
		{[]float64{1, 1, 1}, 0},
		{[]float64{0, .5, 1, .95, 1}, 0},
		{[]float64{0, 1, 0, 1, 0}, 3},
		{[]float64{1, .5, .1, .5, 1}, 1},
	} {
		if got := reversals(c.series, 0.1); got != c.want {
			t.Errorf("reversals(%v) = %d, want %d", c.series, got, c.want)
		}
	}
}
