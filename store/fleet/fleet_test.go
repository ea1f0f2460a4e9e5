package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// board is a roster in memory, that can be silent, hang and forget.
type board struct {
	mu      sync.Mutex
	nodes   map[string]time.Time // until when they live
	silent  bool
	hangs   bool
	beats   []time.Time
	leavers []string
}

func (b *board) Attend(ctx context.Context, node string, ttl time.Duration) (int, error) {
	b.mu.Lock()
	silent, hangs := b.silent, b.hangs
	b.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	if silent {
		return 0, errors.New("no answer")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if b.nodes == nil {
		b.nodes = map[string]time.Time{}
	}
	b.beats = append(b.beats, now)
	b.nodes[node] = now.Add(ttl)
	if ttl == 0 {
		b.leavers = append(b.leavers, node)
	}
	for n, until := range b.nodes {
		if !now.Before(until) {
			delete(b.nodes, n)
		}
	}
	return len(b.nodes), nil
}

func (b *board) change(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

// run joins n nodes and returns a function for each that ends it.
func run(b *board, n int) (fleets []*Fleet, stops []func()) {
	for range n {
		f := Join(Options{Roster: b})
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			f.Run(ctx)
		}()
		fleets = append(fleets, f)
		stops = append(stops, func() { cancel(); <-done })
	}
	return fleets, stops
}

func lives(fleets []*Fleet) (n []int) {
	for _, f := range fleets {
		n = append(n, f.Live())
	}
	return n
}

func expect(t *testing.T, when string, fleets []*Fleet, want int) {
	t.Helper()
	synctest.Wait()
	for _, n := range lives(fleets) {
		if n != want {
			t.Fatalf("%s: the nodes know of %v, want %d", when, lives(fleets), want)
		}
	}
}

func TestNodesFindEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(board)
		fleets, stops := run(b, 5)
		time.Sleep(2200 * time.Millisecond)
		expect(t, "after one more heartbeat", fleets, 5)
		stops[4]()
		if !slices.Equal(b.leavers, []string{fleets[4].Stats().Node}) {
			t.Fatalf("%v have left", b.leavers)
		}
		time.Sleep(5 * time.Second)
		expect(t, "soon after one has left", fleets[:4], 5)
		time.Sleep(6 * time.Second)
		expect(t, "a TTL after one has left", fleets[:4], 4)
		for _, stop := range stops[:4] {
			stop()
		}
		if len(b.nodes) != 0 {
			t.Errorf("%d nodes are left behind", len(b.nodes))
		}
	})
}

// Who looks on knows of the nodes and is none of them.
func TestOnlooker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(board)
		fleets, stops := run(b, 3)
		onlooker := Join(Options{Roster: b, Onlooker: true})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); onlooker.Run(ctx) }()
		time.Sleep(5 * time.Second)
		expect(t, "with one that looks on", append(fleets, onlooker), 3)
		cancel()
		<-done
		for _, stop := range stops {
			stop()
		}
	})
}

func TestSilenceDoesNotShrink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(board)
		fleets, stops := run(b, 3)
		time.Sleep(10 * time.Second)
		b.change(func() { b.silent = true })
		time.Sleep(time.Hour)
		expect(t, "after an hour of silence", fleets, 3)
		if s := fleets[0].Stats(); s.Err == nil || s.Failed < 1600 {
			t.Errorf("%+v", s)
		}
		b.change(func() { b.silent = false })
		time.Sleep(3 * time.Second)
		expect(t, "after the silence", fleets, 3)
		for _, stop := range stops {
			stop()
		}
	})
}

// A store that comes back empty does not make the first node that it hears of
// believe that it is alone.
func TestEmptyRosterDoesNotShrink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(board)
		fleets, stops := run(b, 3)
		time.Sleep(10 * time.Second)
		for range 5 {
			b.change(func() { clear(b.nodes) })
			// All are back after 2.2 s, the longest time between two heartbeats, and within as
			// long again each has heard so. Only then is the roster lost anew.
			for range 45 {
				time.Sleep(100 * time.Millisecond)
				expect(t, "after the roster was lost", fleets, 3)
			}
		}
		for _, stop := range stops {
			stop()
		}
	})
}

func TestCrashedNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(board)
		fleets, stops := run(b, 2)
		b.change(func() { b.nodes = map[string]time.Time{"crashed": time.Now().Add(6 * time.Second)} })
		time.Sleep(3 * time.Second)
		expect(t, "at first", fleets, 3)
		time.Sleep(14 * time.Second)
		expect(t, "two TTLs and two heartbeats later", fleets, 2)
		for _, stop := range stops {
			stop()
		}
	})
}

func TestHangingRoster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &board{hangs: true}
		f := Join(Options{Roster: b, Initial: 7, Node: "me"})
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			f.Run(ctx)
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		s := f.Stats()
		if s.Live != 7 || s.Node != "me" || s.Failed < 13 || !errors.Is(s.Err, context.DeadlineExceeded) {
			t.Errorf("%+v", s)
		}
		start := time.Now()
		cancel()
		<-done
		if took := time.Since(start); took != DefaultEvery {
			t.Errorf("leaving a roster that hangs takes %v, want %v", took, DefaultEvery)
		}
	})
}

