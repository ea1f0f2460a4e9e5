package totals

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/racetest"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
)

// seeds is how many worlds are drawn; HEADGATE_SEEDS says another number.
func seeds(t *testing.T) int {
	if text := os.Getenv("HEADGATE_SEEDS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if testing.Short() {
		return 60
	}
	return 400
}

// maxSkew is by how much clocks of regions differ, in µs.
const maxSkew = 600_000

// world is regions with a store each, whose clocks differ, and nodes that tell the other
// regions over ways that lose, repeat and hold up what they carry.
type world struct {
	t       *testing.T
	rand    *rand.Rand
	now     limit.Micros // true time, µs
	skew    []limit.Micros
	stores  []*memstore.Store
	nodes   [][]*node
	loss    float64
	delay   limit.Micros // the longest
	out, in []bool       // regions that nothing leaves, or reaches
	demand  []float64    // which part of the demand each region has, at least up to the one before it
	post    []message
	passed  []passed
	limit   *limit.Limit
	perNode int
	every   int // how often nodes tell, in steps of 100 ms
}

// node is one process; a dead one is replaced by another.
type node struct {
	*Store
	region int
	phase  int // of its rounds, in steps of 100 ms
}

// message is totals that arrive later.
type message struct {
	at     limit.Micros
	to     int
	totals []store.Total
}

// passed is hits that a region let pass.
type passed struct {
	at     limit.Micros
	region int
	hits   int64
}

// way carries totals from one region to another.
type way struct {
	store.Importer
	w        *world
	from, to int
}

// Import implements store.Importer: at once, or later without an answer, or not at all.
func (y *way) Import(ctx context.Context, totals []store.Total, results []store.Result) {
	w := y.w
	lost := func() {
		for i := range results {
			results[i] = store.Result{Err: errAway}
		}
	}
	if w.out[y.from] || w.in[y.to] || w.rand.Float64() < w.loss {
		lost()
		return
	}
	if w.rand.Float64() < w.loss { // it comes later, too, or alone
		copied := append([]store.Total(nil), totals...)
		w.post = append(w.post, message{w.now + limit.Micros(w.rand.Int64N(int64(10*w.delay)+1)), y.to, copied})
		if w.rand.IntN(2) == 0 {
			lost()
			return
		}
	}
	y.Importer.Import(ctx, totals, results)
	if w.rand.Float64() < w.loss {
		lost() // the answer
	}
}

func (w *world) newNode(region int) *node {
	n := &node{region: region, phase: w.rand.IntN(10)}
	o := Options{
		Own: w.stores[region], Interval: time.Duration(w.every) * 100 * time.Millisecond, Floor: 10_000,
		Nodes: func() int { return w.perNode },
		Now:   func() limit.Micros { return w.now + w.skew[region] },
	}
	for to := range w.stores {
		if to != region {
			o.Peers = append(o.Peers, Peer{fmt.Sprint(to), &way{w.stores[to], w, region, to}})
		}
	}
	s, err := New(o)
	if err != nil {
		w.t.Fatal(err)
	}
	n.Store = s
	return n
}

// newWorld draws a world whose nodes tell once a second.
func newWorld(t *testing.T, seed uint64, l *limit.Limit, skewed bool) *world {
	return newWorldThatTells(t, seed, l, skewed, 10)
}

// newWorldThatTells is newWorld with nodes that tell once in so many steps of 100 ms.
func newWorldThatTells(t *testing.T, seed uint64, l *limit.Limit, skewed bool, every int) *world {
	r := rand.New(rand.NewPCG(seed, 19))
	w := &world{
		t: t, rand: r, every: every, now: noon + limit.Micros(r.Int64N(60_000_000)), limit: l,
		perNode: 1 + r.IntN(2), delay: limit.Micros(r.Int64N(150_000)),
	}
	for region := range 2 + r.IntN(3) {
		skew := limit.Micros(0)
		if skewed {
			skew = limit.Micros(r.Int64N(maxSkew))
		}
		w.skew, w.out, w.in = append(w.skew, skew), append(w.out, false), append(w.in, false)
		s, err := memstore.New(memstore.Options{MaxBytes: memstore.MinMaxBytes, Now: func() limit.Micros { return w.now + w.skew[region] }})
		if err != nil {
			t.Fatal(err)
		}
		w.stores = append(w.stores, s)
	}
	for region := range w.stores {
		var nodes []*node
		for range w.perNode {
			nodes = append(nodes, w.newNode(region))
		}
		w.nodes = append(w.nodes, nodes)
	}
	w.moves()
	return w
}

// moves draws where the demand is from now on: often most of it is in one region.
func (w *world) moves() {
	w.demand = w.demand[:0]
	sum := 0.0
	for range w.stores {
		sum += math.Pow(w.rand.Float64(), 3)
		w.demand = append(w.demand, sum)
	}
	for i := range w.demand {
		w.demand[i] /= sum
	}
}

