package breaker

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/alloctest"
)

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func after(d time.Duration) time.Time { return t0.Add(d) }

// step is something that happens to a breaker: call makes a call that ends with
// outcome at once, having taken took.
type step struct {
	at      time.Duration
	outcome Outcome
	took    time.Duration
	times   int
	// refused says that no call may be made.
	refused bool
	want    State // after it
}

func noJitter() float64 { return 0 }

func TestTransitions(t *testing.T) {
	const ms = time.Millisecond
	row := func(at time.Duration) step { return step{at: at, outcome: Failure, times: 3, want: Open} }
	tests := []struct {
		name    string
		options Options
		steps   []step
	}{
		{"successes keep it closed", Options{}, []step{{times: 1000, want: Closed}}},
		{"failures in a row open it", Options{}, []step{
			{outcome: Failure, times: 2, want: Closed},
			{outcome: Failure, times: 1, want: Open},
			{at: 999 * ms, refused: true, times: 5, want: Open},
		}},
		{"a success ends a row", Options{}, []step{
			{outcome: Failure, times: 2, want: Closed},
			{times: 1, want: Closed},
			{outcome: Failure, times: 2, want: Closed},
		}},
		{"an ignored call does not end a row, nor is it one", Options{}, []step{
			{outcome: Failure, times: 2, want: Closed},
			{outcome: Ignored, times: 100, want: Closed},
			{outcome: Failure, times: 1, want: Open},
		}},
		{"calls that fail side by side are one failure", Options{MinCalls: 1000}, []step{
			{at: 20 * ms, outcome: Failure, took: 20 * ms, times: 15, want: Closed},
			{at: 25 * ms, outcome: Failure, took: 20 * ms, times: 15, want: Closed},
			{at: 40 * ms, outcome: Failure, took: 20 * ms, times: 15, want: Closed},
			{at: 41 * ms, outcome: Failure, took: 2 * ms, times: 10, want: Closed},
			{at: 60 * ms, outcome: Failure, took: 20 * ms, times: 1, want: Open},
		}},
		{"half of the calls fail", Options{Failures: 1000}, []step{
			{times: 10, want: Closed},
			{outcome: Failure, times: 9, want: Closed},
			{outcome: Failure, times: 1, want: Open},
		}},
		{"too few calls for a ratio", Options{Failures: 1000}, []step{
			{outcome: Failure, times: 19, want: Closed},
		}},
		{"less than the ratio", Options{Failures: 1000, Ratio: 0.6}, []step{
			{times: 10, want: Closed},
			{outcome: Failure, times: 10, want: Closed},
		}},
		{"failures outside of the window are forgotten", Options{Failures: 1000}, []step{
			{outcome: Failure, times: 19, want: Closed},
			{at: 1000 * ms, times: 30, want: Closed},
			{at: 1000 * ms, outcome: Failure, times: 19, want: Closed},
		}},
		{"failures inside of the window are not", Options{Failures: 1000}, []step{
			{outcome: Failure, times: 19, want: Closed},
			{at: 899 * ms, outcome: Failure, times: 1, want: Open},
		}},
		{"slow calls open it", Options{Slow: 50 * ms}, []step{
			{took: 49 * ms, times: 100, want: Closed},
			{at: 1000 * ms, took: 50 * ms, times: 19, want: Closed},
			{at: 1000 * ms, took: 50 * ms, times: 1, want: Open},
		}},
		{"slow calls are no failures in a row", Options{Slow: 50 * ms}, []step{
			{outcome: Failure, times: 2, want: Closed},
			{took: time.Second, times: 1, want: Closed},
			{outcome: Failure, times: 2, want: Closed},
		}},
		{"no call is slow unless said", Options{}, []step{{took: time.Hour, times: 100, want: Closed}}},
		{"a probe closes it", Options{}, []step{
			row(0),
			{at: 1000 * ms, times: 1, want: Closed},
			{at: 1000 * ms, times: 1, want: Closed},
		}},
		{"a closed breaker has forgotten all", Options{Failures: 5}, []step{
			{times: 15, want: Closed},
			{outcome: Failure, times: 5, want: Open},
			{at: 1000 * ms, times: 1, want: Closed},
			{at: 1000 * ms, outcome: Failure, times: 4, want: Closed},
		}},
		{"pauses double up to the longest, and start anew", Options{}, []step{
			row(0),
			{at: 1000 * ms, outcome: Failure, times: 1, want: Open},
			{at: 2999 * ms, refused: true, times: 1, want: Open},
			{at: 3000 * ms, outcome: Failure, times: 1, want: Open},
			{at: 6999 * ms, refused: true, times: 1, want: Open},
			{at: 7000 * ms, outcome: Failure, times: 1, want: Open},
			{at: 10999 * ms, refused: true, times: 1, want: Open},
			{at: 11000 * ms, times: 1, want: Closed},
			row(11000 * ms),
			{at: 11999 * ms, refused: true, times: 1, want: Open},
			{at: 12000 * ms, times: 1, want: Closed},
		}},
		{"a slow probe fails", Options{Slow: 50 * ms}, []step{
			row(0),
			{at: 1000 * ms, took: 50 * ms, times: 1, want: Open},
			{at: 2999 * ms, refused: true, times: 1, want: Open},
		}},
		{"an ignored probe makes room for the next", Options{}, []step{
			row(0),
			{at: 1000 * ms, outcome: Ignored, times: 3, want: HalfOpen},
			{at: 1000 * ms, times: 1, want: Closed},
		}},
		{"jitter lengthens", Options{Jitter: func() float64 { return 0.5 }}, []step{
			row(0),
			{at: 1049 * ms, refused: true, times: 1, want: Open},
			{at: 1050 * ms, times: 1, want: Closed},
		}},
		{"a bad draw lengthens by a tenth at most", Options{Jitter: func() float64 { return 7 }}, []step{
			row(0),
			{at: 1099 * ms, refused: true, times: 1, want: Open},
			{at: 1100 * ms, times: 1, want: Closed},
		}},
		{"a longest pause below the first counts as that", Options{Pause: 3 * time.Second, MaxPause: time.Second}, []step{
			row(0),
			{at: 2999 * ms, refused: true, times: 1, want: Open},
			{at: 3000 * ms, outcome: Failure, times: 1, want: Open},
			{at: 6000 * ms, times: 1, want: Closed},
		}},
		{"a clock that steps back by an hour ends the pause", Options{}, []step{
			row(2 * time.Hour),
			{at: time.Hour, times: 1, want: Closed},
			row(time.Hour),
		}},
		{"a clock that steps back a little makes it longer by that", Options{}, []step{
			row(0),
			{at: -500 * ms, refused: true, times: 1, want: Open},
			{at: 999 * ms, refused: true, times: 1, want: Open},
			{at: 1000 * ms, times: 1, want: Closed},
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.options.Jitter == nil {
				test.options.Jitter = noJitter
			}
			b := New(test.options)
			for i, s := range test.steps {
				run(t, b, i, s)
			}
		})
	}
}

