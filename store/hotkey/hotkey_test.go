package hotkey

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/alloctest"
)

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func after(d time.Duration) time.Time { return t0.Add(d) }

func keyOf(n uint64) (k Key) {
	binary.LittleEndian.PutUint64(k[:8], n*0x9e3779b97f4a7c15)
	binary.LittleEndian.PutUint64(k[8:], n)
	return k
}

func testSeed(n uint64) [2]uint64 {
	r := rand.New(rand.NewPCG(n, n))
	return [2]uint64{r.Uint64(), r.Uint64()}
}

func hotKeys(d *Detector, now time.Time) map[Key]float64 {
	m := map[Key]float64{}
	for _, h := range d.Hot(now) {
		m[h.Key] = h.Rate
	}
	return m
}

// A steady key tends to its rate, from below, and is hot from when its average
// has reached the threshold: for twice the threshold, after one half-life.
func TestSteadyKey(t *testing.T) {
	const second = 1.0
	for _, test := range []struct {
		rate float64 // of the key, where 1000 is hot
		hot  float64 // seconds; 0: never
	}{
		{900, 0}, {1000 * 0.98, 0}, {2000, 1}, {4000, math.Log2(4.0 / 3)}, {10_000, math.Log2(10.0 / 9)},
	} {
		d := newSeeded(Options{}, testSeed(1))
		key, step := keyOf(1), time.Duration(float64(time.Second)/test.rate)
		since := 0.0
		now := time.Duration(0)
		for ; now < 12*time.Second; now += step {
			hot := d.Observe(key, 1, after(now))
			if hot && since == 0 {
				since = now.Seconds()
			} else if !hot && since != 0 {
				t.Fatalf("at %v asks a second it is hot from %vs, but not at %v", test.rate, since, now)
			}
		}
		if test.hot == 0 {
			if since != 0 {
				t.Errorf("at %v asks a second it is hot after %vs", test.rate, since)
			}
			continue
		}
		if since < test.hot*0.95 || since > test.hot*1.05 {
			t.Errorf("at %v asks a second it is hot after %vs, want %vs", test.rate, since, test.hot*second)
		}
		if got := hotKeys(d, after(now))[key]; math.Abs(got-test.rate) > 0.015*test.rate {
			t.Errorf("the rate is %v, want %v", got, test.rate)
		}
	}
}

func TestCoolsDown(t *testing.T) {
	d := newSeeded(Options{HalfLife: 2 * time.Second}, testSeed(1))
	key := keyOf(1)
	if d.Observe(key, 4000*3, after(0)) == false {
		t.Fatal("a burst of four times the threshold does not make it hot")
	}
	rate := hotKeys(d, after(0))[key]
	if want := 4000 * 3 * math.Ln2 / 2; math.Abs(rate-want) > 1e-6*want {
		t.Fatalf("after the burst the rate is %v, want %v", rate, want)
	}
	if got, want := hotKeys(d, after(2*time.Second))[key], rate/2; math.Abs(got-want) > 1e-9*want {
		t.Errorf("after a half-life the rate is %v, want %v", got, want)
	}
	// 4159 a second fall to 500 in 3.06 half-lives.
	if !d.Observe(key, 0, after(6000*time.Millisecond)) {
		t.Error("it is no longer hot above half of the threshold")
	}
	if d.Observe(key, 0, after(6200*time.Millisecond)) {
		t.Error("it is still hot below half of the threshold")
	}
	if len(d.Hot(after(6200*time.Millisecond))) != 0 {
		t.Error("it is still listed below half of the threshold")
	}
	if d.Observe(key, 1, after(6200*time.Millisecond)) {
		t.Error("it is hot again below the threshold")
	}
	if !d.Observe(key, 3000, after(6200*time.Millisecond)) {
		t.Error("it is not hot again above the threshold")
	}
	if d.Observe(key, 1, after(1000*time.Hour)) {
		t.Error("it is hot after a thousand hours without an ask")
	}
}

func TestReportsOnly(t *testing.T) {
	d := newSeeded(Options{}, testSeed(1))
	for _, n := range []int64{0, -1, math.MinInt64} {
		if d.Observe(keyOf(1), n, t0) {
			t.Errorf("%d asks make a key hot", n)
		}
	}
	if d.Observe(keyOf(1), 1, t0); d.Observe(keyOf(1), math.MinInt64, t0) || len(d.Hot(t0)) != 0 {
		t.Error("a key is hot after one ask")
	}
	if !d.Observe(Key{}, math.MaxInt64, t0) {
		t.Error("the zero key is not tracked")
	}
}

