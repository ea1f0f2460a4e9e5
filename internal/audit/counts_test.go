package audit

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/limit"
)

// uncertain is a Sink that settles events later, or never, as written or as failed.
type uncertain struct {
	mu      sync.Mutex
	waiting uint64
	written uint64
	failed  uint64
}

func (s *uncertain) Name() string { return "uncertain" }

func (s *uncertain) Write(b Batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting += uint64(len(b.Events))
	for s.waiting > 0 && rand.IntN(8) > 0 {
		s.waiting--
		if rand.IntN(3) == 0 {
			s.failed++
		} else {
			s.written++
		}
	}
}

func (s *uncertain) Counts() (uint64, uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written, s.failed, nil
}

func (s *uncertain) Close(context.Context) error { return nil }

// Whenever somebody looks, each decision that was told of before is in one of the
// counts, and none is that was not yet begun to be told; and no count ever goes down,
// but for those of what waits.
func TestCountsAddUpAtAnyInstant(t *testing.T) {
	const callers, each = 4, 3000
	for _, sample := range []float64{0, 0.1, 0.6, 1} {
		r := New(Options{Sample: sample, Buffer: 64, Sinks: []Sink{&uncertain{}, &uncertain{}}})
		ctx, stop := context.WithCancel(t.Context())
		var running, calling sync.WaitGroup
		running.Go(func() { r.Run(ctx) })
		var begun, ended atomic.Uint64
		for range callers {
			calling.Go(func() {
				req := request(t, "d", "user:u")
				for range each {
					resp := headgate.Response{Allowed: rand.IntN(4) > 0, DomainKnown: true}
					begun.Add(1)
					r.Record(&req, &resp, 0)
					ended.Add(1)
				}
			})
		}
		done := make(chan struct{})
		go func() { calling.Wait(); close(done) }()
		looks, before := 0, view.Audit{Sinks: make([]view.AuditSink, 2)}
		look := func() {
			looks++
			least := ended.Load()
			a := r.Stats()
			most := begun.Load()
			if !adds(t, a) || a.Decided < least || a.Decided > most {
				t.Fatalf("%d decided, of %d to %d: %+v", a.Decided, least, most, a)
			}
			if a.Decided < before.Decided || a.Unsampled < before.Unsampled || a.Produced < before.Produced || a.Dropped < before.Dropped {
				t.Fatalf("a count went down: %+v, before %+v", a, before)
			}
			before = a
		}
	all:
		for {
			select {
			case <-done:
				break all
			default:
				look()
			}
		}
		stop()
		running.Wait()
		closing, cancel := context.WithTimeout(t.Context(), time.Minute)
		if err := r.Close(closing); err != nil {
			t.Error(err)
		}
		cancel()
		look()
		if before.Decided != callers*each || before.Buffered != 0 {
			t.Errorf("at the end: %+v", before)
		}
		if sample == 1 && before.Unsampled > 0 || sample == 0 && before.Unsampled == 0 {
			t.Errorf("sample %v: %+v", sample, before)
		}
		t.Logf("sample %v: %d looks, %+v", sample, looks, before)
	}
}

// TestSample holds the share that is chosen against what chance allows: five standard
// deviations, beyond which it is one time in a million.
func TestSample(t *testing.T) {
	const n = 400_000
	for _, share := range []float64{0, 0.001, 0.01, 0.3, 0.9, 0.999, 1} {
		s := newSampler(share)
		responses := make([]headgate.Response, 7) // of several callers
		chosen := 0
		for i := range n {
			if s.choose(&responses[i%len(responses)]) {
				chosen++
			}
		}
		if got := chosen + int(s.skipped()); got != n {
			t.Errorf("share %v: %d are counted of %d", share, got, n)
		}
		deviation := 5 * math.Sqrt(n*share*(1-share))
		if math.Abs(float64(chosen)-n*share) > deviation {
			t.Errorf("share %v: %d chosen of %d, want %v ± %.0f", share, chosen, n, n*share, deviation)
		}
	}
}

// The first decisions of a process are chosen with the same probability.
func TestSampleOfTheFirst(t *testing.T) {
	const samplers, each, share = 20_000, 12, 0.01
	chosen, resp := 0, headgate.Response{}
	for range samplers {
		s := newSampler(share)
		for range each {
			if s.choose(&resp) {
				chosen++
			}
		}
	}
	const n = samplers * each
	if deviation := 5 * math.Sqrt(n*share*(1-share)); math.Abs(float64(chosen)-n*share) > deviation {
		t.Errorf("%d chosen of %d, want %v ± %.0f", chosen, n, n*share, deviation)
	}
}

// What one caller decides comes out in that order, whoever else decides meanwhile, and
// nothing twice.
func TestRingKeepsOrder(t *testing.T) {
	const callers, each = 4, 5000
	r := newRing(16)
	var calling sync.WaitGroup
	for c := range callers {
		calling.Go(func() {
			for n := range each {
				rec := &record{hits: int64(c), limit: int64(n)}
				for _, ok := r.put(rec); !ok; _, ok = r.put(rec) {
					runtime.Gosched() // until there is room
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { calling.Wait(); close(done) }()
	next := [callers]int64{}
	taken := 0
	for taken < callers*each {
		rec := r.take()
		if rec == nil {
			select {
			case <-done:
				if rec = r.take(); rec == nil {
					t.Fatalf("%d of %d came out", taken, callers*each)
				}
			default:
				continue
			}
		}
		if rec.limit != next[rec.hits] {
			t.Fatalf("caller %d: %d came out, want %d", rec.hits, rec.limit, next[rec.hits])
		}
		next[rec.hits]++
		taken++
	}
}

// A full ring takes nothing and loses nothing.
func TestRingAgainstAModel(t *testing.T) {
	for _, size := range []int{2, 3, 4, 7} {
		r, model := newRing(size), []*record{}
		for range 2000 {
			if rand.IntN(2) == 0 {
				rec := &record{}
				if _, ok := r.put(rec); ok != (len(model) < size) {
					t.Fatalf("%d of %d: put is %v", len(model), size, ok)
				} else if ok {
					model = append(model, rec)
				}
			} else {
				var want *record
				if len(model) > 0 {
					want, model = model[0], model[1:]
				}
				if got := r.take(); got != want {
					t.Fatalf("%d of %d: take is %p, want %p", len(model), size, got, want)
				}
			}
		}
	}
}

// A ring that is full costs the decision nothing but the event.
func TestFullBufferDrops(t *testing.T) {
	b := newBench(t, Options{Sample: 1, Buffer: 10})
	for range 25 {
		b.ask("everyone:k")
	}
	if a := b.Stats(); a.Decided != 25 || a.Buffered != 10 || a.Dropped != 15 || !adds(t, a) {
		t.Errorf("%+v", a)
	}
	resp := headgate.Response{Verdicts: []headgate.Verdict{{Decision: limit.Decision{}}}}
	req := request(t, "d", "user:u")
	if id := b.Record(&req, &resp, 0); !id.IsZero() {
		t.Error("what was dropped has an ID")
	}
	b.settle()
	if a := b.Stats(); a.Produced != 10 || a.Dropped != 16 || !adds(t, a) {
		t.Errorf("%+v", a)
	}
}
