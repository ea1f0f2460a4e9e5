package redisstore

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/storetest"
)

const (
	hammerProcesses  = 3
	hammerGoroutines = 16
	hammerTime       = 2 * time.Second
	hammerQuota      = 50
	hammerPeriod     = 250 * time.Millisecond
	// onceQuota is what the limits admit that never let another window begin.
	onceQuota = 200

	// The environment of a process that hammers.
	envHammerAddr = "HEADGATE_HAMMER_ADDR"
	envHammerFile = "HEADGATE_HAMMER_FILE"
)

// hammered is a limit that is hammered, and what must hold of the instants of
// its admitted hits.
type hammered struct {
	name  string
	spec  limit.Spec
	check func(t *testing.T, stamps []limit.Micros)
}

// never is a period within which no window of the test ends.
const never = limit.MaxPeriod

// onlyCapacity: so many hits pass and not one more.
func onlyCapacity(want int) func(*testing.T, []limit.Micros) {
	return func(t *testing.T, stamps []limit.Micros) {
		if len(stamps) != want {
			t.Errorf("admitted %d, want exactly %d", len(stamps), want)
		}
	}
}

// inAnyWindow: no window of any phase holds more than quota.
func inAnyWindow(t *testing.T, stamps []limit.Micros) {
	if most := storetest.MaxInWindow(stamps, hammerPeriod); most > hammerQuota {
		t.Errorf("the fullest window holds %d, want at most %d", most, hammerQuota)
	}
	severalWindows(t, stamps)
}

// inAlignedWindows: no aligned window holds more than quota.
func inAlignedWindows(t *testing.T, stamps []limit.Micros) {
	counts := make(map[limit.Micros]int)
	for _, at := range stamps {
		counts[at/limit.Micros(hammerPeriod.Microseconds())]++
	}
	for window, n := range counts {
		if n > hammerQuota {
			t.Errorf("window %d holds %d, want at most %d", window, n, hammerQuota)
		}
	}
	severalWindows(t, stamps)
}

// underEnvelope: any interval of length t holds at most burst + t*quota/period.
func underEnvelope(burst int) func(*testing.T, []limit.Micros) {
	return func(t *testing.T, stamps []limit.Micros) {
		slices.Sort(stamps)
		period := hammerPeriod.Microseconds()
		for i := range stamps {
			for j := i; j < len(stamps); j++ {
				length := int64(stamps[j] - stamps[i])
				if int64(j-i+1-burst)*period > length*hammerQuota {
					t.Fatalf("%d hits in %d µs are above the envelope", j-i+1, length)
				}
			}
		}
		severalWindows(t, stamps)
	}
}

// severalWindows makes sure that the test has tested something.
func severalWindows(t *testing.T, stamps []limit.Micros) {
	if len(stamps) <= 2*hammerQuota {
		t.Errorf("admitted only %d hits in all", len(stamps))
	}
}

func hammeredLimits() []hammered {
	const q, w = hammerQuota, hammerPeriod
	return []hammered{
		{"sliding_window once", limit.Spec{Quota: onceQuota, Period: never}, onlyCapacity(onceQuota)},
		{"fixed_window once", limit.Spec{Algorithm: limit.FixedWindow, Quota: onceQuota, Period: never}, onlyCapacity(onceQuota)},
		{"sub_windows once", limit.Spec{Algorithm: limit.SubWindows, Quota: onceQuota, Period: never}, onlyCapacity(onceQuota)},
		{"sliding_log once", limit.Spec{Algorithm: limit.SlidingLog, Quota: onceQuota, Period: never}, onlyCapacity(onceQuota)},
		{"token_bucket once", limit.Spec{Algorithm: limit.TokenBucket, Quota: 1, Burst: onceQuota, Period: 24 * time.Hour}, onlyCapacity(onceQuota)},
		{"leaky_bucket once", limit.Spec{Algorithm: limit.LeakyBucket, Quota: 1, Period: 24 * time.Hour}, onlyCapacity(1)},
		{"leaky_queue once", limit.Spec{Algorithm: limit.LeakyQueue, Quota: 10, Period: 24 * time.Hour, MaxQueue: 9, MaxDelay: never}, onlyCapacity(10)},
		{"gcra once", limit.Spec{Algorithm: limit.GCRA, Quota: 1, Burst: onceQuota, Period: 24 * time.Hour}, onlyCapacity(onceQuota)},

		{"sliding_log", limit.Spec{Algorithm: limit.SlidingLog, Quota: q, Period: w}, inAnyWindow},
		{"sub_windows strict", limit.Spec{Algorithm: limit.SubWindows, Quota: q, Period: w, Strict: true}, inAnyWindow},
		{"fixed_window", limit.Spec{Algorithm: limit.FixedWindow, Quota: q, Period: w}, inAlignedWindows},
		{"sliding_window", limit.Spec{Quota: q, Period: w}, underEnvelope(q)},
		{"sub_windows smooth", limit.Spec{Algorithm: limit.SubWindows, Quota: q, Period: w}, underEnvelope(q)},
		{"token_bucket", limit.Spec{Algorithm: limit.TokenBucket, Quota: q, Burst: 7, Period: w}, underEnvelope(7)},
		{"gcra", limit.Spec{Algorithm: limit.GCRA, Quota: q, Period: w}, underEnvelope(q)},
		{"leaky_bucket", limit.Spec{Algorithm: limit.LeakyBucket, Quota: q, Period: w}, underEnvelope(1)},
	}
}