// asked draws in which region somebody asks.
func (w *world) asked() int {
	at, _ := slices.BinarySearch(w.demand, w.rand.Float64())
	return min(at, len(w.demand)-1)
}

// cuts cuts a region off, in one direction or in both.
func (w *world) cuts(region int) {
	switch w.rand.IntN(3) {
	case 0:
		w.out[region] = true
	case 1:
		w.in[region] = true
	default:
		w.out[region], w.in[region] = true, true
	}
}

// ask has a node decide hits.
func (w *world) ask(n *node, hits int64) {
	results := make([]store.Result, 1)
	n.Take(context.Background(), []store.Take{{Key: []byte("key"), Limit: w.limit, Hits: hits}}, results)
	if results[0].Err != nil {
		w.t.Fatal(results[0].Err)
	}
	if results[0].Allowed {
		w.passed = append(w.passed, passed{w.now, n.region, hits})
	}
}

// deliver brings what has arrived by now, in any order.
func (w *world) deliver() {
	w.rand.Shuffle(len(w.post), func(i, j int) { w.post[i], w.post[j] = w.post[j], w.post[i] })
	kept := w.post[:0]
	for _, m := range w.post {
		if m.at > w.now {
			kept = append(kept, m)
			continue
		}
		w.stores[m.to].Import(context.Background(), m.totals, make([]store.Result, len(m.totals)))
	}
	w.post = kept
}

// tell has all nodes tell what is worth it; floor 0 all of it.
func (w *world) tell(floor int64) {
	for _, nodes := range w.nodes {
		for _, n := range nodes {
			for p := range n.peers {
				_ = n.tell(context.Background(), p, floor)
			}
		}
	}
}

// run lets so much time pass in steps of 100 ms, with demand in units of the limit a period.
func (w *world) run(lasts time.Duration, demand float64, deaths bool) {
	step := limit.Micros(100_000)
	each := demand * float64(w.limit.Quota) * 0.1 / w.limit.Period.Seconds()
	for at := range int(lasts / (100 * time.Millisecond)) {
		w.now += step
		w.deliver()
		for each := each; each > 0; each-- {
			if w.rand.Float64() < each {
				nodes := w.nodes[w.asked()]
				w.ask(nodes[w.rand.IntN(len(nodes))], 1)
			}
		}
		for _, nodes := range w.nodes {
			for i, n := range nodes {
				if (at+n.phase)%w.every != 0 {
					continue
				}
				if deaths && w.rand.IntN(200) == 0 {
					nodes[i] = w.newNode(n.region)
					continue
				}
				for p := range n.peers {
					_ = n.tell(context.Background(), p, n.floor)
				}
			}
		}
	}
}

// worst returns the most that passed in any window of the limit: by the clock of each region
// for windows, and within any period for buckets.
func (w *world) worst(region int) (most int64) {
	period := limit.Micros(w.limit.Period / time.Microsecond)
	sums := map[limit.Micros]int64{}
	for _, p := range w.passed {
		window := (p.at + w.skew[region]) / period
		sums[window] += p.hits
		most = max(most, sums[window])
	}
	return most
}

// level returns the most that a bucket of all regions together would have held.
func (w *world) level() (most float64) {
	drained := float64(w.limit.Quota) / w.limit.Period.Seconds()
	held, last := 0.0, w.now
	for i, p := range w.passed {
		if i > 0 {
			held = max(held-drained*float64(p.at-last)/1e6, 0)
		}
		held, last = held+float64(p.hits), p.at
		most = max(most, held)
	}
	return most
}

// elsewhere returns the most hits that passed within so long in regions that are not this one.
func (w *world) elsewhere(region int, within limit.Micros) (most int64) {
	sum, from := int64(0), 0
	for _, p := range w.passed {
		if p.region == region {
			continue
		}
		sum += p.hits
		for ; w.passed[from].at < p.at-within; from++ {
			if w.passed[from].region != region {
				sum -= w.passed[from].hits
			}
		}
		most = max(most, sum)
	}
	return most
}

// foreign returns the most hits that passed in other regions within so long before a hit.
func (w *world) foreign(within limit.Micros) (most int64) {
	for i, p := range w.passed {
		sum := int64(0)
		for j := i; j >= 0 && w.passed[j].at >= p.at-within; j-- {
			if w.passed[j].region != p.region {
				sum += w.passed[j].hits
			}
		}
		most = max(most, sum)
	}
	return most
}

var shared = map[string]*limit.Limit{
	"fixed_window":   limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 200, Period: 20 * time.Second}),
	"sliding_window": limit.Must(limit.Spec{Algorithm: limit.SlidingWindow, Quota: 200, Period: 20 * time.Second}),
	"sub_windows":    limit.Must(limit.Spec{Algorithm: limit.SubWindows, SubWindows: 5, Quota: 200, Period: 20 * time.Second}),
	"sliding_log":    limit.Must(limit.Spec{Algorithm: limit.SlidingLog, Quota: 200, Period: 20 * time.Second}),
	"token_bucket":   limit.Must(limit.Spec{Algorithm: limit.TokenBucket, Quota: 200, Period: 20 * time.Second, Burst: 200}),
	"gcra":           limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 200, Period: 20 * time.Second, Burst: 200}),
}

