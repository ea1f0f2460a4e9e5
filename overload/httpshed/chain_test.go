package httpshed_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/overload"
	"github.com/headgate/headgate/overload/httpshed"
)

// The chain: clients that give up and try again, the middleware, and behind it a
// backend of a few workers with a queue that nothing bounds and that works on for
// clients that have gone, as a server behind a proxy does. All of it in virtual
// time.
const (
	workers      = 10
	service      = 40 * time.Millisecond
	capacity     = 250 // requests per second
	usualRate    = 200
	patience     = time.Second // of a client
	tries        = 3
	stormBegins  = 10
	stormEnds    = 40
	chainSeconds = 60
)

// backend serves in order of arrival.
type backend struct {
	queue   chan chan struct{}
	working sync.WaitGroup
}

func newBackend(ctx context.Context, seed uint64) *backend {
	b := &backend{queue: make(chan chan struct{}, 1<<20)}
	for i := range uint64(workers) {
		b.working.Go(func() { b.work(ctx, rand.New(rand.NewPCG(seed, i))) })
	}
	return b
}

func (b *backend) work(ctx context.Context, rng *rand.Rand) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case done := <-b.queue:
			// Half of the time is fixed and half is random.
			time.Sleep(service/2 + time.Duration(rng.ExpFloat64()*float64(service/2)))
			close(done)
		}
	}
}

func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	done := make(chan struct{})
	b.queue <- done
	select {
	case <-done:
	case <-r.Context().Done(): // a proxy lets go; the backend does not know
		w.WriteHeader(http.StatusBadGateway)
	}
}

// second is what happened to the requests of one second: arrived and served by
// the second in which they came first, good by that in which they were served.
type second struct {
	arrived, served, atOnce [overload.Priorities]int
	tries, shed, good       int
	// tried and admitted by priority, by the second of the try.
	tried, admitted [overload.Priorities]int
}

// chain is one run.
type chain struct {
	handler http.Handler
	// heeds says that clients wait as long as they are told; others come back
	// within 100 ms.
	heeds bool
	begun time.Time
	mu    sync.Mutex
	tally [chainSeconds + 10]second
}

func (c *chain) note(at time.Time, change func(*second)) {
	i := int(at.Sub(c.begun) / time.Second)
	c.mu.Lock()
	defer c.mu.Unlock()
	if i < len(c.tally) {
		change(&c.tally[i])
	}
}

// asks are the requests of each priority, as clients send them.
var asks = [overload.Priorities]struct{ method, path, header string }{
	{"POST", "/v1/charges", ""},
	{"POST", "/v1/orders", ""},
	{"GET", "/v1/orders", ""},
	{"GET", "/v1/orders", "test"},
}

// client asks until it is served or has tried often enough.
func (c *chain) client(p overload.Priority, rng *rand.Rand) {
	arrived := time.Now()
	c.note(arrived, func(s *second) { s.arrived[p]++ })
	for try := range tries {
		wait := 50*time.Millisecond + time.Duration(rng.Int64N(int64(50*time.Millisecond)))
		ctx, cancel := context.WithCancel(context.Background())
		timer := time.AfterFunc(patience, cancel)
		r := httptest.NewRequestWithContext(ctx, asks[p].method, asks[p].path, nil)
		if asks[p].header != "" {
			r.Header.Set("X-Priority", asks[p].header)
		}
		answer, at := httptest.NewRecorder(), time.Now()
		c.handler.ServeHTTP(answer, r)
		timer.Stop()
		gone := ctx.Err() != nil
		cancel()
		shed := answer.Code == overload.Status
		c.note(at, func(s *second) {
			s.tries++
			s.tried[p]++
			if shed {
				s.shed++
			} else {
				s.admitted[p]++
			}
		})
		if !shed && !gone {
			c.note(time.Now(), func(s *second) { s.good++ })
			c.note(arrived, func(s *second) {
				s.served[p]++
				if try == 0 {
					s.atOnce[p]++
				}
			})
			return
		}
		if seconds, err := strconv.Atoi(answer.Header().Get("Retry-After")); c.heeds && shed && err == nil {
			wait = time.Duration(seconds) * time.Second
		}
		time.Sleep(wait)
	}
}

