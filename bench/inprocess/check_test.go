package inprocess

import (
	"context"
	"fmt"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/rules/rulefile"
)

// checkRules has one rule for each descriptor of the requests.
const checkRules = `
domain: bench
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 1000000000}
  - key: address
    rate_limit: {unit: hour, requests_per_unit: 1000000000}
  - key: route
    rate_limit: {unit: hour, requests_per_unit: 1000000000}
`

const (
	// checkKeys is the number of values of each descriptor entry.
	checkKeys = 100_000
	// warmKeys is so few that nothing is out of the processor's cache.
	warmKeys = 64
)

var checkEntryKeys = [...]string{"user", "address", "route"}

// BenchmarkCheck is a whole decision by rules: match, name the buckets, take
// them from the memory store, merge the answers.
func BenchmarkCheck(b *testing.B) { benchmarkDecisions(b, checkKeys) }

// BenchmarkWarm is BenchmarkCheck with warmKeys: what a decision takes beside waiting for
// memory. It is for changes of the engine; run.sh leaves it out.
func BenchmarkWarm(b *testing.B) { benchmarkDecisions(b, warmKeys) }

func benchmarkDecisions(b *testing.B, keys int) {
	values := make([]string, keys)
	for i := range values {
		values[i] = fmt.Sprintf("value-%06d", i)
	}
	set, err := rulefile.Load([]rulefile.File{{Name: "bench.yaml", Data: []byte(checkRules)}}, rulefile.Options{})
	if err != nil {
		b.Fatal(err)
	}
	for _, descriptors := range []int{1, 3} {
		limiter, err := headgate.New(headgate.Options{Store: newMemstore(b, keys), Rules: set})
		if err != nil {
			b.Fatal(err)
		}
		// Once for each value, so that all buckets exist.
		i := -1
		checkLoop(b, limiter, descriptors, headgate.Origin{}, values, func() bool { i++; return i < keys }, func() uint64 { return uint64(i) })
		b.Run(fmt.Sprintf("headgate/sliding_window/descriptors=%d", descriptors), func(b *testing.B) {
			b.ReportAllocs()
			start := cpuTime()
			b.RunParallel(func(pb *testing.PB) {
				w := newKeyWriter(seeds.Add(1) << 32)
				checkLoop(b, limiter, descriptors, headgate.Origin{}, values, pb.Next, func() uint64 { return w.draw(uint64(keys)) })
			})
			reportCPU(b, start)
		})
	}
}

// checkLoop asks while next, about the values that draw names, for who is the origin.
func checkLoop(b *testing.B, limiter *headgate.Limiter, descriptors int, origin headgate.Origin, values []string, next func() bool, draw func() uint64) {
	requests := []headgate.Request{{Domain: "bench", Origin: origin, Descriptors: make([]headgate.Descriptor, descriptors)}}
	for i := range descriptors {
		requests[0].Descriptors[i] = headgate.Descriptor{Hits: 1, Entries: []descriptor.Entry{{Key: checkEntryKeys[i]}}}
	}
	responses := make([]headgate.Response, 1)
	ctx := context.Background()
	for next() {
		for i := range descriptors {
			requests[0].Descriptors[i].Entries[0].Value = values[draw()]
		}
		if err := limiter.Check(ctx, requests, responses); err != nil {
			b.Error(err)
			return
		}
		if !responses[0].Allowed || len(responses[0].Verdicts) != descriptors {
			b.Errorf("allowed %v by %d verdicts, want true by %d", responses[0].Allowed, len(responses[0].Verdicts), descriptors)
			return
		}
	}
}
