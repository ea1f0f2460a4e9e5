package regional_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/regional"
)

// The faults go over regions, partitions, differences between clocks, losses, deaths, restarts
// of the home and shifts of demand in virtual time, each drawn from a seed, and hold the limit
// for every one. The protocol is the real one; what is around it is in model_test.go.
//
//	HEADGATE_SEEDS=20000 go test -run Faults -v ./store/regional
//
// goes over more of them.

// faultsSeeds is how many seeds a usual run goes over.
const faultsSeeds = 3000

// planet is regions around a home.
type planet struct {
	rand  *rand.Rand
	limit *limit.Limit
	cuts  []regional.Cut
	home  homeModel
	saved data
	own   []reserve
	nodes []*traveller
	// cutFrom and cutTo is when a region cannot reach the home; loss is the part of the
	// messages that are lost, and shift the time after which demand moves on.
	cutFrom, cutTo []limit.Micros
	loss           float64
	shift          time.Duration
	demand         float64 // hits per step of all regions
	restarts       []limit.Micros
	crashes        bool
	strays         []stray
	ids            uint64
	now            limit.Micros
	passed         []passing
	asked          int64
}

type passing struct {
	at   limit.Micros
	hits int64
}

// stray is a question that arrives though nobody waits for it.
type stray struct {
	at limit.Micros
	q  store.LeaseRequest
}

// traveller is a node with messages that take their time.
type traveller struct {
	nodeModel
	arrives, back limit.Micros
	lost          bool
}

var faultsLimits = []limit.Spec{
	{Algorithm: limit.FixedWindow, Quota: 120, Period: 20 * time.Second},
	{Algorithm: limit.SlidingWindow, Quota: 120, Period: 20 * time.Second},
	{Algorithm: limit.SubWindows, Quota: 120, Period: 20 * time.Second, SubWindows: 5, Strict: true},
	{Algorithm: limit.TokenBucket, Quota: 120, Period: 20 * time.Second, Burst: 60},
	{Algorithm: limit.GCRA, Quota: 60, Period: 20 * time.Second, Burst: 60},
}

const (
	faultsSteps = 1200
	faultsStep  = 50 * time.Millisecond
)

func micros(d time.Duration) limit.Micros { return limit.Micros(d / time.Microsecond) }

func newPlanet(t testing.TB, seed uint64) *planet {
	t.Helper()
	p := &planet{rand: rand.New(rand.NewPCG(seed, 1))}
	p.limit = limit.Must(faultsLimits[int(seed)%len(faultsLimits)])
	regions := 2 + p.rand.IntN(3)
	layout := regional.Layout{Weights: map[string]int64{}, Reserve: []int64{250_000, 350_000, 500_000}[p.rand.IntN(3)]}
	for i := range regions {
		layout.Weights[fmt.Sprint("r", i)] = 1 + p.rand.Int64N(3)
	}
	length := micros(faultsStep) * faultsSteps
	p.now = limit.Micros(1_780_000_000_000_000) + limit.Micros(p.rand.Int64N(int64(micros(time.Minute))))
	p.home.restart(data{})
	p.home.mark(p.now - micros(time.Hour))
	p.saved = p.home.data.clone()
	for i := range regions {
		c, err := layout.CutFor(fmt.Sprint("r", i), p.limit)
		if err != nil {
			t.Fatal(err)
		}
		p.cuts = append(p.cuts, c)
		// Up to ten minutes, which is more than a window.
		p.own = append(p.own, reserve{aside: limit.Micros(p.rand.Int64N(2*int64(micros(10*time.Minute)))) - micros(10*time.Minute)})
		from := p.now + limit.Micros(p.rand.Int64N(int64(length)))
		to := from
		if p.rand.IntN(2) == 0 {
			to += limit.Micros(p.rand.Int64N(int64(length) / 2))
		}
		p.cutFrom, p.cutTo = append(p.cutFrom, from), append(p.cutTo, to)
		for range 1 + p.rand.IntN(2) {
			n := &traveller{nodeModel: nodeModel{region: i, off: time.Duration(p.rand.Int64N(int64(time.Hour)))}}
			n.rights = *regional.NewRights(c.Home, 0, n.clock(p.now))
			p.nodes = append(p.nodes, n)
		}
	}
	p.loss = []float64{0, 0.01, 0.2}[p.rand.IntN(3)]
	p.shift = time.Duration(1+p.rand.IntN(20)) * time.Second
	p.demand = float64(p.limit.Quota) / p.limit.Period.Seconds() * faultsStep.Seconds() * []float64{0.5, 1, 2, 10}[p.rand.IntN(4)]
	p.crashes = p.rand.IntN(2) == 0
	for range p.rand.IntN(3) {
		p.restarts = append(p.restarts, p.now+limit.Micros(p.rand.Int64N(int64(length))))
	}
	return p
}

// run goes on for the whole time.
func (p *planet) run() {
	for step := range faultsSteps {
		p.now += micros(faultsStep)
		if p.rand.IntN(200) == 0 {
			p.saved = p.home.data.clone()
		}
		for _, at := range p.restarts {
			if at <= p.now && at > p.now-micros(faultsStep) {
				p.home.restart(p.saved)
			}
		}
		p.deliverStrays()
		// Demand moves from region to region.
		busy := int(time.Duration(step)*faultsStep/p.shift) % len(p.cuts)
		for _, n := range p.nodes {
			rate := p.demand / float64(2*len(p.nodes))
			if n.region == busy {
				rate += p.demand / 4
			}
			for range p.poisson(rate) {
				p.hit(n)
			}
			p.travel(n)
			p.look(n)
			if p.crashes && p.rand.IntN(3000) == 0 {
				p.crash(n)
			}
		}
	}
}

