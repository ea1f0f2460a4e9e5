package overload

import (
	"math"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/internal/alloctest"
)

func drawSample(t *rapid.T) sample {
	m := sample{
		elapsed:    time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "elapsed")),
		finished:   rapid.Int64Range(0, 1e6).Draw(t, "finished"),
		overloaded: rapid.Int64Range(0, 1000).Draw(t, "overloaded"),
		peak:       rapid.Int64Range(0, 2000).Draw(t, "peak"),
	}
	if m.finished > 0 {
		m.latency = rapid.Float64Range(1, float64(time.Hour)).Draw(t, "latency")
		m.waited = rapid.Float64Range(0, m.latency).Draw(t, "waited")
	}
	for p := range Priorities {
		m.arrived[p] = rapid.Int64Range(0, 1000).Draw(t, "arrived")
		m.shed[p] = rapid.Int64Range(0, m.arrived[p]).Draw(t, "shed")
	}
	return m
}

// TestWorkerOrder (J4) holds, over any history of intervals and for any number in
// flight: the limit stays in its bounds; no higher priority is shed where a lower
// one would be admitted; P0 is shed at its hard cap and nowhere else.
func TestWorkerOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Options{MaxInFlight: rapid.IntRange(1, 1000).Draw(t, "max"), MaxCritical: rapid.IntRange(1, 50).Draw(t, "critical")}.withDefaults()
		if err := o.Validate(); err != nil {
			t.Fatal(err)
		}
		w := newWorker(o)
		for range rapid.IntRange(0, 40).Draw(t, "intervals") {
			w = w.next(o, drawSample(t))
			if !(w.limit >= float64(o.MinLimit) && w.limit <= float64(o.MaxInFlight)) {
				t.Fatalf("limit %v", w.limit)
			}
			limits := thresholds{upTo: unpackThresholds(packThresholds(w.thresholds())), critical: int64(o.MaxCritical)}
			if limits.upTo != w.thresholds() {
				t.Fatalf("thresholds %v are packed as %v", w.thresholds(), limits.upTo)
			}
			c := counts{
				critical: rapid.Int64Range(0, int64(o.MaxCritical)).Draw(t, "critical in flight"),
				others:   rapid.Int64Range(0, int64(o.MaxInFlight)).Draw(t, "others in flight"),
			}
			for p := P1; p <= P3; p++ {
				if limits.admits(c, p) == Admitted && limits.admits(c, p-1) != Admitted {
					t.Fatalf("%+v at %+v admits %v and not %v", limits, c, p, p-1)
				}
			}
			if got, want := limits.admits(c, P0) != Admitted, c.critical >= int64(o.MaxCritical); got != want {
				t.Fatalf("P0 shed: %v, want %v at %+v", got, want, c)
			}
			if limits.upTo[P1] < 1 || limits.upTo[P1] > int64(o.MaxInFlight) {
				t.Fatalf("P1 is admitted up to %d", limits.upTo[P1])
			}
		}
	})
}

// TestWorkerOneInterval holds what one interval can do: the limit does not fall
// by more than half, nor rise by more than its square root.
func TestWorkerOneInterval(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Options{}.withDefaults()
		w := newWorker(o)
		for range rapid.IntRange(1, 30).Draw(t, "intervals") {
			before := w.limit
			w = w.next(o, drawSample(t))
			if w.limit < before/2 || w.limit > before+math.Sqrt(before) {
				t.Fatalf("limit moved from %v to %v", before, w.limit)
			}
		}
	})
}

// TestShedderModel runs random requests in virtual time and compares what is in
// flight with a plain count; the clock may step back.
func TestShedderModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Options{MaxInFlight: 12, MaxCritical: 3}
		s, err := New(o, testOrigin)
		if err != nil {
			t.Fatal(err)
		}
		now := testOrigin
		var held []Ticket
		critical := 0
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(-int64(time.Minute), int64(time.Minute)).Draw(t, "step")))
			if len(held) > 0 && rapid.Bool().Draw(t, "done") {
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				if held[i].priority == P0 {
					critical--
				}
				s.Done(held[i], Outcome(rapid.IntRange(0, 2).Draw(t, "outcome")), now)
				held = append(held[:i], held[i+1:]...)
				continue
			}
			p := Priority(rapid.IntRange(0, 4).Draw(t, "priority"))
			ticket, d := s.Admit(p, now)
			if d.Admitted() {
				held = append(held, ticket)
				if p == P0 {
					critical++
				}
			} else if p == P0 && critical < 3 {
				t.Fatalf("P0 shed with %d critical in flight", critical)
			} else if d.RetryAfter < 500*time.Millisecond || d.RetryAfter > 1500*time.Millisecond {
				t.Fatalf("retry after %v", d.RetryAfter)
			}
			stats := s.Stats()
			if stats.Critical != int64(critical) || stats.InFlight != int64(len(held)-critical) {
				t.Fatalf("in flight %d and %d, want %d and %d", stats.InFlight, stats.Critical, len(held)-critical, critical)
			}
			if stats.Critical > 3 || stats.InFlight > 12 {
				t.Fatalf("%d and %d in flight", stats.InFlight, stats.Critical)
			}
		}
	})
}

