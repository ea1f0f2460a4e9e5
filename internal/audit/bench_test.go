package audit

import (
	"context"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/trace"
)

// discard is a Sink that writes at once, to nowhere.
type discard struct{ written uint64 }

func (d *discard) Name() string                    { return "nowhere" }
func (d *discard) Write(b Batch)                   { d.written += uint64(len(b.Events)) }
func (d *discard) Counts() (uint64, uint64, error) { return d.written, 0, nil }
func (d *discard) Close(context.Context) error     { return nil }

const browser = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36"

// typical returns a request of a browser.
func typical(t testing.TB, descriptors ...string) headgate.Request {
	req := request(t, "d", descriptors...)
	req.Origin = headgate.Origin{
		ClientIP: netip.MustParseAddr("203.0.113.7"), UserAgent: browser, Trace: trace.Parent{ID: [16]byte{1}},
	}
	return req
}

func BenchmarkRecord(b *testing.B) {
	for _, bm := range []struct {
		name       string
		sample     float64
		descriptor string
		first      int // requests before
	}{
		{"unsampled", 0, "everyone:k", 0},
		{"one in 100", 0.01, "everyone:k", 0},
		{"sampled", 1, "everyone:k", 0},
		{"denied", 0, "user:u", 2},
	} {
		b.Run(bm.name, func(b *testing.B) {
			bench := newBench(b, Options{Sample: bm.sample, Now: time.Now})
			req := typical(b, bm.descriptor)
			resp := headgate.Response{}
			for range bm.first + 1 {
				resp = bench.check(req)
			}
			bench.settle()
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				mine := resp
				for n := 0; pb.Next(); n++ {
					bench.Record(&req, &mine, time.Microsecond)
					if n%1000 == 0 {
						empty(bench.Recorder)
					}
				}
			})
		})
	}
}

// empty takes records out of the ring, as a Run that costs nothing would.
func empty(r *Recorder) {
	if r.drains.TryLock() {
		for rec := r.ring.take(); rec != nil; rec = r.ring.take() {
			r.discarded.Add(1)
			r.records.Put(rec)
		}
		r.drains.Unlock()
	}
}

// BenchmarkEvents is of all that Run does for an event.
func BenchmarkEvents(b *testing.B) {
	for _, bm := range []struct {
		name  string
		plain bool
		sinks []Sink
	}{
		{"memory", false, nil},
		{"encoded plain", true, []Sink{&discard{}}},
		{"encoded hashed", false, []Sink{&discard{}}},
	} {
		b.Run(bm.name, func(b *testing.B) { benchmarkEvents(b, Options{Sample: 1, PlainKeys: bm.plain, Sinks: bm.sinks}) })
	}
}

// benchmarkEvents measures events from the decision until sinks have written them.
func benchmarkEvents(b *testing.B, o Options) {
	const most = 20_000 // that wait for a sink
	bench := newBench(b, o)
	req := typical(b, "everyone:k")
	resp := bench.check(req)
	bench.settle()
	b.ReportAllocs()
	start := time.Now()
	for n := 0; b.Loop(); n++ {
		bench.Record(&req, &resp, time.Microsecond)
		if n%batchSize > 0 {
			continue
		}
		bench.settle()
		for a := bench.Stats(); len(a.Sinks) > 0 && a.Sinks[0].Buffered > most; a = bench.Stats() {
			runtime.Gosched()
		}
	}
	bench.settle()
	bench.close()
	b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), "events/s")
	if a := bench.Stats(); a.Dropped > 0 || len(a.Sinks) > 0 && a.Sinks[0].Failed > 0 {
		b.Errorf("events were lost: %+v", a)
	}
}