// What passes beyond the limit is no more than what the other regions could not have told yet,
// whatever is lost, repeated or late; a region that is cut off lets no more than the limit
// pass; and once all is told every store knows of each hit once.
//
//promise:regions-shared shared-bound shared-messages shared-process-dies shared-clocks
func TestFaults(t *testing.T) {
	racetest.Serially(t)
	worlds, hitsPassed, excess, most := 0, 0, int64(0), int64(0)
	for name, l := range shared {
		for seed := range uint64(seeds(t) / len(shared)) {
			w := newWorld(t, seed, l, seed%2 == 1)
			demand := []float64{0.5, 1, 2, 5}[seed%4]
			w.run(25*time.Second, demand, false)
			w.moves()
			w.run(20*time.Second, demand, false)
			w.check(name, seed, "quiet")
			w.loss = w.rand.Float64() * 0.2
			w.run(25*time.Second, demand, true)
			w.moves()
			cut := w.rand.IntN(len(w.stores))
			w.cuts(cut)
			w.run(25*time.Second, demand, true)
			w.out[cut], w.in[cut], w.loss = false, false, 0
			w.moves()
			w.run(25*time.Second, demand, false)
			w.bounded(name, seed)
			w.same(name, seed)
			for _, p := range w.passed {
				hitsPassed += int(p.hits)
			}
			for region := range w.stores {
				excess = max(excess, w.worst(region)-l.Quota)
			}
			worlds++
			most = max(most, int64(len(w.stores)))
		}
	}
	t.Logf("%d worlds of up to %d regions, %d hits passed; at most %d over a limit of 200 in a window, cut off", worlds, most, hitsPassed, excess)
}

// check asserts the bound while nothing fails.
func (w *world) check(name string, seed uint64, when string) {
	regions := int64(len(w.stores))
	// A round begins each second, and what is told arrives at once. The floor of 1 % is 2 hits
	// in each region.
	slack := w.foreign(1_000_000) + (regions-1)*2
	skewed := w.skew[0] != 0
	if skewed {
		// What passes between the beginnings of a window by two clocks may be told before the
		// later one.
		slack += w.foreign(maxSkew) + (regions-1)*2
	}
	bound := w.limit.Quota + slack
	switch w.limit.Algorithm {
	case limit.FixedWindow:
		for region := range w.stores {
			bound := bound
			if skewed {
				// And a window by this clock has so much of the next one by those of the others.
				bound += w.elsewhere(region, maxSkew)
			}
			if n := w.worst(region); n > bound {
				w.t.Errorf("%s, seed %d, %s: %d of %d passed in a window, the bound is %d", name, seed, when, n, w.limit.Quota, bound)
			}
		}
	case limit.TokenBucket, limit.GCRA:
		if n := w.level(); n > float64(bound)+1 {
			w.t.Errorf("%s, seed %d, %s: a bucket of %d held %.1f, the bound is %d", name, seed, when, w.limit.Quota, n, bound)
		}
	}
}

// bounded asserts that no region let more pass than the limit by itself.
func (w *world) bounded(name string, seed uint64) {
	period := limit.Micros(w.limit.Period / time.Microsecond)
	sums := map[[2]int64]int64{}
	for _, p := range w.passed {
		sums[[2]int64{int64(p.region), int64((p.at + w.skew[p.region]) / period)}] += p.hits
	}
	for at, n := range sums {
		most := w.limit.Quota
		if w.limit.Algorithm != limit.FixedWindow {
			most *= 2 // of a burst, and what drains meanwhile
		}
		if n > most {
			w.t.Errorf("%s, seed %d: region %d let %d of %d pass in a window", name, seed, at[0], n, w.limit.Quota)
		}
	}
}

// same asserts that all stores know of what passed in a new window, each hit once.
func (w *world) same(name string, seed uint64) {
	w.now += 3 * limit.Micros(w.limit.Period/time.Microsecond)
	w.deliver()
	want := int64(0)
	for region, nodes := range w.nodes {
		for i, n := range nodes {
			hits := int64(region + i + 1)
			w.ask(n, hits)
			want += hits
		}
	}
	w.tell(0)
	w.tell(0)
	for region, s := range w.stores {
		results := make([]store.Result, 1)
		s.Take(context.Background(), []store.Take{{Key: []byte("key"), Limit: w.limit}}, results)
		if used := results[0].Limit - results[0].Remaining; used != want {
			w.t.Errorf("%s, seed %d: region %d of %d knows of %d hits, want %d", name, seed, region, len(w.stores), used, want)
		}
	}
}
