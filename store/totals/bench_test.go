package totals

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
)

// sink takes in all it is told at once, and counts it.
type sink struct {
	store.Importer
	totals, calls int
}

func (s *sink) Import(_ context.Context, totals []store.Total, results []store.Result) {
	s.totals, s.calls = s.totals+len(totals), s.calls+1
	clear(results)
}

// A round over keys that live, of which some have grown beyond the floor since the last one: what
// it costs the process that tells.
func BenchmarkRound(b *testing.B) {
	for _, keys := range []int{10_000, 65_000, 1_000_000} {
		b.Run(fmt.Sprintf("keys=%d/told=1%%", keys), func(b *testing.B) { benchRound(b, keys, keys/100) })
	}
	b.Run("keys=10000/told=all", func(b *testing.B) { benchRound(b, 10_000, 10_000) })
}

func benchRound(b *testing.B, keys, told int) {
	now := noon
	clock := func() limit.Micros { return now }
	own, err := memstore.New(memstore.Options{Now: clock, MaxBytes: 512 << 20})
	if err != nil {
		b.Fatal(err)
	}
	peer := &sink{Importer: own}
	// Hashes fall into shards unevenly.
	s, err := New(Options{Own: own, Peers: []Peer{{"elsewhere", peer}}, Now: clock, MaxBuckets: 2 * keys})
	if err != nil {
		b.Fatal(err)
	}
	l := limit.Must(limit.Spec{Algorithm: limit.SlidingWindow, Quota: 1_000_000, Period: time.Hour})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	results := make([]store.Result, 1)
	take := func(key int, n int64) {
		s.Take(context.Background(), []store.Take{{Key: fmt.Appendf(nil, "key %d", key), Limit: l, Hits: n}}, results)
	}
	for key := range keys {
		take(key, 1)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if n := s.Rules()[""].Buckets; n != int64(keys) {
		b.Fatalf("%d are counted", n)
	}
	b.ResetTimer()
	for range b.N {
		b.StopTimer()
		for key := range told {
			take(key, 10_000) // 1 %
		}
		now += 1_000_000
		if now > noon+1_000_000*1000 {
			b.Fatal("windows end")
		}
		b.StartTimer()
		if err := s.tell(context.Background(), 0, s.floor); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(peer.totals)/float64(b.N), "totals/round")
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(keys), "B/key")
}
