package fleetusage

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/overload"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/store/redisstore"
)

func inMemory(t *testing.T) *memstore.Store {
	t.Helper()
	s, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// faulty is a store that can be away, or hang.
type faulty struct {
	store.Store
	away, hangs atomic.Bool
}

var errAway = errors.New("away")

func (f *faulty) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	switch {
	case f.hangs.Load():
		<-ctx.Done()
		results[0] = store.Result{Err: ctx.Err()}
	case f.away.Load():
		results[0] = store.Result{Err: errAway}
	default:
		f.Store.Take(ctx, takes, results)
	}
}

// start runs a Counter and returns it with a function that ends it.
func start(t *testing.T, o Options, admitted func() int64) (*Counter, func()) {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Run(ctx, admitted)
	}()
	return c, func() { cancel(); <-done }
}

// even admits rate requests per second from now on.
func even(rate float64) func() int64 {
	begun := time.Now()
	return func() int64 { return int64(rate * time.Since(begun).Seconds()) }
}

// TestNodesAgree (J3): nodes of any rates, begun at any time, all know what the
// whole fleet admits within four intervals, to the request per node that counts
// round to.
func TestNodesAgree(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		synctest.Test(t, func(t *testing.T) {
			shared := inMemory(t)
			nodes := 1 + rng.IntN(8)
			sum := 0.0
			var all []*Counter
			for range nodes {
				rate := math.Exp(10 * rng.Float64()) // up to 22,000/s
				c, stop := start(t, Options{Store: shared, Capacity: 1e6}, even(rate))
				defer stop()
				all = append(all, c)
				sum += rate
				time.Sleep(rand.N(3 * time.Second))
			}
			time.Sleep(4 * time.Second)
			for range 30 {
				for i, c := range all {
					if u := c.Usage(); math.Abs(u.Used-sum) > float64(nodes) || u.Capacity != 1e6 {
						t.Errorf("node %d of %d: %+v, want %.1f used", i, nodes, u, sum)
					}
				}
				time.Sleep(time.Second)
			}
		})
	}
}

// TestMidnight: a new window of the counter makes no figure wrong. The bubble of
// the test begins at midnight UTC.
func TestMidnight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(24*time.Hour - 10*time.Second)
		shared := inMemory(t)
		a, stopA := start(t, Options{Store: shared, Capacity: 1000}, even(300))
		defer stopA()
		b, stopB := start(t, Options{Store: shared, Capacity: 1000}, even(100))
		defer stopB()
		time.Sleep(4 * time.Second)
		for range 120 {
			for _, c := range []*Counter{a, b} {
				if u := c.Usage(); math.Abs(u.Used-400) > 2 {
					t.Errorf("%v: %+v, want 400", time.Now(), u)
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
		if now := time.Now().UTC(); now.Hour() != 0 {
			t.Errorf("it is %v: the test never saw midnight", now)
		}
	})
}

// TestStoreAway: a figure lives three intervals; then the usage is unknown, and
// the time that the store was away is never charged in one piece.
func TestStoreAway(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			shared := &faulty{Store: inMemory(t)}
			c, stop := start(t, Options{Store: shared, Capacity: 1000}, even(200))
			defer stop()
			if u := c.Usage(); u != (overload.Usage{}) {
				t.Errorf("%+v before the first figure, want unknown", u)
			}
			time.Sleep(5 * time.Second)
			shared.away.Store(!hangs)
			shared.hangs.Store(hangs)
			time.Sleep(1900 * time.Millisecond)
			if u := c.Usage(); math.Abs(u.Used-200) > 1 {
				t.Errorf("%+v two intervals without the store, want the last figure", u)
			}
			time.Sleep(2200 * time.Millisecond)
			if u := c.Usage(); u != (overload.Usage{}) {
				t.Errorf("%+v four intervals without the store, want unknown", u)
			}
			time.Sleep(time.Minute)
			if s := c.Stats(); s.Err == nil || s.Failed < 30 {
				t.Errorf("%+v, want failures", s)
			}
			shared.away.Store(false)
			shared.hangs.Store(false)
			for range 50 {
				time.Sleep(100 * time.Millisecond)
				if u := c.Usage(); u.Capacity > 0 && math.Abs(u.Used-200) > 1 {
					t.Errorf("%+v after the store came back, want unknown or 200", u)
				}
			}
			if u := c.Usage(); u.Capacity == 0 {
				t.Errorf("unknown 5 s after the store came back; %+v", c.Stats())
			}
		})
	}
}

