package redisstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// What it costs to tell a store of totals: time, bytes in both directions, and of Redis.
func BenchmarkImport(b *testing.B) {
	for _, keys := range []int{1, 64, 1024} {
		b.Run(fmt.Sprintf("totals=%d", keys), func(b *testing.B) {
			server := testserver.Redis(b, testserver.RedisConfig{})
			way := testserver.NewProxy(b, server.Addr)
			s := openURL(b, "redis://"+way.Addr)
			l := limit.Must(limit.PerHour(1_000_000_000))
			totals, results := make([]store.Total, keys), make([]store.Result, keys)
			for i := range totals {
				totals[i] = store.Total{Key: fmt.Appendf(nil, "api.account=%d", i), Limit: l, Column: store.Column{1, byte(i), byte(i >> 8)}, Keep: time.Hour}
			}
			tell := func() {
				for i := range totals {
					totals[i].Heard = totals[i].Now
					totals[i].Now.Hits += 100
				}
				s.Import(context.Background(), totals, results)
				for i := range results {
					if results[i].Err != nil {
						b.Fatal(results[i].Err)
					}
				}
			}
			tell()
			before := way.Stats()
			b.ResetTimer()
			for range b.N {
				tell()
			}
			b.StopTimer()
			after, told := way.Stats(), float64(b.N)*float64(keys)
			b.ReportMetric(float64(after.Up-before.Up)/told, "B-up/total")
			b.ReportMetric(float64(after.Down-before.Down)/told, "B-down/total")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/told, "ns/total")
		})
	}
}