func (p *planet) poisson(mean float64) (n int) {
	for at := p.rand.ExpFloat64(); at < mean; at += p.rand.ExpFloat64() {
		n++
	}
	return n
}

// hit is what Store.Take does with a hit.
func (p *planet) hit(n *traveller) {
	hits := int64(1)
	if p.rand.IntN(20) == 0 {
		hits = 3
	}
	p.asked += hits
	at := n.clock(p.now)
	n.rights.Note(hits, at)
	if _, held := n.rights.Spend(hits, at); !held && !p.own[n.region].take(p.cuts[n.region].Own, p.now, hits) {
		n.rights.Starve(hits)
		return
	}
	p.passed = append(p.passed, passing{p.now, hits})
}

// reaches says that a message between n and the home arrives now.
func (p *planet) reaches(n *traveller) bool {
	return (p.now < p.cutFrom[n.region] || p.now >= p.cutTo[n.region]) && p.rand.Float64() >= p.loss
}

// latency is how long a message takes.
func (p *planet) latency() limit.Micros {
	return micros(20*time.Millisecond + time.Duration(p.rand.Int64N(int64(200*time.Millisecond))))
}

// travel does what is due for n.
func (p *planet) travel(n *traveller) {
	at := n.clock(p.now)
	switch {
	case n.phase == idle:
		p.send(n, at)
	case n.phase == asked && p.now >= n.arrives:
		n.lost = n.lost || !p.reaches(n)
		if !n.lost || p.rand.IntN(4) == 0 {
			n.grant = p.home.lease(&n.q, p.now)
		}
		if p.rand.IntN(10) == 0 {
			p.strays = append(p.strays, stray{p.now + limit.Micros(p.rand.Int64N(int64(micros(30*time.Second)))), n.q})
		}
		n.phase, n.back = answered, p.now+p.latency()
		n.lost = n.lost || !p.reaches(n)
	case n.phase == answered && p.now >= n.back:
		switch {
		case n.lost:
			n.home.Failed(at)
			n.end(p.now, store.Grant{Err: errLost}, false)
		case !p.reaches(n):
			n.home.Failed(at)
			n.end(p.now, n.grant, false)
		default:
			n.end(p.now, n.grant, n.mark(&p.home, p.now) == n.before)
		}
	}
}

// send asks the home if there is something to ask.
func (p *planet) send(n *traveller, at time.Duration) {
	fence := p.cuts[n.region].Fence
	if !n.home.Answers(at) {
		return
	}
	if !n.home.Known() || !n.home.Lends(fence, at) {
		if !p.reaches(n) {
			n.home.Failed(at)
			return
		}
		n.mark(&p.home, p.now)
		return
	}
	q, ok := n.rights.Ask(int64(len(p.nodes)), at)
	if !ok {
		return
	}
	p.ids++
	q.ID = id(p.ids)
	n.phase, n.q, n.sent, n.before, n.lost = asked, q, at, n.home.Epoch(), false
	n.arrives = p.now + p.latency()
}

// look has another question of n hear the mark.
func (p *planet) look(n *traveller) {
	if n.phase != idle && p.rand.IntN(10) == 0 && p.reaches(n) {
		n.mark(&p.home, p.now)
	}
}

func (p *planet) deliverStrays() {
	kept := p.strays[:0]
	for _, s := range p.strays {
		if s.at > p.now {
			kept = append(kept, s)
			continue
		}
		p.home.lease(&s.q, p.now)
	}
	p.strays = kept
}

// crash puts a new node in the place of n.
func (p *planet) crash(n *traveller) {
	*n = traveller{nodeModel: nodeModel{region: n.region, off: n.off}}
	n.rights = *regional.NewRights(p.cuts[n.region].Home, 0, n.clock(p.now))
}

// excess is by how many hits the most crowded time is over what the limit lets pass in its
// length: of fixed windows the quota in each of the home's, of others the quota or the burst
// and what the rate gives.
func (p *planet) excess() int64 {
	l := p.limit
	if l.Algorithm == limit.FixedWindow {
		counts, worst := map[int64]int64{}, int64(math.MinInt64)
		for _, h := range p.passed {
			window := int64(h.at) / l.PeriodMicros()
			counts[window] += h.hits
			worst = max(worst, counts[window]-l.Quota)
		}
		return max(worst, 0)
	}
	burst := l.Quota
	if l.Algorithm.IsBucket() {
		burst = l.Burst
	}
	rate := float64(l.Quota) / float64(l.PeriodMicros())
	least, worst, sum := math.Inf(1), 0.0, int64(0)
	for _, h := range p.passed {
		drained := rate * float64(h.at-p.passed[0].at)
		least = min(least, float64(sum)-drained)
		sum += h.hits
		worst = max(worst, float64(sum)-drained-least-float64(burst))
	}
	return int64(worst + 1e-6)
}

//promise:regions-leased region-cut-off region-late-returns region-clocks
func TestFaults(t *testing.T) {
	seeds := faultsSeeds
	if raceEnabled || testing.Short() {
		seeds /= 10
	}
	if text := os.Getenv("HEADGATE_SEEDS"); text != "" {
		fmt.Sscan(text, &seeds)
	}
	var asked, passed int64
	for seed := range uint64(seeds) {
		p := newPlanet(t, seed)
		p.run()
		asked += p.asked
		for _, h := range p.passed {
			passed += h.hits
		}
		if over := p.excess(); over > 0 {
			t.Fatalf("seed %d: %d hits over %+v, reserve of region 0 %+v", seed, over, p.limit.Spec, p.cuts[0].Own.Spec)
		}
	}
	t.Logf("%d seeds: %d hits asked for, %d passed, 0 over", seeds, asked, passed)
}
