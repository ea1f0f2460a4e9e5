package fleetusage

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/overload"
)

const loopCapacity = 1000 // requests per second of the whole fleet

// loop is a fleet in virtual time: shedders that act on what they count of each
// other.
type loop struct {
	fleets   []*overload.Fleet
	counters []*Counter
	rng      *rand.Rand
}

func newLoop(t *testing.T, ctx context.Context, nodes int, seed uint64) *loop {
	t.Helper()
	shared := inMemory(t)
	l := &loop{rng: rand.New(rand.NewPCG(seed, 2))}
	for range nodes {
		c, err := New(Options{Store: shared, Capacity: loopCapacity})
		if err != nil {
			t.Fatal(err)
		}
		f, err := overload.NewFleet(overload.FleetOptions{Usage: c.Usage}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		go c.Run(ctx, func() int64 {
			admitted := f.Stats().Admitted
			return admitted[0] + admitted[1] + admitted[2] + admitted[3]
		})
		l.fleets, l.counters = append(l.fleets, f), append(l.counters, c)
	}
	return l
}

// second asks demand, in parts of the capacity by priority, and returns what was
// admitted of it in the same terms.
func (l *loop) second(demand [overload.Priorities]float64) (admitted [overload.Priorities]float64) {
	const steps = 100
	for range steps {
		for p, part := range demand {
			mean := part * loopCapacity / steps
			for range int(mean + l.rng.Float64()) {
				if l.fleets[l.rng.IntN(len(l.fleets))].Admit(overload.Priority(p), time.Now()).Admitted() {
					admitted[p] += 1.0 / loopCapacity
				}
			}
		}
		time.Sleep(time.Second / steps)
	}
	return admitted
}

func sum(parts [overload.Priorities]float64) float64 {
	return parts[0] + parts[1] + parts[2] + parts[3]
}

// TestFleetRestsAtItsThreshold (J3) closes the loop through a store: half a minute
// of nine times the capacity rests where P2 is shed in part, without swinging,
// P0 never shed and no priority before a lower one, and all is admitted again
// within 8 s of its end.
func TestFleetRestsAtItsThreshold(t *testing.T) {
	for _, nodes := range []int{1, 2, 5, 10} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			l := newLoop(t, ctx, nodes, uint64(nodes))
			calm, flood := [4]float64{.1, .1, .1, .1}, [4]float64{.2, .3, .6, 8}
			for range 10 {
				if got := l.second(calm); math.Abs(sum(got)-sum(calm)) > 0.02 {
					t.Errorf("%d nodes: %.3f admitted of %.3f before the flood", nodes, sum(got), sum(calm))
				}
			}
			var used, squares, turns float64
			const begin, settled, end = 10, 25, 70
			last, rising := 0.0, false
			for s := begin; s < end; s++ {
				got := l.second(flood)
				if got[0] < 0.98*flood[0] {
					t.Errorf("%d nodes, second %d: %.3f of P0 admitted of %.3f", nodes, s, got[0], flood[0])
				}
				if s < settled {
					continue
				}
				used += sum(got) / (end - settled)
				squares += sum(got) * sum(got) / (end - settled)
				if d := sum(got) - last; math.Abs(d) > 0.1 && (d > 0) != rising {
					rising, turns = d > 0, turns+1
				}
				last = sum(got)
				if got[1] < 0.95*flood[1] || got[3] > 0.05*flood[3] {
					t.Errorf("%d nodes, second %d: %.2f admitted of %.2f, want all P1 and next to no P3", nodes, s, got, flood)
				}
			}
			deviation := math.Sqrt(max(squares-used*used, 0))
			t.Logf("%d nodes: rests at %.3f of the capacity, deviation %.3f, %v turns in %d s", nodes, used, deviation, turns, end-settled)
			if math.Abs(used-0.8) > 0.05 || deviation > 0.06 || turns > 6 {
				t.Errorf("%d nodes: rests at %.3f, deviation %.3f, %v turns; want 0.8, at most 0.06 and 6", nodes, used, deviation, turns)
			}
			for range 8 {
				l.second(calm)
			}
			if got := l.second(calm); math.Abs(sum(got)-sum(calm)) > 0.02 {
				t.Errorf("%d nodes: %.3f admitted of %.3f 8 s after the flood", nodes, sum(got), sum(calm))
			}
			cancel()
			synctest.Wait()
		})
	}
}