func run(t *testing.T, b *Breaker, i int, s step) {
	t.Helper()
	for n := range s.times {
		p, ok := b.Allow(after(s.at))
		if ok == s.refused {
			t.Fatalf("step %d, call %d: allowed %v", i, n, ok)
		}
		if ok {
			b.Done(p, after(s.at), s.outcome, s.took)
		}
	}
	if got := b.State(after(s.at)); got != s.want {
		t.Fatalf("step %d: state is %v, want %v", i, got, s.want)
	}
}

func opened(t *testing.T, o Options) *Breaker {
	t.Helper()
	o.Jitter = noJitter
	b := New(o)
	run(t, b, 0, step{outcome: Failure, times: 3, want: Open})
	return b
}

func TestOneProbeAtATime(t *testing.T) {
	b := opened(t, Options{})
	if got := b.State(after(time.Second)); got != HalfOpen {
		t.Fatalf("after the pause the state is %v", got)
	}
	probe, ok := b.Allow(after(time.Second))
	if !ok {
		t.Fatal("no probe after the pause")
	}
	for range 10 {
		if _, ok := b.Allow(after(time.Second + 999*time.Millisecond)); ok {
			t.Fatal("a second call beside the probe")
		}
	}
	b.Done(probe, after(1999*time.Millisecond), Success, 0)
	if got := b.State(after(1999 * time.Millisecond)); got != Closed {
		t.Fatalf("after a good probe the state is %v", got)
	}
}

