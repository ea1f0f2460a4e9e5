package memstore

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// algorithms has one limit for each algorithm, under which hits pass for long and
// buckets live for minutes. (The leaky bucket and the log deny most of them.)
var algorithms = []limit.Spec{
	{Algorithm: limit.GCRA, Quota: 2, Period: time.Minute, Burst: 30_000_000},
	{Algorithm: limit.TokenBucket, Quota: 2, Period: time.Minute, Burst: 30_000_000},
	{Algorithm: limit.LeakyBucket, Quota: 1, Period: 10 * time.Minute},
	{Algorithm: limit.LeakyQueue, Quota: 1, Period: time.Minute, MaxDelay: limit.MaxPeriod},
	{Algorithm: limit.FixedWindow, Quota: 1 << 40, Period: time.Hour},
	{Algorithm: limit.SlidingWindow, Quota: 1 << 40, Period: time.Hour},
	{Algorithm: limit.SubWindows, Quota: 1 << 40, Period: time.Hour},
	{Algorithm: limit.SlidingLog, Quota: 100, Period: time.Hour},
}

func newStore(tb testing.TB, o Options) *Store {
	tb.Helper()
	s, err := New(o)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// benchmarkKeys takes one hit after another on random keys of n, all of which
// have a bucket, and reports the bytes that each of them takes.
func benchmarkKeys(b *testing.B, spec limit.Spec, n int) {
	l := limit.Must(spec)
	s := newStore(b, Options{MaxBytes: 4 << 30})
	var key [16]byte
	for i := range n {
		binary.LittleEndian.PutUint64(key[:], uint64(i))
		s.TakeOneBytes(key[:], l, 1)
	}
	perKey := float64(s.Stats().Bytes) / float64(n)
	random := rand.New(rand.NewPCG(1, 2))
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		binary.LittleEndian.PutUint64(key[:], random.Uint64N(uint64(n)))
		s.TakeOneBytes(key[:], l, 1)
	}
	b.StopTimer()
	b.ReportMetric(perKey, "bytes/key")
}

func heapBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func BenchmarkTakeOne(b *testing.B) {
	for _, n := range []int{1, 1_000_000, 10_000_000} {
		for _, spec := range algorithms {
			if n > 1_000_000 && (spec.Algorithm == limit.SubWindows || spec.Algorithm == limit.SlidingLog) {
				continue // a gigabyte and more
			}
			b.Run(fmt.Sprintf("%v/keys=%d", spec.Algorithm, n), func(b *testing.B) {
				benchmarkKeys(b, spec, n)
			})
		}
	}
}

// BenchmarkParallel has every processor take hits, on one key or on random ones.
func BenchmarkParallel(b *testing.B) {
	l := limit.Must(algorithms[0])
	for _, n := range []uint64{1, 1_000_000} {
		b.Run(fmt.Sprintf("keys=%d", n), func(b *testing.B) {
			s := newStore(b, Options{})
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				random := rand.New(rand.NewPCG(rand.Uint64(), 2))
				var key [16]byte
				for pb.Next() {
					binary.LittleEndian.PutUint64(key[:], random.Uint64N(n))
					s.TakeOneBytes(key[:], l, 1)
				}
			})
		})
	}
}

// BenchmarkHold takes and releases a slot beside others in the bucket.
func BenchmarkHold(b *testing.B) {
	for _, others := range []limit.Hold{0, 19, 999} {
		b.Run(fmt.Sprintf("beside %d", others), func(b *testing.B) {
			s := newStore(b, Options{})
			l := slotsOf(1_000)
			for hold := range others {
				s.do(by(hold+1, store.Renew, "key", l))
			}
			takes := []store.Take{by(1_000_000, store.Hit, "key", l), by(1_000_000, store.Release, "key", l)}
			results := make([]store.Result, len(takes))
			b.ReportAllocs()
			for b.Loop() {
				s.Take(b.Context(), takes, results)
			}
		})
	}
}

// BenchmarkTake decides batches on random keys, alone or all or nothing.
func BenchmarkTake(b *testing.B) {
	l := limit.Must(algorithms[0])
	for _, size := range []int{1, 3, 100} {
		for _, group := range []uint32{0, 1} {
			b.Run(fmt.Sprintf("takes=%d/group=%d", size, group), func(b *testing.B) {
				s := newStore(b, Options{})
				takes, results := make([]store.Take, size), make([]store.Result, size)
				for i := range takes {
					takes[i] = store.Take{Key: make([]byte, 16), Limit: l, Hits: 1, Group: group}
				}
				random := newRandom()
				b.ReportAllocs()
				for b.Loop() {
					for i := range takes {
						binary.LittleEndian.PutUint64(takes[i].Key, random.Uint64N(100_000))
					}
					s.Take(b.Context(), takes, results)
				}
			})
		}
	}
}

// BenchmarkFull has newcomers come to a store that has no room for them.
func BenchmarkFull(b *testing.B) {
	s, _ := newStoreAt(b, noon)
	l := limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 1 << 40, Period: time.Hour})
	s.fill(b, l, 1)
	random := newRandom()
	var key [16]byte
	b.ReportAllocs()
	for b.Loop() {
		binary.LittleEndian.PutUint64(key[:], random.Uint64())
		s.TakeOneBytes(key[:], l, 1)
	}
}