// TestShedderConcurrent holds that the caps hold under many callers, and that
// nothing stays in flight.
func TestShedderConcurrent(t *testing.T) {
	s := newTestShedder(t, Options{MaxInFlight: 8, MaxCritical: 2, MinLimit: 1})
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for i := range 2000 {
				now := testOrigin.Add(time.Duration(i) * time.Millisecond)
				ticket, d := s.Admit(Priority((g+i)%Priorities), now)
				if stats := s.Stats(); stats.InFlight > 8 || stats.Critical > 2 {
					t.Errorf("%d and %d in flight", stats.InFlight, stats.Critical)
				}
				if d.Admitted() {
					s.Done(ticket, Served, now.Add(time.Millisecond))
				}
			}
		})
	}
	wg.Wait()
	stats := s.Stats()
	if stats.InFlight != 0 || stats.Critical != 0 {
		t.Errorf("%d and %d stay in flight", stats.InFlight, stats.Critical)
	}
	total := int64(0)
	for p := range Priorities {
		total += stats.Admitted[p] + stats.Shed[p]
	}
	if total != 16*2000 {
		t.Errorf("%d counted, want %d", total, 16*2000)
	}
}

// TestCriticalCountedApart (J4) holds that other requests never take the room of
// critical ones, and that nobody is admitted while those are shed.
func TestCriticalCountedApart(t *testing.T) {
	s := newTestShedder(t, Options{MaxInFlight: 5, MaxCritical: 2})
	var tickets []Ticket
	for range 5 {
		ticket, d := s.Admit(P1, testOrigin)
		if !d.Admitted() {
			t.Fatalf("P1: %v", d.Reason)
		}
		tickets = append(tickets, ticket)
	}
	if _, d := s.Admit(P1, testOrigin); d.Reason != WorkerLimit {
		t.Errorf("the sixth P1: %v", d.Reason)
	}
	first, d := s.Admit(P0, testOrigin)
	if !d.Admitted() {
		t.Errorf("P0 beside a full process: %v", d.Reason)
	}
	if _, d := s.Admit(P0, testOrigin); !d.Admitted() {
		t.Errorf("the second P0: %v", d.Reason)
	}
	for _, ticket := range tickets {
		s.Done(ticket, Served, testOrigin)
	}
	for p := P0; p <= P3; p++ {
		if _, d := s.Admit(p, testOrigin); d.Reason != HardCap || d.Priority != p {
			t.Errorf("%v with critical full: %+v", p, d)
		}
	}
	s.Done(first, Served, testOrigin)
	if _, d := s.Admit(P3, testOrigin); !d.Admitted() {
		t.Errorf("P3 in an empty process: %v", d.Reason)
	}
}

// TestDoneTwice holds that a ticket which is given back twice, or which is none,
// cannot make what is in flight run below zero and the process shed for ever.
func TestDoneTwice(t *testing.T) {
	s := newTestShedder(t, Options{})
	for _, p := range []Priority{P0, P2} {
		ticket, _ := s.Admit(p, testOrigin)
		s.Done(ticket, Served, testOrigin)
		s.Done(ticket, Served, testOrigin)
		s.Done(Ticket{}, Served, testOrigin)
	}
	if stats := s.Stats(); stats.InFlight != 0 || stats.Critical != 0 {
		t.Errorf("%d and %d in flight", stats.InFlight, stats.Critical)
	}
	if _, d := s.Admit(P3, testOrigin); !d.Admitted() {
		t.Errorf("P3: %v", d.Reason)
	}
}

// signal runs intervals in which a full limit of requests shows one thing.
func signal(t *testing.T, intervals int, latency, waited time.Duration, outcome Outcome) float64 {
	t.Helper()
	s := newTestShedder(t, Options{InitialLimit: 100})
	now := testOrigin
	for range intervals {
		var tickets []Ticket
		for range 80 {
			ticket, d := s.Admit(P1, now)
			if !d.Admitted() {
				break
			}
			ticket.Waited = waited
			tickets = append(tickets, ticket)
		}
		now = now.Add(latency)
		for _, ticket := range tickets {
			s.Done(ticket, outcome, now)
		}
		now = now.Add(100 * time.Millisecond)
	}
	return s.Stats().Limit
}

// TestSignals holds what moves the limit: a known time in a queue and an
// overload that is told lower it though latency is even; failures do nothing.
func TestSignals(t *testing.T) {
	for _, c := range []struct {
		name     string
		waited   time.Duration
		outcome  Outcome
		min, max float64
	}{
		{"even latency", 0, Served, 150, 1000},
		{"short in a queue", 10 * time.Millisecond, Served, 150, 1000},
		{"long in a queue", 100 * time.Millisecond, Served, 4, 70},
		{"told to be overloaded", 0, Overloaded, 4, 70},
		{"ignored", 0, Ignored, 100, 100},
	} {
		if got := signal(t, 30, 200*time.Millisecond, c.waited, c.outcome); got < c.min || got > c.max {
			t.Errorf("%s: limit %v after 30 intervals from 100, want %v to %v", c.name, got, c.min, c.max)
		}
	}
}