// run lets clients come: 5 % P0, 20 % P1, 50 % P2 and 25 % P3, ten times as many
// during the storm.
func (c *chain) run(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 99))
	c.begun = time.Now()
	var group sync.WaitGroup
	for time.Since(c.begun) < chainSeconds*time.Second {
		rate := float64(usualRate)
		if at := time.Since(c.begun); at >= stormBegins*time.Second && at < stormEnds*time.Second {
			rate *= 10
		}
		time.Sleep(time.Duration(rng.ExpFloat64() / rate * float64(time.Second)))
		p, draw := overload.P0, rng.Float64()
		for _, below := range []float64{.05, .25, .75} {
			if draw >= below {
				p++
			}
		}
		own := rand.New(rand.NewPCG(rng.Uint64(), 0))
		group.Go(func() { c.client(p, own) })
	}
	group.Wait()
}

func (c *chain) total(from, to int) second {
	var sum second
	for _, s := range c.tally[from:to] {
		for p := range sum.arrived {
			sum.arrived[p] += s.arrived[p]
			sum.served[p] += s.served[p]
			sum.atOnce[p] += s.atOnce[p]
			sum.tried[p] += s.tried[p]
			sum.admitted[p] += s.admitted[p]
		}
		sum.tries += s.tries
		sum.shed += s.shed
		sum.good += s.good
	}
	return sum
}

func share(part, whole int) float64 { return float64(part) / float64(max(whole, 1)) }

func all(n [overload.Priorities]int) int { return n[0] + n[1] + n[2] + n[3] }