// TestFleetsAreApart: fleets of different names share a store and no figure.
func TestFleetsAreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := inMemory(t)
		a, stopA := start(t, Options{Store: shared, Capacity: 1, Name: "a"}, even(100))
		defer stopA()
		b, stopB := start(t, Options{Store: shared, Capacity: 1, Name: "b"}, even(7))
		defer stopB()
		time.Sleep(4 * time.Second)
		if a, b := a.Usage().Used, b.Usage().Used; math.Abs(a-100) > 1 || math.Abs(b-7) > 1 {
			t.Errorf("%v and %v, want 100 and 7", a, b)
		}
	})
}

func TestMeter(t *testing.T) {
	const longest = 3 * time.Second
	second := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	for _, c := range []struct {
		name  string
		total []int64
		at    []float64
		want  float64 // -1: none
	}{
		{"one total", []int64{5}, []float64{1}, -1},
		{"two", []int64{5, 15}, []float64{1, 3}, 5},
		{"nothing came", []int64{5, 5}, []float64{1, 2}, 0},
		{"counted anew", []int64{500, 3}, []float64{1, 2}, -1},
		{"after that", []int64{500, 3, 13}, []float64{1, 2, 3}, 10},
		{"slept", []int64{5, 1000}, []float64{1, 61}, -1},
		{"a clock that stands", []int64{5, 6}, []float64{1, 1}, -1},
		{"a clock that steps back", []int64{5, 6}, []float64{2, 1}, -1},
	} {
		var m meter
		got := -1.0
		for i := range c.total {
			rate, ok := m.read(c.total[i], second(c.at[i]), longest)
			if got = rate; !ok {
				got = -1
			}
		}
		if got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestOptionsAreRefused(t *testing.T) {
	shared := inMemory(t)
	for want, o := range map[string]Options{
		"Store":    {Capacity: 1},
		"Capacity": {Store: shared},
		"is NaN":   {Store: shared, Capacity: math.NaN()},
		"is +Inf":  {Store: shared, Capacity: math.Inf(1)},
		"Name":     {Store: shared, Capacity: 1, Name: strings.Repeat("n", MaxName+1)},
		"Interval": {Store: shared, Capacity: 1, Interval: time.Hour},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one of %s", err, want)
		}
	}
}

// TestRedis counts three nodes in a real Redis, loses it, and has it back.
func TestRedis(t *testing.T) {
	server := testserver.Redis(t, testserver.RedisConfig{})
	o, err := redisstore.ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	var all []*Counter
	for range 3 {
		s, err := redisstore.New(o)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		c, stop := start(t, Options{Store: s, Capacity: 1000, Interval: 100 * time.Millisecond}, even(1000))
		defer stop()
		all = append(all, c)
	}
	// A busy machine delays reports, so one figure may be off; not all for ever.
	eventually.True(t, "3000/s on each node", func() bool {
		for _, c := range all {
			if math.Abs(c.Usage().Used-3000) > 500 {
				return false
			}
		}
		return true
	})
	server.Kill()
	eventually.True(t, "unknown usage without Redis", func() bool { return all[0].Usage() == overload.Usage{} })
	server.Restart()
	eventually.True(t, "a figure again", func() bool { return all[0].Usage().Capacity > 0 })
}
