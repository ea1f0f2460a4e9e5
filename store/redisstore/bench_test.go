package redisstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore/conn"
)

// costs are what has been used so far, in microseconds.
type costs struct{ client, redis, script float64 }

func costsOf(b *testing.B, s *Store) costs {
	var script float64
	for _, m := range regexp.MustCompile(`cmdstat_evalsha:calls=\d+,usec=(\d+)`).FindAllStringSubmatch(command(b, s, "INFO", "commandstats"), -1) {
		usec, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			b.Fatal(err)
		}
		script += usec
	}
	return costs{client: ownCPU(b) * 1e6, redis: redisCPU(b, s) * 1e6, script: script}
}

// report reports what each operation has cost since before: the processor time of
// this process and of Redis, and the part of that in the script.
func (before costs) report(b *testing.B, s *Store, operations int) {
	after, n := costsOf(b, s), float64(operations)
	b.ReportMetric((after.client-before.client)/n, "client-cpu-us/op")
	b.ReportMetric((after.redis-before.redis)/n, "redis-cpu-us/op")
	b.ReportMetric((after.script-before.script)/n, "redis-us/op")
}

// benchLimits are the limits that are measured.
var benchLimits = []struct {
	name  string
	limit *limit.Limit
}{
	{"sliding", limit.Must(limit.PerHour(1_000_000))},
	{"fixed", limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 1_000_000, Period: time.Hour})},
	{"gcra", limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 1_000_000, Period: time.Hour})},
	{"leaky", limit.Must(limit.Spec{Algorithm: limit.LeakyBucket, Quota: 1_000_000, Period: time.Hour})},
	{"denied", limit.Must(limit.PerMinute(0))},
}

// BenchmarkTake measures takes from as many goroutines as are common, joined and
// not: of 100,000 keys, of one, and of three keys that are all or nothing (a group
// of its own for each of 30,000 callers, and one for all). Redis works on the same
// cores.
func BenchmarkTake(b *testing.B) {
	const keys = 100_000
	l := benchLimits[0].limit
	for _, load := range []struct {
		name string
		fill func(takes []store.Take, random *rand.Rand)
		size int
	}{
		{"keys=many", func(t []store.Take, random *rand.Rand) { nameTakes(t, random.IntN(keys)) }, 1},
		{"keys=one", func(t []store.Take, _ *rand.Rand) { nameTakes(t, 0) }, 1},
		{"groups=many", func(t []store.Take, random *rand.Rand) { nameTakes(t, random.IntN(keys/3)) }, 3},
		{"groups=one", func(t []store.Take, _ *rand.Rand) { nameTakes(t, 0) }, 3},
	} {
		for _, alone := range []bool{true, false} {
			b.Run(fmt.Sprintf("%s/joined=%v", load.name, !alone), func(b *testing.B) {
				server := testserver.Redis(b, testserver.RedisConfig{})
				s := open(b, Options{Addr: server.Addr, NoCoalescing: alone})
				var worker atomic.Uint64
				before := costsOf(b, s)
				b.ReportAllocs()
				b.SetParallelism(64)
				b.RunParallel(func(pb *testing.PB) {
					random := rand.New(rand.NewPCG(worker.Add(1), 3))
					takes, results := make([]store.Take, load.size), make([]store.Result, load.size)
					for i := range takes {
						takes[i] = store.Take{Limit: l, Hits: 1, Group: uint32(load.size / 3)}
					}
					for pb.Next() {
						load.fill(takes, random)
						s.Take(context.Background(), takes, results)
						if results[0].Err != nil {
							b.Error(results[0].Err)
						}
					}
				})
				before.report(b, s, b.N)
			})
		}
	}
}

// nameTakes gives takes the keys of one caller.
func nameTakes(takes []store.Take, caller int) {
	for i := range takes {
		takes[i].Key = fmt.Appendf(takes[i].Key[:0], "key %d of %d", i, caller)
	}
}