func (c *chain) report() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-12s %8s %8s %8s %7s  served by priority, %%\n", "seconds", "asked/s", "tries/s", "good/s", "shed")
	for _, phase := range []struct {
		name     string
		from, to int
	}{
		{"before", 4, stormBegins}, {"storm 0-2", stormBegins, stormBegins + 2}, {"storm 2-30", stormBegins + 2, stormEnds},
		{"after 0-5", stormEnds, stormEnds + 5}, {"after 5-10", stormEnds + 5, stormEnds + 10}, {"after 10-20", stormEnds + 10, chainSeconds},
	} {
		s, n := c.total(phase.from, phase.to), phase.to-phase.from
		fmt.Fprintf(&b, "%-12s %8d %8d %8d %6.1f%%  ", phase.name, all(s.arrived)/n, s.tries/n, s.good/n, 100*share(s.shed, s.tries))
		for p := range s.served {
			fmt.Fprintf(&b, " P%d %3.0f", p, 100*share(s.served[p], s.arrived[p]))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// runChain runs the chain with or without shedding.
func runChain(t *testing.T, sheds, heeds bool) *chain {
	t.Helper()
	c := &chain{heeds: heeds}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		server := newBackend(ctx, 7)
		defer server.working.Wait()
		defer cancel()
		c.handler = server
		if sheds {
			worker, err := overload.New(overload.Options{}, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			classifier, err := overload.NewClassifier(overload.ClassifierOptions{
				Paths: []overload.PathPriority{{Method: "POST", Pattern: "/v1/charges", Priority: overload.P0}},
			})
			if err != nil {
				t.Fatal(err)
			}
			gate := overload.NewGate(nil, worker)
			m, err := httpshed.New(httpshed.Options{Gate: gate, Classifier: classifier, Header: "X-Priority"})
			if err != nil {
				t.Fatal(err)
			}
			c.handler = m.Wrap(c.handler)
			defer func() {
				s := worker.Stats()
				t.Logf("at the end: %+v, limit %.0f, base %v, latency %v, in flight %d+%d", gate.Stats(), s.Limit, s.Base, s.Latency, s.Critical, s.InFlight)
			}()
		}
		c.run(3)
	})
	return c
}

// TestStormThroughTheChain (J4, J5, F82): ten times the load for 30 s through the
// middleware.
func TestStormThroughTheChain(t *testing.T) {
	if raceEnabled || testing.Short() {
		t.Skip("some 200,000 requests in virtual time")
	}
	for _, heeds := range []bool{false, true} {
		t.Run(fmt.Sprintf("clients heed Retry-After %v", heeds), func(t *testing.T) {
			c := runChain(t, true, heeds)
			t.Logf("\n%s", c.report())
			checkStorm(t, c)
			checkOrder(t, c)
			checkAfter(t, c, heeds)
		})
	}
}

func checkStorm(t *testing.T, c *chain) {
	t.Helper()
	if before := c.total(4, stormBegins); share(all(before.atOnce), all(before.arrived)) < 0.999 {
		t.Errorf("%d of %d served at once before the storm, want all", all(before.atOnce), all(before.arrived))
	}
	// A second is some 250 requests, in an order that the scheduler chooses: over
	// five the rate counts, in one that work goes on.
	for s := stormBegins + 2; s < stormEnds; s++ {
		if good := c.total(s, s+1).good; good < capacity/2 {
			t.Errorf("second %d of the storm: %d/s good, want half of %d/s", s-stormBegins, good, capacity)
		}
		if five := c.total(s-4, s+1).good / 5; s >= stormBegins+7 && five < capacity*8/10 {
			t.Errorf("five seconds to second %d of the storm: %d/s good, want 80 %% of %d/s", s-stormBegins, five, capacity)
		}
	}
	if storm := c.total(stormBegins, stormEnds); share(storm.served[0], storm.arrived[0]) < 0.999 {
		t.Errorf("%d of %d critical requests served in the storm, want all", storm.served[0], storm.arrived[0])
	}
}

// checkOrder holds that in no second of the run a larger share of a priority was
// admitted than of the one above it.
func checkOrder(t *testing.T, c *chain) {
	t.Helper()
	for s := range chainSeconds {
		x := c.total(s, s+1)
		for p := 1; p < overload.Priorities; p++ {
			above, here := share(x.admitted[p-1], x.tried[p-1]), share(x.admitted[p], x.tried[p])
			// Chance gives each some spread: within a second one draws a better
			// instant than the other.
			if noise := 6 / math.Sqrt(float64(max(x.tried[p-1], 1))); x.tried[p-1] > 0 && here > above+noise*math.Sqrt(max(above*(1-above), 0.01)) {
				t.Errorf("second %d: %.3f of P%d admitted and %.3f of P%d", s, here, p, above, p-1)
			}
		}
	}
}

// checkAfter holds that 5 s after the storm nothing is left of it, and that the
// way back has no more than two turns. Clients that heed whole seconds bring what
// is left of the storm until then, in waves of a second, so that there are some turns
// more; it is served, and normal is due 10 s after.
func checkAfter(t *testing.T, c *chain, heeds bool) {
	t.Helper()
	from, most := stormEnds+5, 3
	soon := c.total(from, from+5)
	if soon.good < all(soon.arrived)*99/100 {
		t.Errorf("5 s after the storm %d are good of %d asked", soon.good, all(soon.arrived))
	}
	if heeds {
		from, most = from+5, 8
	}
	after := c.total(from, chainSeconds)
	if got := share(all(after.atOnce), all(after.arrived)); got < 0.995 {
		t.Errorf("%d s after the storm %.4f are served at the first try, want 99.5 %%", from-stormEnds, got)
	}
	for p := range after.tried {
		turns, rising, last := 0, false, 0.0
		for s := stormEnds; s < chainSeconds; s++ {
			x := c.total(s, s+1)
			now := share(x.admitted[p], x.tried[p])
			if d := now - last; math.Abs(d) > 0.1 && (d > 0) != rising {
				turns, rising = turns+1, d > 0
			}
			last = now
		}
		if turns > most {
			t.Errorf("P%d: what is admitted turned %d times on the way back, want a straight way", p, turns)
		}
	}
}

// TestStormStaysWithoutTheMiddleware shows that the chain has the failure that
// the middleware is for.
func TestStormStaysWithoutTheMiddleware(t *testing.T) {
	if raceEnabled || testing.Short() {
		t.Skip("some 200,000 requests in virtual time")
	}
	c := runChain(t, false, false)
	t.Logf("\n%s", c.report())
	if after := c.total(stormEnds+5, chainSeconds); share(all(after.served), all(after.arrived)) > 0.1 {
		t.Errorf("%d of %d served after the storm; the test shows nothing", all(after.served), all(after.arrived))
	}
}
