package telemetry

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
)

// usual is the response that is most common: two limits, both allow.
func usual(set *rules.Set) headgate.Response {
	r := set.Rules()
	verdict := func(r *rules.Rule) headgate.Verdict {
		return headgate.Verdict{Rule: r, Limit: r.Limits[0].Limit, Hits: 1, Decision: limit.Decision{Allowed: true, Limit: 100, Remaining: 60}}
	}
	return headgate.Response{Allowed: true, DomainKnown: true, Verdicts: []headgate.Verdict{verdict(r[0]), verdict(r[1])}}
}

// BenchmarkObserve is the cost of a decision's metrics; with -cpu 1,2 it shows what
// processors cost each other.
func BenchmarkObserve(b *testing.B) {
	for _, c := range []struct {
		name string
		resp func(*rules.Set) headgate.Response
	}{{"allowed", usual}, {"denied", response}} {
		b.Run(c.name, func(b *testing.B) {
			m := New(Build{}, Options{})
			set := load(b, twoRules)
			m.RulesInForce(set, time.Now())
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				request, resp := &headgate.Request{Domain: "d"}, c.resp(set)
				took := time.Duration(0)
				for pb.Next() {
					took = (took + 37*time.Nanosecond) & (1<<16 - 1)
					m.Decided(request, &resp, took)
				}
			})
		})
	}
}