// Three processes of sixteen goroutines hammer the same keys in one Redis, in
// real time. What Redis admitted is judged by Redis's own clock.
//
//promise:global-limits exact
func TestExactAcrossProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	server := testserver.Redis(t, testserver.RedisConfig{})
	dir := t.TempDir()
	var group sync.WaitGroup
	for i := range hammerProcesses {
		child := exec.Command(os.Args[0], "-test.run=^TestHammer$", "-test.timeout=10m")
		child.Env = append(os.Environ(), envHammerAddr+"="+server.Addr,
			fmt.Sprintf("%s=%s", envHammerFile, filepath.Join(dir, fmt.Sprint(i))))
		group.Go(func() {
			if out, err := child.CombinedOutput(); err != nil {
				t.Errorf("process %d: %v\n%s", i, err, out)
			}
		})
	}
	group.Wait()
	limits := hammeredLimits()
	stamps := make([][]limit.Micros, len(limits))
	for i := range hammerProcesses {
		readStamps(t, filepath.Join(dir, fmt.Sprint(i)), stamps)
	}
	for i, h := range limits {
		t.Run(h.name, func(t *testing.T) { h.check(t, stamps[i]) })
	}
}

// readStamps reads what a process has written: the number of the limit and the
// instant of an admitted hit on each line.
func readStamps(t *testing.T, file string, stamps [][]limit.Micros) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var i int
		var at limit.Micros
		if _, err := fmt.Sscan(lines.Text(), &i, &at); err != nil {
			t.Fatalf("line %q: %v", lines.Text(), err)
		}
		stamps[i] = append(stamps[i], at)
	}
}

// TestHammer is what the processes of TestExactAcrossProcesses run.
//
//promise:exact
func TestHammer(t *testing.T) {
	addr := os.Getenv(envHammerAddr)
	if addr == "" {
		t.Skip("runs as a part of TestExactAcrossProcesses")
	}
	s := open(t, Options{Addr: addr})
	var limits []*limit.Limit
	for _, h := range hammeredLimits() {
		limits = append(limits, limit.Must(h.spec))
	}
	f, err := os.Create(os.Getenv(envHammerFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var (
		group sync.WaitGroup
		mu    sync.Mutex
		out   = bufio.NewWriter(f)
		end   = time.Now().Add(hammerTime)
	)
	// However slow the machine is, the limits that admit onceQuota are asked for half as much again.
	least := onceQuota * len(limits) * 3 / 2 / (hammerProcesses * hammerGoroutines)
	for g := range hammerGoroutines {
		group.Go(func() {
			for n := g; n < g+least || time.Now().Before(end); n++ {
				i := n % len(limits)
				at, admitted := hammerOnce(t, s, i, limits[i])
				if admitted {
					mu.Lock()
					fmt.Fprintln(out, i, at)
					mu.Unlock()
				}
			}
		})
	}
	group.Wait()
	if err := out.Flush(); err != nil {
		t.Error(err)
	}
}

// hammerOnce takes a hit and returns the instant of Redis's clock.
func hammerOnce(t *testing.T, s *Store, i int, l *limit.Limit) (limit.Micros, bool) {
	var results [1]store.Result
	c := call{
		caller: &s.caller,
		script: takeScript,
		body: &takeBody{
			prefix:  s.options.Prefix,
			takes:   []store.Take{{Key: fmt.Appendf(nil, "hammered %d", i), Limit: l, Hits: 1}},
			results: results[:],
		},
		deadline: time.Now().Add(patient),
	}
	ctx, cancel := context.WithDeadline(context.Background(), c.deadline)
	defer cancel()
	if c.run(ctx); c.err != nil {
		t.Error(c.err)
	}
	return c.now, results[0].Allowed
}
