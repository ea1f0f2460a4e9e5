package headgate_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
)

// BenchmarkF2Check is what an id costs a check: none, one that is new, and one that
// repeats another. On Redis store-us is what its commands take, in microseconds.
func BenchmarkF2Check(b *testing.B) {
	server := testserver.Redis(b, testserver.RedisConfig{})
	for name, open := range map[string]func() store.Store{
		"memory": func() store.Store {
			s, err := memstore.New(memstore.Options{MaxBytes: 4 << 30})
			if err != nil {
				b.Fatal(err)
			}
			return s
		},
		"redis": func() store.Store { return openRedis(b, server.URL()) },
	} {
		for _, kind := range []string{"none", "new", "repeated"} {
			b.Run(name+"/"+kind, func(b *testing.B) {
				l, err := headgate.New(headgate.Options{Store: open(), Rules: load(b, onceRules)})
				if err != nil {
					b.Fatal(err)
				}
				requests := []headgate.Request{{Domain: "d", Descriptors: []headgate.Descriptor{on("queue:" + kind), on("user:" + kind)}}}
				responses := make([]headgate.Response, 1)
				ids := []string{""}
				server.MustDo("CONFIG", "RESETSTAT")
				b.ReportAllocs()
				b.ResetTimer()
				for i := range b.N {
					switch kind {
					case "new":
						ids[0] = strconv.Itoa(i)
					case "repeated":
						ids[0] = "1"
					}
					if err := l.CheckOnce(b.Context(), requests, ids, responses); err != nil {
						b.Fatal(err)
					}
				}
				b.StopTimer()
				if name == "redis" {
					_, usec, _ := strings.Cut(fmt.Sprint(server.MustDo("INFO", "commandstats")), "cmdstat_evalsha:calls=")
					_, usec, _ = strings.Cut(usec, "usec=")
					usec, _, _ = strings.Cut(usec, ",")
					if n, err := strconv.ParseFloat(usec, 64); err == nil {
						b.ReportMetric(n/float64(b.N), "store-us/op")
					}
				}
			})
		}
	}
}
