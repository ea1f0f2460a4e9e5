package inprocess

import (
	"flag"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
)

var maxKeys = flag.Int("maxkeys", 1_000_000, "leave out rows with more keys; 10000000 needs about 3 GB and some minutes")

// keyCounts are the sizes measured: one hot key, a table far beyond the caches,
// and one beyond what the address translation of the processor covers.
var keyCounts = []int{1, 1_000_000, 10_000_000}

// largeRows are the rows measured with 10 million keys too: the others have the
// same layout as one of these, or would take many gigabytes.
var largeRows = map[string]bool{
	"loop":                               true,
	"headgate/sliding_window":            true,
	"headgate/gcra":                      true,
	"x-time-rate/token_bucket_mutex_map": true,
	"go-limiter/token_bucket":            true,
	"throttled/gcra":                     true,
}

func systems() []system {
	return append(append([]system{loopSystem}, headgateSystems()...), peerSystems...)
}

// rows calls measure as a sub-benchmark for each size and system asked for.
func rows(b *testing.B, measure func(b *testing.B, s system, keys int)) {
	for _, keys := range keyCounts {
		if keys > *maxKeys {
			continue
		}
		for _, s := range systems() {
			if keys > 1_000_000 && !largeRows[s.name] {
				continue
			}
			b.Run(fmt.Sprintf("keys=%d/%s", keys, s.name), func(b *testing.B) { measure(b, s, keys) })
		}
	}
}

// filled is the table measured last. The testing package calls a benchmark many
// times, and filling ten million keys takes longer than measuring.
var filled struct {
	system string
	keys   int
	table  bucketTable
}

func filledTable(tb testing.TB, s system, keys int) bucketTable {
	if filled.system == s.name && filled.keys == keys {
		return filled.table
	}
	filled.system, filled.keys, filled.table = "", 0, bucketTable{}
	t := s.open(tb, keys)
	fill(t, keys)
	filled.system, filled.keys, filled.table = s.name, keys, t
	runtime.GC()
	return t
}

func fill(t bucketTable, keys int) {
	w := newKeyWriter(0)
	for i := range keys {
		t.fill(string(w.key(uint64(i))))
	}
}

// seeds gives each goroutine of a benchmark keys of its own.
var seeds atomic.Uint64

// BenchmarkTake decides one hit on a key drawn uniformly from keys that all
// have a bucket, on as many goroutines as processors.
func BenchmarkTake(b *testing.B) {
	rows(b, func(b *testing.B, s system, keys int) {
		t := filledTable(b, s, keys)
		b.ReportAllocs()
		b.ResetTimer()
		start := cpuTime()
		b.RunParallel(func(pb *testing.PB) {
			w := newKeyWriter(seeds.Add(1) << 32)
			for pb.Next() {
				t.take(w.random(uint64(keys)))
			}
		})
		reportCPU(b, start)
	})
}

// TestRowsDecide checks that every row measures what its name says: hits that
// pass, or hits that are denied.
func TestRowsDecide(t *testing.T) {
	const keys = 1000
	for _, s := range systems() {
		if s.name == loopSystem.name {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			table := s.open(t, keys)
			fill(table, keys)
			w := newKeyWriter(1)
			allowed := 0
			for range 100 * keys {
				if table.take(w.random(keys)) {
					allowed++
				}
			}
			if want := 100 * keys; !s.denied && allowed != want {
				t.Errorf("allowed %d hits, want all %d", allowed, want)
			}
			if s.denied && allowed > 10*keys {
				t.Errorf("allowed %d hits, want at most a tenth of %d", allowed, 100*keys)
			}
		})
	}
}
