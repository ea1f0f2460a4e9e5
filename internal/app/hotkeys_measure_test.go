package app

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/config"
	cond "github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
)

const measuredRules = `
domain: d
descriptors:
- {key: plenty, rate_limit: {unit: minute, requests_per_unit: 1000000}}
- {key: short, rate_limit: {unit: minute, requests_per_unit: 100000}}
- {key: second, rate_limit: {unit: second, requests_per_unit: 1000}}
- {key: exact, consistency: exact, rate_limit: {unit: minute, requests_per_unit: 1000000}}
- {key: denied, rate_limit: {unit: day, requests_per_unit: 10, algorithm: fixed_window, time_zone: UTC}}
- {key: other, rate_limit: {unit: minute, requests_per_unit: 1000}}
`

// measured is three nodes on one real Redis.
type measured struct {
	t     *testing.T
	redis *testserver.RedisServer
	nodes []*headgate.Limiter
}

func measureNodes(t *testing.T) *measured {
	if os.Getenv("HEADGATE_HOTKEYS") != "measure" {
		t.Skip("HEADGATE_HOTKEYS=measure measures")
	}
	m := &measured{t: t, redis: testserver.Redis(t, testserver.RedisConfig{})}
	stacks := make([]*stack, 3)
	for i := range stacks {
		k := openTestStack(t, config.Settings{Store: config.NewStoreURL(m.redis.URL()), DenialMemory: 1 << 16, DenialTime: 2 * time.Second})
		k.join(quiet())
		m.nodes, stacks[i] = append(m.nodes, limiterOver(t, k, measuredRules)), k
	}
	for _, k := range stacks {
		cond.True(t, "all nodes know how many they are", func() bool { return k.fleet.Stats().Live == len(stacks) })
	}
	return m
}

var measuredCalls = regexp.MustCompile(`cmdstat_(?:evalsha|eval):calls=(\d+)`)

func (m *measured) calls() (total int) {
	for _, found := range measuredCalls.FindAllStringSubmatch(m.redis.MustDo("INFO", "commandstats").(string), -1) {
		n, _ := strconv.Atoi(found[1])
		total += n
	}
	return total
}

// stream is what is asked of a key, or of many, so often a second.
type stream struct {
	key, values string
	many        int
	rate        float64
}

// run asks by the streams for a time, and returns of each how long decisions took and how
// many passed.
func (m *measured) run(length time.Duration, streams ...stream) (took [][]time.Duration, passed []int) {
	const workers = 16 // of each node and stream
	took, passed = make([][]time.Duration, len(streams)), make([]int, len(streams))
	var mu sync.Mutex
	var all sync.WaitGroup
	for i, s := range streams {
		gap := time.Duration(float64(time.Second) / s.rate * float64(workers*len(m.nodes)))
		for _, node := range m.nodes {
			for range workers {
				all.Go(func() {
					mine, through := make([]time.Duration, 0, 1024), 0
					next, end := time.Now().Add(rand.N(gap)), time.Now().Add(length)
					for ; next.Before(end); next = next.Add(gap) {
						time.Sleep(time.Until(next))
						value := s.values
						if s.many > 0 {
							value = strconv.Itoa(rand.IntN(s.many))
						}
						requests := []headgate.Request{{Domain: "d", Descriptors: []headgate.Descriptor{{Entries: []descriptor.Entry{{Key: s.key, Value: value}}, Hits: 1}}}}
						responses := make([]headgate.Response, 1)
						began := time.Now()
						if err := node.Check(m.t.Context(), requests, responses); err != nil {
							m.t.Error(err)
							return
						}
						mine = append(mine, time.Since(began))
						if responses[0].Allowed {
							through++
						}
					}
					mu.Lock()
					took[i] = append(took[i], mine...)
					passed[i] += through
					mu.Unlock()
				})
			}
		}
	}
	all.Wait()
	return took, passed
}

func quantile(took []time.Duration, q float64) time.Duration {
	slices.Sort(took)
	if len(took) == 0 {
		return 0
	}
	return took[min(int(q*float64(len(took))), len(took)-1)]
}

// TestMeasureHotKeys prints what docs/hot-keys.md says was measured:
//
//	HEADGATE_HOTKEYS=measure go test ./internal/app -run MeasureHotKeys -v
func TestMeasureHotKeys(t *testing.T) {
	m := measureNodes(t)
	idle := m.calls()
	time.Sleep(10 * time.Second)
	perSecond := float64(m.calls()-idle) / 10
	fmt.Printf("idle: %.1f script calls per second of three nodes\n", perSecond)
	const length = 15 * time.Second
	for _, key := range []string{"exact", "plenty", "short", "second", "denied"} {
		hot := stream{key: key, values: "hot", rate: 5000}
		m.run(3*time.Second, hot)
		before := m.calls()
		took, passed := m.run(length, hot)
		calls := float64(m.calls()-before) - perSecond*length.Seconds()
		fmt.Printf("%-7s %6d asks, %6d pass, %7.0f calls: %.3f per 100 asks, p50 %v, p99 %v\n", key, len(took[0]), passed[0], calls, 100*calls/float64(len(took[0])), quantile(took[0], 0.5), quantile(took[0], 0.99))
	}
}

// TestMeasureOthers prints how long decisions on 10,000 other keys take beside a tenth of
// the load more of such keys, beside a key with that tenth, and beside one of 5,000 a
// second, in turn.
//
//	HEADGATE_HOTKEYS=measure go test ./internal/app -run MeasureOthers -v
func TestMeasureOthers(t *testing.T) {
	const rounds, others = 24, 2700
	m := measureNodes(t)
	rates, quantiles := []float64{0, others / 9.0, 5000}, []float64{0.5, 0.9, 0.99}
	found := make([][][]time.Duration, len(rates))
	for i := range found {
		found[i] = make([][]time.Duration, len(quantiles))
	}
	for round := range rounds {
		for k := range rates {
			i := (k + round) % len(rates)
			streams := []stream{{key: "other", many: 10_000, rate: others}}
			if rates[i] > 0 {
				streams = append(streams, stream{key: "plenty", values: "hot", rate: rates[i]})
			} else {
				streams = append(streams, stream{key: "other", many: 10_000, rate: others / 9.0})
			}
			took, _ := m.run(time.Second, streams...)
			for j, q := range quantiles {
				found[i][j] = append(found[i][j], quantile(took[0], q))
			}
		}
	}
	for i, rate := range rates {
		fmt.Printf("others at %d/s beside a key at %4.0f/s:", others, rate)
		for j, q := range quantiles {
			fmt.Printf(" p%g %v (quarters %v, %v)", 100*q, quantile(found[i][j], 0.5), quantile(found[i][j], 0.25), quantile(found[i][j], 0.75))
		}
		fmt.Println()
	}
}
