package telemetry

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/trace"
	"github.com/headgate/headgate/verdict"
)

const cardinalityRules = `domain: d
descriptors:
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 1}}
  - key: route
    value: "/v1/*"
    rate_limit: {unit: minute, requests_per_unit: 5, algorithm: token_bucket}
    descriptors:
      - {key: ip, rate_limit: {unit: second, requests_per_unit: 1}}
`

// TestK1NoKeyMakesASeries decides a million requests of random domains, keys, values, limits
// and traces (fewer under the race detector), by rules that do not ask for values of requests in
// the names of metrics: what is scraped has the size that it had before.
func TestK1NoKeyMakesASeries(t *testing.T) {
	m := New(Build{}, Options{EnvoyNames: true, PlainNames: true, Exemplars: true})
	set := testrules.Load(t, cardinalityRules)
	buckets, err := memstore.New(memstore.Options{MaxBytes: 32 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer buckets.Close()
	m.RulesInForce(set, time.Now())
	limiter, err := headgate.New(headgate.Options{Store: buckets, Rules: set, Observer: m})
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	word := func() string { return fmt.Sprintf("%x", random.Uint64()) }
	caller := limit.Must(limit.PerMinute(3))
	requests, responses := make([]headgate.Request, 100), make([]headgate.Response, 100)
	decide := func(times int) {
		for range times {
			for i := range requests {
				requests[i] = randomRequest(random, word, caller)
			}
			if err := limiter.Check(context.Background(), requests, responses); err != nil {
				t.Fatal(err)
			}
		}
	}
	size := func() int { return len(exposition(t, m, openMetrics)) }
	decide(100) // now every outcome has been seen
	before := size()
	batches := 10_000
	if raceEnabled {
		batches /= 20
	}
	decide(batches)
	if after := size(); after != before {
		t.Errorf("%d lines after a million requests, %d before", after, before)
	}
	total := m.stripes.total()
	sum := uint64(0)
	for _, n := range total.requests {
		sum += n
	}
	if sum != uint64(100+batches)*100 || total.requests[verdict.Denied] == 0 || total.requests[verdict.Allowed] == 0 || total.requests[verdict.UnknownDomain] == 0 || total.requests[verdict.Unmatched] == 0 {
		t.Errorf("%d requests, by outcome %v", sum, total.requests)
	}
}

// randomRequest is one that matches a rule, names its own limit, or is unknown.
func randomRequest(random *rand.Rand, word func() string, caller *limit.Limit) headgate.Request {
	req := headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{{Hits: int64(random.IntN(3))}}}
	d := &req.Descriptors[0]
	switch random.IntN(6) {
	case 0:
		d.Entries = []descriptor.Entry{{Key: "user", Value: word()}}
	case 1, 2:
		d.Entries = []descriptor.Entry{{Key: "route", Value: "/v1/" + word()}, {Key: "ip", Value: word()}}
	case 3:
		d.Entries, d.Limit = []descriptor.Entry{{Key: word(), Value: word()}}, caller
	case 4:
		d.Entries = []descriptor.Entry{{Key: word(), Value: word()}}
	default:
		req.Domain, d.Entries = word(), []descriptor.Entry{{Key: "user", Value: word()}}
	}
	req.Origin.UserAgent = word()
	if random.IntN(10) == 0 {
		req.Origin.Trace = trace.Parent{ID: [16]byte{0: byte(random.Uint32()), 15: 1}, Sampled: true}
	}
	return req
}
