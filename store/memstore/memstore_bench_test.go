package memstore

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
)

// algorithms has one limit for each algorithm, generous enough that hits pass.
var algorithms = []limit.Spec{
	{Algorithm: limit.GCRA, Quota: 1_000_000, Period: time.Second},
	{Algorithm: limit.TokenBucket, Quota: 1_000_000, Period: time.Second},
	{Algorithm: limit.LeakyBucket, Quota: 1_000_000, Period: time.Second},
	{Algorithm: limit.LeakyQueue, Quota: 1_000_000, Period: time.Second},
	{Algorithm: limit.FixedWindow, Quota: 1 << 40, Period: time.Minute},
	{Algorithm: limit.SlidingWindow, Quota: 1 << 40, Period: time.Minute},
	{Algorithm: limit.SubWindows, Quota: 1 << 40, Period: time.Minute},
	{Algorithm: limit.SlidingLog, Quota: 100, Period: time.Minute},
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
	before := heapBytes()
	s := newStore(b, Options{MaxBytes: 4 << 30})
	var key [16]byte
	for i := range n {
		binary.LittleEndian.PutUint64(key[:], uint64(i))
		s.TakeOneBytes(key[:], l, 1)
	}
	perKey := float64(heapBytes()-before) / float64(n)
	random := rand.New(rand.NewPCG(1, 2))
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		binary.LittleEndian.PutUint64(key[:], random.Uint64N(uint64(n)))
		s.TakeOneBytes(key[:], l, 1)
	}
	b.StopTimer()
	b.ReportMetric(perKey, "bytes/key")
	runtime.KeepAlive(s)
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