func TestHeartbeatsAreJittered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(board)
		_, stops := run(b, 1)
		time.Sleep(10 * time.Minute)
		stops[0]()
		different := map[time.Duration]bool{}
		for i := range b.beats[:len(b.beats)-2] { // the last one leaves
			wait := b.beats[i+1].Sub(b.beats[i])
			if wait < 1800*time.Millisecond || wait > 2200*time.Millisecond {
				t.Fatalf("a wait of %v", wait)
			}
			different[wait] = true
		}
		if len(different) < 100 {
			t.Errorf("only %d different waits of %d", len(different), len(b.beats))
		}
	})
	if low, high := jittered(time.Second, 0), jittered(time.Second, 1); low != 900*time.Millisecond || high != 1100*time.Millisecond {
		t.Errorf("waits from %v to %v", low, high)
	}
}

func TestStaticAndAlone(t *testing.T) {
	for _, test := range []struct {
		name    string
		options Options
		want    int
		asks    bool
	}{
		{"alone", Options{}, 1, false},
		{"static", Options{Static: 9}, 9, false},
		{"static wins over silence", Options{Static: 9, Initial: 3, Roster: &board{silent: true}}, 9, true},
		{"static wins over an answer", Options{Static: 9, Initial: 3, Roster: &board{}, OnBeat: func(live int, err error) {
			t.Errorf("told of %d nodes, %v", live, err)
		}}, 9, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := Join(test.options)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				f.Run(ctx)
				if s := f.Stats(); f.Live() != test.want || s.Live != test.want || (s.Answered+s.Failed > 0) != test.asks {
					t.Errorf("%d nodes: %+v", f.Live(), s)
				}
			})
		})
	}
}

func TestDefaults(t *testing.T) {
	a, b := Join(Options{}), Join(Options{})
	if a.Stats().Node == b.Stats().Node || len(a.Stats().Node) != 16 {
		t.Errorf("nodes are named %q and %q", a.Stats().Node, b.Stats().Node)
	}
	for _, test := range []struct{ every, ttl, want time.Duration }{
		{0, 0, 6 * time.Second}, {0, time.Minute, time.Minute}, {time.Second, 1900 * time.Millisecond, 3 * time.Second}, {time.Second, 2 * time.Second, 2 * time.Second},
	} {
		if got := Join(Options{Every: test.every, TTL: test.ttl}).options.TTL; got != test.want {
			t.Errorf("every %v, TTL %v: %v, want %v", test.every, test.ttl, got, test.want)
		}
	}
}

func TestCount(t *testing.T) {
	type answer struct {
		at   time.Duration
		said int // 0: silence
		want int
	}
	const s = time.Second
	for _, test := range []struct {
		name    string
		answers []answer
	}{
		{"rises at once", []answer{{0, 1, 1}, {1 * s, 5, 5}, {2 * s, 9, 9}}},
		{"falls late", []answer{{0, 9, 9}, {1 * s, 5, 9}, {5 * s, 4, 9}, {11 * s, 5, 5}}},
		{"falls to the most that was said", []answer{{0, 9, 9}, {1 * s, 3, 9}, {6 * s, 7, 9}, {11 * s, 3, 7}, {12 * s, 3, 7}, {22 * s, 3, 3}}},
		{"as many as before start anew", []answer{{0, 9, 9}, {1 * s, 3, 9}, {6 * s, 9, 9}, {11 * s, 3, 9}, {21 * s, 3, 3}}},
		{"silence starts anew", []answer{{0, 9, 9}, {1 * s, 3, 9}, {6 * s, 0, 9}, {12 * s, 3, 9}, {22 * s, 3, 3}}},
		{"less than one is one", []answer{{0, -3, 1}, {1 * s, 2, 2}, {2 * s, -1, 2}, {12 * s, -1, 1}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := count{live: 1, patience: 10 * s}
			start := time.Unix(1_000_000, 0)
			for _, a := range test.answers {
				if a.said == 0 {
					c.missed()
				} else {
					c.said(start.Add(a.at), a.said)
				}
				if c.live != a.want {
					t.Fatalf("at %v, %d said: %d, want %d", a.at, a.said, c.live, a.want)
				}
			}
		})
	}
}

func ExampleFleet() {
	// The number of nodes is fixed, so there is no roster to ask.
	f := Join(Options{Static: 4})
	const limit = 1000
	fmt.Println("this node may let pass", limit/f.Live())
	// Output: this node may let pass 250
}

// Each heartbeat is told of: how many nodes there are by it, or why that is not known.
func TestBeatsAreToldOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(board)
		type beat struct {
			live   int
			failed bool
		}
		var told []beat
		f := Join(Options{Roster: b, Initial: 3, Every: time.Second, OnBeat: func(live int, err error) {
			told = append(told, beat{live, err != nil})
		}})
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			f.Run(ctx)
		}()
		time.Sleep(time.Millisecond)
		b.change(func() { b.silent = true })
		time.Sleep(1200 * time.Millisecond)
		synctest.Wait()
		if want := []beat{{3, false}, {3, true}}; !slices.Equal(told, want) {
			t.Errorf("told of %v, want %v", told, want)
		}
		b.change(func() { b.silent = false })
		time.Sleep(10 * time.Second) // longer than fewer nodes are doubted
		cancel()
		<-done
		if last := told[len(told)-1]; last != (beat{1, false}) {
			t.Errorf("last told of %v", last)
		}
	})
}