func TestOptionsValidate(t *testing.T) {
	for _, o := range []Options{
		{MaxInFlight: -1}, {MaxInFlight: 1 << 21}, {MaxCritical: -1}, {MaxCritical: 1 << 21}, {MinLimit: -1},
		{MinLimit: 50, MaxInFlight: 20}, {InitialLimit: 2}, {InitialLimit: 2000}, {Interval: 1}, {Interval: time.Hour},
		{Tolerance: 0.5}, {Tolerance: math.NaN()}, {Tolerance: math.Inf(1)}, {QueueTarget: -1}, {BaseWindow: time.Millisecond},
		{RetryAfter: -1}, {RetryAfter: time.Hour},
	} {
		if _, err := New(o, testOrigin); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
	for _, o := range []Options{{}, {MaxInFlight: 1}, {MaxInFlight: maxInFlight}, {MinLimit: 500}} {
		if _, err := New(o, testOrigin); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestLogarithm holds that the logarithm is monotone, that fromLog inverts it,
// and that a mean lies between what it is the mean of.
func TestLogarithm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Uint64Range(1, math.MaxInt64).Draw(t, "a"), rapid.Uint64Range(1, math.MaxInt64).Draw(t, "b")
		if a < b && logOf(a) > logOf(b) {
			t.Fatalf("logOf(%d) = %d, logOf(%d) = %d", a, logOf(a), b, logOf(b))
		}
		if back := fromLog(float64(logOf(a))); math.Abs(back/float64(a)-1) > 0.001 {
			t.Fatalf("%d comes back as %v", a, back)
		}
		var l latencies
		l.add(int64(a))
		l.add(int64(b))
		number, mean := l.take()
		if number != 2 || mean < float64(min(a, b))*0.999 || mean > float64(max(a, b))*1.001 {
			t.Fatalf("mean of %d and %d: %v of %d", a, b, mean, number)
		}
		if number, mean := l.take(); number != 0 || mean != 0 {
			t.Fatalf("after take: %v of %d", mean, number)
		}
	})
}

// TestAdmitDoesNotAllocate holds that neither shedder allocates, whether it
// admits or sheds.
func TestAdmitDoesNotAllocate(t *testing.T) {
	s := newTestShedder(t, Options{MaxInFlight: 2})
	f, err := NewFleet(FleetOptions{Usage: func() Usage { return Usage{Used: 99, Capacity: 100} }}, testOrigin)
	if err != nil {
		t.Fatal(err)
	}
	now := testOrigin
	if got := alloctest.PerRun(1000, func() {
		now = now.Add(10 * time.Millisecond)
		f.Admit(P3, now)
		a, _ := s.Admit(P1, now)
		b, _ := s.Admit(P1, now)
		c, _ := s.Admit(P1, now)
		s.Done(a, Served, now)
		s.Done(b, Served, now)
		s.Done(c, Served, now)
	}); got != 0 {
		t.Errorf("%v allocations", got)
	}
}

// BenchmarkFourAtomics is what the others stand beside: as many atomic writes as
// one Admit and Done take.
func BenchmarkFourAtomics(b *testing.B) {
	var g gauge
	for b.Loop() {
		for range 4 {
			g.word.Add(1)
		}
	}
}

func BenchmarkAdmitDone(b *testing.B) {
	s := newTestShedder(b, Options{})
	now := testOrigin
	b.ReportAllocs()
	for b.Loop() {
		ticket, _ := s.Admit(P2, now)
		s.Done(ticket, Served, now)
	}
}

func BenchmarkAdmitDoneParallel(b *testing.B) {
	s := newTestShedder(b, Options{})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			ticket, _ := s.Admit(P2, testOrigin)
			s.Done(ticket, Served, testOrigin)
		}
	})
}

func BenchmarkShed(b *testing.B) {
	s := newTestShedder(b, Options{MaxInFlight: 1})
	s.Admit(P1, testOrigin)
	b.ReportAllocs()
	for b.Loop() {
		s.Admit(P2, testOrigin)
	}
}

func BenchmarkFleetAdmit(b *testing.B) {
	f, err := NewFleet(FleetOptions{Usage: func() Usage { return Usage{Used: 99, Capacity: 100} }}, testOrigin)
	if err != nil {
		b.Fatal(err)
	}
	for i := range 100 {
		f.Admit(P3, testOrigin.Add(time.Duration(i)*100*time.Millisecond))
	}
	now := testOrigin.Add(10 * time.Second)
	b.ReportAllocs()
	for b.Loop() {
		f.Admit(P3, now)
	}
}