func TestLostProbe(t *testing.T) {
	b := opened(t, Options{})
	lost, _ := b.Allow(after(time.Second))
	next, ok := b.Allow(after(2 * time.Second))
	if !ok {
		t.Fatal("a probe that was lost blocks longer than the pause")
	}
	if _, ok := b.Allow(after(2 * time.Second)); ok {
		t.Fatal("two probes in the place of the lost one")
	}
	b.Done(lost, after(2*time.Second), Success, 0)
	if got := b.State(after(2 * time.Second)); got != HalfOpen {
		t.Fatalf("an answer later than the pause made it %v", got)
	}
	b.Done(next, after(2*time.Second), Failure, 0)
	if got := b.State(after(3999 * time.Millisecond)); got != Open {
		t.Fatalf("in the second pause, which is two seconds, the state is %v", got)
	}
	if got := b.State(after(4 * time.Second)); got != HalfOpen {
		t.Fatalf("after the second pause the state is %v", got)
	}
}

// Another store in the place of the one that failed begins with a closed breaker.
func TestReset(t *testing.T) {
	b := opened(t, Options{})
	if got := b.Wait(after(400 * time.Millisecond)); got != 600*time.Millisecond {
		t.Errorf("in the pause the wait is %v", got)
	}
	if got := b.Wait(after(time.Second)); got != 0 {
		t.Errorf("after the pause the wait is %v", got)
	}
	probe, _ := b.Allow(after(time.Second))
	b.Reset(after(time.Second))
	b.Done(probe, after(time.Second), Failure, 0)
	if got := b.Stats(after(time.Second)); got.State != Closed || got.Opened != 1 || b.Wait(after(time.Second)) != 0 {
		t.Fatalf("after a reset: %+v", got)
	}
	run(t, b, 1, step{at: time.Second, outcome: Failure, times: 2, want: Closed})
	run(t, b, 2, step{at: time.Second, outcome: Failure, times: 1, want: Open})
	if got := b.State(after(2 * time.Second)); got != HalfOpen {
		t.Errorf("the first pause after a reset is longer than the first: %v", got)
	}
}

func TestOldPermitsAreNotHeard(t *testing.T) {
	b := New(Options{Jitter: noJitter})
	early, _ := b.Allow(t0)
	run(t, b, 0, step{outcome: Failure, times: 3, want: Open})
	b.Done(early, t0, Success, 0)
	if got := b.State(t0); got != Open {
		t.Fatalf("the success of an earlier call made it %v", got)
	}
	run(t, b, 1, step{at: time.Second, times: 1, want: Closed})
	for range 5 {
		b.Done(early, after(time.Second), Failure, 0)
	}
	if got := b.State(after(time.Second)); got != Closed {
		t.Fatalf("failures of an earlier call made it %v", got)
	}
	p, _ := b.Allow(after(time.Second))
	b.Done(p, after(time.Second), Failure, 0)
	run(t, b, 2, step{at: time.Second, outcome: Failure, times: 2, want: Open})
	probe, _ := b.Allow(after(2 * time.Second))
	b.Done(probe, after(2*time.Second), Ignored, 0)
	b.Done(probe, after(2*time.Second), Success, 0)
	if got := b.State(after(2 * time.Second)); got != HalfOpen {
		t.Fatalf("a probe that went back twice made it %v", got)
	}
}

func TestStats(t *testing.T) {
	b := New(Options{Failures: 3, Slow: time.Second, Jitter: noJitter})
	check := func(at time.Duration, want Stats) {
		t.Helper()
		if got := b.Stats(after(at)); got != want {
			t.Fatalf("at %v: %+v, want %+v", at, got, want)
		}
	}
	check(0, Stats{})
	run(t, b, 0, step{times: 5, want: Closed})
	run(t, b, 1, step{times: 1, took: time.Second, want: Closed})
	run(t, b, 2, step{times: 1, outcome: Failure, want: Closed})
	check(0, Stats{Calls: 7, Bad: 2})
	run(t, b, 3, step{times: 2, at: time.Second, outcome: Failure, want: Open})
	check(time.Second, Stats{State: Open, Since: after(time.Second), Opened: 1})
	check(2*time.Second, Stats{State: HalfOpen, Since: after(time.Second), Opened: 1})
	run(t, b, 4, step{times: 1, at: 2 * time.Second, outcome: Failure, want: Open})
	check(2*time.Second, Stats{State: Open, Since: after(2 * time.Second), Opened: 2})
	run(t, b, 5, step{times: 2, at: 4 * time.Second, want: Closed})
	check(4*time.Second, Stats{Since: after(4 * time.Second), Opened: 2, Calls: 1})
}