func TestClockStepsBack(t *testing.T) {
	d := newSeeded(Options{}, testSeed(1))
	key := keyOf(1)
	d.Observe(key, 10_000, after(time.Hour))
	if !d.Observe(key, 0, after(time.Hour-500*time.Millisecond)) {
		t.Error("a small step back makes it cool")
	}
	d.Observe(key, 0, t0)
	if d.Observe(key, 0, after(5*time.Second)) {
		t.Error("after a step back of an hour it does not cool down")
	}
}

// stream is a load in which some keys have a rate of their own and the rest of
// the load falls on keys that are asked about once each.
type stream struct {
	hot       []float64 // rate of key i
	noise     float64   // asks a second on ever new keys
	length    time.Duration
	random    *rand.Rand
	firstSeen []time.Duration // when key i was first reported hot, 0 never
}

// play has d observe the load, with asks at even distances on random keys, and
// returns how often a new key was reported hot.
func (s *stream) play(d *Detector) (falselyHot int) {
	s.firstSeen = make([]time.Duration, len(s.hot))
	fresh := uint64(1 << 32)
	total := s.noise
	for _, r := range s.hot {
		total += r
	}
	asks := int(total * s.length.Seconds())
	for n := range asks {
		now := time.Duration(float64(s.length) * float64(n) / float64(asks))
		x := s.random.Float64() * total
		i := 0
		for i < len(s.hot) && x >= s.hot[i] {
			x -= s.hot[i]
			i++
		}
		if i == len(s.hot) {
			fresh++
			if d.Observe(keyOf(fresh), 1, after(now)) {
				falselyHot++
			}
			continue
		}
		if d.Observe(keyOf(uint64(i)), 1, after(now)) && s.firstSeen[i] == 0 {
			s.firstSeen[i] = now
		}
	}
	return falselyHot
}

// Every key at twice the threshold is found, within two half-lives, and no key
// at half of it is named, among noise.
func TestFindsAllAndNoOther(t *testing.T) {
	for seed := range uint64(2) {
		d := newSeeded(Options{}, testSeed(seed+1))
		s := stream{noise: 20_000, length: 3 * time.Second, random: rand.New(rand.NewPCG(seed, 1))}
		for i := range 40 {
			rate := 2000.0
			if i%2 == 1 {
				rate = 500
			}
			s.hot = append(s.hot, rate)
		}
		if n := s.play(d); n != 0 {
			t.Errorf("seed %d: %d asks of keys that were asked once were hot", seed, n)
		}
		listed := hotKeys(d, after(s.length))
		for i, rate := range s.hot {
			first := s.firstSeen[i]
			switch {
			case rate == 2000 && (first == 0 || first > 2*time.Second):
				t.Errorf("seed %d: key %d of twice the threshold was hot first at %v", seed, i, first)
			case rate == 2000 && math.Abs(listed[keyOf(uint64(i))]-rate) > 0.25*rate:
				t.Errorf("seed %d: key %d is listed with %v, want about %v", seed, i, listed[keyOf(uint64(i))], rate)
			case rate == 500 && first != 0:
				t.Errorf("seed %d: key %d of half the threshold was hot at %v", seed, i, first)
			}
		}
	}
}

// A flood of a million new keys in a second does not push out a key that is
// hot, and does not keep another one from being found.
func TestFloodOfNewKeys(t *testing.T) {
	d := newSeeded(Options{}, testSeed(3))
	s := stream{hot: []float64{3000, 3000, 3000, 3000}, noise: 1_000_000, length: time.Second, random: rand.New(rand.NewPCG(3, 3))}
	early := keyOf(1 << 20)
	for now := -2 * time.Second; now < 0; now += 500 * time.Microsecond {
		d.Observe(early, 1, after(now))
	}
	if n := s.play(d); n != 0 {
		t.Errorf("%d asks of keys that were asked once were hot", n)
	}
	for i, first := range s.firstSeen {
		if first == 0 {
			t.Errorf("key %d was not found in the flood", i)
		}
	}
	if !d.Observe(early, 0, after(0)) {
		t.Error("the flood has pushed out a hot key")
	}
}