// BenchmarkScript measures full calls of one algorithm: what one take of 100,000
// keys costs at saturation, whoever joins them.
func BenchmarkScript(b *testing.B) {
	for _, l := range benchLimits {
		for _, size := range []int{1, maxKeys} {
			b.Run(fmt.Sprintf("%s/takes=%d", l.name, size), func(b *testing.B) {
				server := testserver.Redis(b, testserver.RedisConfig{})
				s := open(b, Options{Addr: server.Addr, NoCoalescing: true})
				var worker atomic.Uint64
				before := costsOf(b, s)
				b.SetParallelism(4)
				b.RunParallel(func(pb *testing.PB) {
					random := rand.New(rand.NewPCG(worker.Add(1), 3))
					takes, results := make([]store.Take, size), make([]store.Result, size)
					for i := range takes {
						takes[i] = store.Take{Limit: l.limit, Hits: 1}
					}
					for pb.Next() {
						for i := range takes {
							takes[i].Key = fmt.Appendf(takes[i].Key[:0], "key %d", random.IntN(100_000))
						}
						s.Take(context.Background(), takes, results)
						if results[0].Err != nil {
							b.Error(results[0].Err)
						}
					}
				})
				before.report(b, s, b.N*size)
			})
		}
	}
}

// BenchmarkHolds measures the taking and the releasing of one slot of buckets in
// which so many are in use. A call has one take, or as many as go into one.
func BenchmarkHolds(b *testing.B) {
	for _, c := range []struct{ used, size int }{{0, 1}, {20, 1}, {100, 1}, {1000, 1}, {limit.MaxConcurrency - 1, 1}, {0, maxKeys}, {20, maxKeys}} {
		b.Run(fmt.Sprintf("used=%d/takes=%d", c.used, c.size), func(b *testing.B) {
			server := testserver.Redis(b, testserver.RedisConfig{})
			s := open(b, Options{Addr: server.Addr, NoCoalescing: true})
			l := limit.Must(limit.Spec{Algorithm: limit.Concurrency, Quota: int64(c.used + 1), Period: time.Hour})
			random := rand.New(rand.NewPCG(4, 4))
			takes, results := make([]store.Take, c.size), make([]store.Result, c.size)
			for i := range takes {
				takes[i] = store.Take{Key: fmt.Append(nil, i), Limit: l, Hits: 1}
			}
			take := func(op store.Op) {
				for i := range takes {
					if takes[i].Op = op; op == store.Hit {
						takes[i].Hold = 1 + limit.Hold(random.Int64N(limit.MaxHold))
					}
				}
				if s.Take(context.Background(), takes, results); results[0].Err != nil || !results[0].Allowed {
					b.Fatalf("op %d: %+v", op, results[0])
				}
			}
			for range c.used {
				take(store.Hit)
			}
			before := costsOf(b, s)
			for b.Loop() {
				take(store.Hit)
				take(store.Release)
			}
			before.report(b, s, 2*b.N*c.size)
		})
	}
}

// BenchmarkBan measures hits that ask whether there is a ban, on buckets of which
// nothing is known, with denials counted and with a ban, beside hits on a plain
// counter that pass. A call has one take, or as many as go into one.
func BenchmarkBan(b *testing.B) {
	l := limit.Must(limit.Spec{Algorithm: limit.Ban, Quota: 3, Period: time.Hour, BanFor: time.Hour})
	for _, c := range []struct {
		name    string
		limit   *limit.Limit
		denials int64
	}{{"unused", l, 0}, {"counted", l, 2}, {"banned", l, 3}, {"sliding", benchLimits[0].limit, 0}} {
		for _, size := range []int{1, maxKeys} {
			b.Run(fmt.Sprintf("%s/takes=%d", c.name, size), func(b *testing.B) {
				server := testserver.Redis(b, testserver.RedisConfig{})
				s := open(b, Options{Addr: server.Addr, NoCoalescing: true})
				takes, results := make([]store.Take, size), make([]store.Result, size)
				for i := range takes {
					takes[i] = store.Take{Key: fmt.Append(nil, i), Limit: c.limit, Hits: c.denials, Op: store.Charge}
				}
				s.Take(b.Context(), takes, results)
				for i := range takes {
					takes[i].Hits, takes[i].Op = 1, store.Hit
				}
				before := costsOf(b, s)
				for b.Loop() {
					if s.Take(b.Context(), takes, results); results[0].Err != nil {
						b.Fatal(results[0].Err)
					}
				}
				before.report(b, s, b.N*size)
			})
		}
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
		r.encode(conn.DefaultPrefix, header{deadline: 1_763_666_315_123_456, number: 7}, takes)
	}
}
