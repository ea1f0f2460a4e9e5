package inprocess

import (
	"runtime"
	"testing"
	"time"
)

// BenchmarkHeap fills a table with one bucket for each key and reports the live
// heap that it takes per key, and how long a full garbage collection takes
// while it is alive. A library that keeps keys pays for their strings here, 32
// bytes each; that is part of its design. Run it with -benchtime=1x -cpu=1.
func BenchmarkHeap(b *testing.B) {
	rows(b, func(b *testing.B, s system, keys int) {
		if keys < 1_000_000 || s.name == loopSystem.name {
			b.Skip("a heap per key needs many keys and a table")
		}
		filled.system, filled.table = "", bucketTable{}
		before := liveHeap()
		t := s.open(b, keys)
		fill(t, keys)
		bytes := liveHeap() - before
		start := time.Now()
		runtime.GC()
		b.ReportMetric(float64(time.Since(start).Microseconds())/1000, "gc-ms")
		b.ReportMetric(float64(bytes)/float64(keys), "heap-B/key")
		b.ReportMetric(0, "ns/op")
		runtime.KeepAlive(t)
	})
}

// liveHeap returns the bytes of reachable objects. It collects twice: what a
// sync.Pool holds survives one collection.
func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