// The memory is what New took, whatever comes.
func TestMemoryIsBounded(t *testing.T) {
	for _, test := range []struct{ tracked, cells int }{
		{0, 256}, {1, 8}, {8, 8}, {9, 16}, {100, 128}, {256, 256}, {MaxTracked, MaxTracked}, {1 << 40, MaxTracked},
	} {
		d := New(Options{Tracked: test.tracked})
		if got := len(d.sets) * ways; got != test.cells {
			t.Errorf("Tracked %d: %d cells, want %d", test.tracked, got, test.cells)
		}
	}
	d := newSeeded(Options{}, testSeed(1))
	n := uint64(0)
	if allocs := alloctest.PerRun(20_000, func() {
		n++
		d.Observe(keyOf(n), 1, after(time.Duration(n)))
	}); allocs != 0 {
		t.Errorf("%v allocations for each ask of a new key", allocs)
	}
}

// Keys fall to all sets alike, also when they differ in a few bits only.
func TestSetsAreEven(t *testing.T) {
	d := newSeeded(Options{Tracked: 512}, testSeed(5))
	counts := make([]int, len(d.sets))
	const keys = 64_000
	for n := range uint64(keys) {
		counts[d.setOf(n, 0)]++
	}
	for i, n := range counts {
		if want := keys / len(counts); n < want/2 || n > 2*want {
			t.Errorf("set %d has %d keys, want about %d", i, n, want)
		}
	}
}

func TestHottestFirst(t *testing.T) {
	d := New(Options{Tracked: 8, Rate: 1})
	for i := range uint64(8) {
		d.Observe(keyOf(i), int64(10+i*i%7), t0)
	}
	list := d.Hot(t0)
	if len(list) != 8 {
		t.Fatalf("%d hot keys, want 8", len(list))
	}
	for i := range list[1:] {
		if list[i].Rate < list[i+1].Rate {
			t.Errorf("rate %v comes before %v", list[i].Rate, list[i+1].Rate)
		}
	}
}

func TestConcurrent(t *testing.T) {
	d := New(Options{})
	var wg sync.WaitGroup
	for g := range uint64(4) {
		wg.Go(func() {
			for i := range uint64(5000) {
				d.Observe(keyOf(1), 1, after(time.Duration(i)*time.Microsecond))
				d.Observe(keyOf(g<<32|i), 1, after(time.Duration(i)*time.Microsecond))
				if i%1000 == 0 {
					d.Hot(after(time.Duration(i) * time.Microsecond))
				}
			}
		})
	}
	wg.Wait()
	got := hotKeys(d, after(5*time.Millisecond))[keyOf(1)]
	if want := 20_000 * math.Ln2; math.Abs(got-want) > 0.02*want {
		t.Errorf("the rate is %v, want %v", got, want)
	}
}

func BenchmarkObserve(b *testing.B) {
	d := New(Options{})
	key, now := keyOf(1), time.Now()
	b.ReportAllocs()
	for range b.N {
		d.Observe(key, 1, now)
	}
}

func BenchmarkObserveNewKeys(b *testing.B) {
	d := New(Options{})
	now := time.Now()
	b.ReportAllocs()
	for n := range b.N {
		d.Observe(keyOf(uint64(n)), 1, now)
	}
}

// Each of many nodes sees a part of what is asked for a key: it is hot from its part of
// the rate on, and not from less than a tenth of it.
func TestNodesShareTheRate(t *testing.T) {
	for _, tt := range []struct {
		nodes int
		from  float64
	}{{-1, 1000}, {1, 1000}, {3, 1000.0 / 3}, {10, 100}, {1000, 100}} {
		for _, rate := range []float64{0.9 * tt.from, 1.2 * tt.from} {
			d := newSeeded(Options{Nodes: func() int { return tt.nodes }}, testSeed(1))
			hot, step := false, time.Duration(float64(time.Second)/rate)
			for now := time.Duration(0); now < 10*time.Second; now += step {
				hot = d.Observe(keyOf(1), 1, after(now))
			}
			if hot != (rate > tt.from) {
				t.Errorf("one of %d nodes, %.0f asks per second: hot is %v", tt.nodes, rate, hot)
			}
			if listed := len(d.Hot(after(10*time.Second))) > 0; listed != hot {
				t.Errorf("one of %d nodes, %.0f asks per second: listed is %v", tt.nodes, rate, listed)
			}
		}
	}
}
