package lease_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/lease"
	"pgregory.net/rapid"
)

// move is one step of a random history of a small fleet.
type move struct {
	what string
	node int
	n    int
	wait time.Duration
}

var moves = []string{"ask", "ask", "ask", "ask", "wait", "faults", "heal", "cut", "mute", "crash", "suspend", "drain"}

func drawMoves(t *rapid.T) []move {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) move {
		return move{
			what: rapid.SampledFrom(moves).Draw(t, "what"),
			node: rapid.IntRange(0, 2).Draw(t, "node"),
			n:    rapid.IntRange(1, 60).Draw(t, "n"),
			wait: time.Duration(rapid.IntRange(0, 400).Draw(t, "ms")) * time.Millisecond,
		}
	}), 10, 40).Draw(t, "moves")
}

func drawSpec(t *rapid.T) limit.Spec {
	spec := limit.Spec{
		Algorithm: rapid.SampledFrom([]limit.Algorithm{limit.SlidingWindow, limit.FixedWindow, limit.SubWindows, limit.TokenBucket, limit.GCRA}).Draw(t, "algorithm"),
		Quota:     rapid.Int64Range(1, 2000).Draw(t, "quota"),
		Period:    time.Duration(rapid.IntRange(500, 8000).Draw(t, "period")) * time.Millisecond,
	}
	if spec.Algorithm.IsBucket() {
		spec.Burst = rapid.Int64Range(1, 2000).Draw(t, "burst")
	}
	if spec.Algorithm == limit.SubWindows {
		spec.SubWindows = 4
	}
	return spec
}

// TestProtocol holds, for random histories with loss, repetition, late arrival,
// partitions, crashes and suspended machines, that never more passes than the
// limit allows and that no leased hit is made or lost unnoticed.
func TestProtocol(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		spec, history := drawSpec(rt), drawMoves(rt)
		seed := rapid.Uint64().Draw(rt, "seed")
		var problem string
		synctest.Test(t, func(t *testing.T) { problem = play(t, limit.Must(spec), history, seed) })
		if problem != "" {
			rt.Fatal(problem)
		}
	})
}

// fleet is the nodes of a history; the crashed ones are in the past.
type fleet struct {
	w     *world
	nodes [3]*node
	past  []*node
	made  int
	mode  *store.Mode
}

func (f *fleet) replace(i int) {
	if f.nodes[i] != nil {
		f.past = append(f.past, f.nodes[i])
	}
	f.nodes[i] = f.w.node(f.made, len(f.nodes), f.mode, 1)
	f.made++
}

// play runs a history and says what is wrong after it, "" if nothing.
func play(t *testing.T, l *limit.Limit, history []move, seed uint64) string {
	f := &fleet{w: newWorld(t, l, seed), mode: &store.Mode{Consistency: store.Leased, LeaseTTL: 200 * time.Millisecond}}
	f.w.aside += time.Duration(seed % 10_000_000_000)
	for i := range f.nodes {
		f.replace(i)
	}
	defer func() {
		for _, n := range append(f.past, f.nodes[:]...) {
			n.wg.Wait()
			n.store.Close()
		}
		time.Sleep(2 * lease.DefaultBudget) // the last questions end
	}()
	for i, m := range history {
		f.play(m)
		for j, n := range append(f.past, f.nodes[:]...) {
			st := n.store.Stats()
			if st.Granted != st.Used+st.Returned+st.Expired+st.Held+st.UnderWay {
				return fmt.Sprintf("after move %d (%+v), node %d: hits are not conserved: %+v", i, m, j, st)
			}
		}
	}
	for _, n := range f.nodes {
		n.wg.Wait()
	}
	for _, n := range f.past {
		n.wg.Wait()
	}
	if over := excess(l, f.w.passed); over > 0 {
		return fmt.Sprintf("%d hits passed over the limit", over)
	}
	return ""
}

func (f *fleet) play(m move) {
	n := f.nodes[m.node]
	switch m.what {
	case "ask":
		for range m.n {
			if s := n.suspended.Load(); s != nil && time.Now().Before(s.to) {
				break
			}
			n.wg.Go(n.ask)
			time.Sleep(m.wait / 100)
		}
	case "wait":
		time.Sleep(m.wait * time.Duration(m.n) / 10)
	case "faults":
		n.link.setFaults(faults{loss: 0.3, twice: 0.2, late: 0.1})
	case "heal":
		n.link.setFaults(faults{})
		n.link.cut.Store(false)
		n.link.mute.Store(false)
	case "cut":
		n.link.cut.Store(true)
	case "mute":
		n.link.mute.Store(true)
	case "crash":
		n.link.cut.Store(true)
		f.replace(m.node)
	case "suspend":
		now := time.Now()
		if s := n.suspended.Load(); s == nil {
			n.suspended.Store(&suspension{now, now.Add(m.wait + 150*time.Millisecond)})
		}
	case "drain":
		n.wg.Go(func() { n.store.Drain(n.w.t.Context()) })
		f.replace(m.node)
	}
}
