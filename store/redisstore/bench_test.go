package redisstore

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// BenchmarkTake measures calls of one, three and ten buckets, from as many
// goroutines as are common. Redis works on the same cores.
func BenchmarkTake(b *testing.B) {
	s, _ := openRedis(b)
	l := limit.Must(limit.PerMinute(1_000_000))
	for _, buckets := range []int{1, 3, 10} {
		b.Run(fmt.Sprintf("buckets=%d", buckets), func(b *testing.B) {
			var worker atomic.Int64
			own, redis := ownCPU(b), redisCPU(b, s)
			b.ReportAllocs()
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) {
				id := worker.Add(1)
				takes := make([]store.Take, buckets)
				for i := range takes {
					takes[i] = store.Take{Key: fmt.Appendf(nil, "key %d of %d", i, id), Limit: l, Hits: 1}
				}
				results := make([]store.Result, buckets)
				for pb.Next() {
					s.Take(context.Background(), takes, results)
					if results[0].Err != nil {
						b.Error(results[0].Err)
					}
				}
			})
			b.ReportMetric((ownCPU(b)-own)*1e6/float64(b.N), "client-cpu-us/op")
			b.ReportMetric((redisCPU(b, s)-redis)*1e6/float64(b.N), "redis-cpu-us/op")
		})
	}
}

// ownCPU returns the seconds of processor time that this process has used.
func ownCPU(b *testing.B) float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

// redisCPU returns the seconds of processor time that Redis has used.
func redisCPU(b *testing.B, s *Store) float64 {
	info, total := command(b, s, "INFO", "cpu"), 0.0
	for _, m := range regexp.MustCompile(`used_cpu_(?:user|sys):([0-9.]+)`).FindAllStringSubmatch(info, -1) {
		seconds, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			b.Fatal(err)
		}
		total += seconds
	}
	return total
}

// BenchmarkEncode measures the making of a command.
func BenchmarkEncode(b *testing.B) {
	l := limit.Must(limit.PerMinute(1_000_000))
	takes := []store.Take{{Key: []byte("some key of usual length"), Limit: l, Hits: 1}}
	r := new(request)
	b.ReportAllocs()
	for b.Loop() {
		r.encode(DefaultPrefix, header{deadline: 1_763_666_315_123_456, number: 7}, takes)
	}
}
