package overload

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// The storm: a process of capacity 500/s under 400/s, then for half a minute
// under ten times that, then under 400/s again. Clients try three times, which
// is the most that the SRE book lets them.
const (
	stormBegins = 20
	stormEnds   = 50
	stormRunEnd = 90
	stormRate   = 400
	capacity    = 500
)

func storm(shedder *Shedder, c clients) *world {
	return &world{
		workers: 10, service: 20 * time.Millisecond, shedCost: 20 * time.Microsecond,
		timeout: time.Second, tries: 3, clients: c,
		rate: func(at time.Duration) float64 {
			if at >= stormBegins*time.Second && at < stormEnds*time.Second {
				return 10 * stormRate
			}
			return stormRate
		},
		mix:     [Priorities]float64{0.05, 0.25, 0.75, 1},
		shedder: shedder,
	}
}

// testOrigin is when virtual time begins.
var testOrigin = time.Unix(1_700_000_000, 0)

func newTestShedder(t testing.TB, o Options) *Shedder {
	t.Helper()
	s, err := New(o, testOrigin)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// report prints the phases of a storm.
func report(w *world) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-16s %9s %9s %9s %8s %8s %8s %8s  %s\n", "seconds", "asked/s", "tries/s", "good/s", "shed", "p50 ms", "p99 ms", "queue", "served by priority, %")
	for _, phase := range []struct {
		name     string
		from, to int
	}{
		{"before", 10, stormBegins}, {"storm 0-2", stormBegins, stormBegins + 2}, {"storm 2-30", stormBegins + 2, stormEnds},
		{"after 0-5", stormEnds, stormEnds + 5}, {"after 5-10", stormEnds + 5, stormEnds + 10}, {"after 10-35", stormEnds + 10, stormRunEnd - 5},
	} {
		s, n := w.total(phase.from, phase.to), phase.to-phase.from
		fmt.Fprintf(&b, "%-16s %9d %9d %9d %7.1f%% %8d %8d %8d  ", phase.name, sum(s.arrived)/n, s.tries/n, s.good/n, 100*share(s.shed, max(s.tries, 1)),
			quantile(s.latencies, .5).Milliseconds(), quantile(s.latencies, .99).Milliseconds(), s.queue)
		for p := range Priorities {
			fmt.Fprintf(&b, " P%d %3.0f", p, 100*share(s.served[p], s.arrived[p]))
		}
		fmt.Fprintf(&b, "  limit %.0f\n", s.limit)
	}
	return b.String()
}

// TestStormPasses (J4, F82): under ten times the load goodput stays near capacity,
// and within 5 s of its end nothing is left of it. Clients that count in whole
// seconds have been told to come back for up to 4 s after its end, and what they
// bring is served then: for them normal is due 10 s after it, while 5 s after it
// all but P3 must be served and goodput be no less than what is asked.
func TestStormPasses(t *testing.T) {
	skipModel(t)
	for _, c := range []clients{deaf, exact, whole} {
		for seed := range uint64(3) {
			t.Run(fmt.Sprintf("%v/%d", c, seed), func(t *testing.T) {
				w := storm(newTestShedder(t, Options{}), c)
				w.run(stormRunEnd*time.Second, seed)
				t.Logf("with shedding, %v clients, seed %d\n%s", c, seed, report(w))
				checkDuring(t, w)
				checkSoonAfter(t, w)
				if c == whole {
					checkNormal(t, w, stormEnds+10)
				} else {
					checkNormal(t, w, stormEnds+5)
				}
			})
		}
	}
}

func checkDuring(t *testing.T, w *world) {
	t.Helper()
	for s := stormBegins + 2; s < stormEnds; s++ {
		if good := w.total(s, s+1).good; float64(good) < 0.8*capacity {
			t.Errorf("second %d of the storm: %d/s good, want 80 %% of %d/s", s-stormBegins, good, capacity)
		}
	}
	during := w.total(stormBegins+2, stormEnds)
	if mean := float64(during.good) / (stormEnds - stormBegins - 2); mean < 0.92*capacity {
		t.Errorf("%.0f/s good in the storm, want 92 %% of %d/s", mean, capacity)
	}
	if got := share(during.served[P0], during.arrived[P0]); got < 0.999 {
		t.Errorf("%.4f of the critical requests were served in the storm, want all", got)
	}
}

func checkSoonAfter(t *testing.T, w *world) {
	t.Helper()
	soon := w.total(stormEnds+5, stormEnds+10)
	if asked := sum(soon.arrived); soon.good < asked*99/100 {
		t.Errorf("5 s after the storm %d are good of %d asked", soon.good, asked)
	}
	for p := P0; p < P3; p++ {
		if got := share(soon.served[p], soon.arrived[p]); got < 0.995 {
			t.Errorf("5 s after the storm %.3f of %v are served, want 99.5 %%", got, p)
		}
	}
	if p99 := quantile(soon.latencies, .99); p99 > 6*w.service {
		t.Errorf("5 s after the storm p99 is %v, want %v", p99, 6*w.service)
	}
}

func checkNormal(t *testing.T, w *world, from int) {
	t.Helper()
	after := w.total(from, stormRunEnd-5)
	if got := share(sum(after.atOnce), sum(after.arrived)); got < 0.995 {
		t.Errorf("%d s after the storm %.4f of the requests are served at the first try, want 99.5 %%", from-stormEnds, got)
	}
}

// TestStormStaysWithoutShedding shows that the model has the failure that the
// shedder is for: the storm has gone and the process does not come back.
func TestStormStaysWithoutShedding(t *testing.T) {
	skipModel(t)
	w := storm(nil, deaf)
	w.run(stormRunEnd*time.Second, 1)
	t.Logf("without shedding\n%s", report(w))
	if before := w.total(10, stormBegins); share(sum(before.atOnce), sum(before.arrived)) < 0.999 {
		t.Error("the process does not serve what it should before the storm")
	}
	if after := w.total(stormEnds+5, stormRunEnd-5); share(sum(after.served), sum(after.arrived)) > 0.1 {
		t.Errorf("without shedding %.2f of the requests after the storm are served; the test shows nothing", share(sum(after.served), sum(after.arrived)))
	}
}
