package memcachestore

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
)

// BenchmarkTake is one hit of many callers: on keys of their own, on one key that
// all charge, and on one key that denies all; in one process, or in what memcached
// sees as several.
func BenchmarkTake(b *testing.B) {
	wide := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: limit.MaxQuota, Period: 300 * 24 * time.Hour})
	none := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 0, Period: time.Hour})
	for _, bb := range []struct {
		name  string
		keys  int64
		limit *limit.Limit
		nodes int64
	}{
		{"100000 keys", 100_000, wide, 1},
		{"one key", 1, wide, 1},
		{"one key of 2 nodes", 1, wide, 2},
		{"one key of 4 nodes", 1, wide, 4},
		{"one key denied", 1, none, 1},
	} {
		b.Run(bb.name, func(b *testing.B) {
			first, servers := openMemcached(b, 1)
			stores := []*Store{first}
			for range bb.nodes - 1 {
				stores = append(stores, open(b, Options{Servers: []string{servers[0].Addr}}))
			}
			var number atomic.Int64
			b.SetParallelism(16)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					n := number.Add(1)
					if r := takeOne(stores[n%bb.nodes], fmt.Sprint(n*7919%bb.keys), bb.limit, 1); r.Err != nil {
						b.Error(r.Err)
						return
					}
				}
			})
			var conflicts uint64
			for _, s := range stores {
				conflicts += s.Stats().Conflicts
			}
			b.ReportMetric(float64(conflicts)/float64(b.N), "conflicts/op")
		})
	}
}