// A store that is down for long is asked once in each pause, whatever the load.
func TestLoadOnAStoreThatIsDown(t *testing.T) {
	b := New(Options{Jitter: noJitter})
	calls := 0
	for at := time.Duration(0); at < 60*time.Second; at += time.Millisecond {
		if p, ok := b.Allow(after(at)); ok {
			calls++
			b.Done(p, after(at), Failure, 0)
		}
	}
	// Three, then probes at 1, 3, 7, 11, ..., 59 s.
	if want := 3 + 2 + 14; calls != want {
		t.Errorf("%d calls in a minute, want %d", calls, want)
	}
}

// With many callers at once, exactly one probes after each pause, and in the
// end the breaker closes.
func TestConcurrent(t *testing.T) {
	b := New(Options{Failures: 1 << 30, MinCalls: 100, Jitter: noJitter})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 2000 {
				if p, ok := b.Allow(t0); ok {
					b.Done(p, t0, Outcome(i%2), 0)
				}
				b.State(t0)
				b.Stats(t0)
			}
		})
	}
	wg.Wait()
	if got := b.Stats(t0); got.State != Open || got.Opened != 1 {
		t.Fatalf("after failures of many callers: %+v", got)
	}
	for round := 1; round <= 3; round++ {
		at := after(time.Duration(round) * 10 * time.Second)
		probes := make(chan Permit, 100)
		for range 8 {
			wg.Go(func() {
				for range 100 {
					if p, ok := b.Allow(at); ok {
						probes <- p
					}
				}
			})
		}
		wg.Wait()
		close(probes)
		if len(probes) != 1 {
			t.Fatalf("%d probes in round %d", len(probes), round)
		}
		outcome := Failure
		if round == 3 {
			outcome = Success
		}
		b.Done(<-probes, at, outcome, 0)
	}
	if got := b.State(after(30 * time.Second)); got != Closed {
		t.Fatalf("after a good probe the state is %v", got)
	}
}

func TestStateNames(t *testing.T) {
	if got := fmt.Sprint(Closed, HalfOpen, Open); got != "closed half_open open" {
		t.Errorf("the states are named %s", got)
	}
}

func TestNoAllocations(t *testing.T) {
	b := New(Options{Slow: time.Second})
	now := time.Now()
	allocs := alloctest.PerRun(1000, func() {
		p, _ := b.Allow(now)
		b.Done(p, now, Success, time.Millisecond)
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func BenchmarkClosed(b *testing.B) {
	br := New(Options{Slow: time.Second})
	now := time.Now()
	b.ReportAllocs()
	for range b.N {
		p, _ := br.Allow(now)
		br.Done(p, now, Success, time.Millisecond)
	}
}

func BenchmarkOpen(b *testing.B) {
	br := New(Options{Failures: 1})
	now := time.Now()
	p, _ := br.Allow(now)
	br.Done(p, now, Failure, 0)
	b.ReportAllocs()
	for range b.N {
		br.Allow(now)
	}
}

// A pause that seems longer than two of the longest was begun by a clock that has stepped back:
// nobody waits for that clock.
func TestClockSteppedBackInAPause(t *testing.T) {
	const longest = 4 * time.Second
	for back, ok := range map[time.Duration]bool{0: false, 7 * time.Second: false, 7*time.Second + 1: true, time.Minute: true, time.Hour: true} {
		b := opened(t, Options{MaxPause: longest}) // for a second
		if _, got := b.Allow(after(-back)); got != ok {
			t.Errorf("a clock that is %v behind: a probe is let through %t, want %t", back, got, ok)
		}
	}
}
