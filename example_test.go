package headgate_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store/memstore"
)

// Limit each user to three requests a minute, inside one program.
func Example() {
	buckets, err := memstore.New(memstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	perUser := headgate.NewKeyed(buckets, limit.Must(limit.PerMinute(3)))
	for range 4 {
		d := perUser.Take(context.Background(), "user:42", 1)
		fmt.Println(d.Allowed, d.Remaining)
	}
	// Output:
	// true 2
	// true 1
	// true 0
	// false 0
}

// Decide a request by rules: both the key's limit and the endpoint's count.
func ExampleLimiter_Check() {
	set, err := rules.Load([]rules.File{{Name: "api.yaml", Data: []byte(`
domain: api_platform
match: path
descriptors:
  - key: api_key
    rate_limit: {unit: minute, requests_per_unit: 100, name: per_key}
    descriptors:
      - key: endpoint
        value: POST /api/v1/orders
        rate_limit: {unit: minute, requests_per_unit: 1, name: orders}
`)}}, rules.Options{})
	if err != nil {
		log.Fatal(err)
	}
	buckets, err := memstore.New(memstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	limiter, err := headgate.New(headgate.Options{Store: buckets, Rules: set})
	if err != nil {
		log.Fatal(err)
	}
	requests := []headgate.Request{{
		Domain: "api_platform",
		Descriptors: []headgate.Descriptor{{
			Entries: []descriptor.Entry{
				{Key: "api_key", Value: "abc123"},
				{Key: "endpoint", Value: "POST /api/v1/orders"},
			},
			Hits: 1,
		}},
	}}
	responses := make([]headgate.Response, 1)
	for range 2 {
		if err := limiter.Check(context.Background(), requests, responses); err != nil {
			log.Fatal(err)
		}
		v := responses[0].Decisive(-1)
		fmt.Println(responses[0].Allowed, v.Name, v.Decision.Remaining)
	}
	// Output:
	// true orders 0
	// false orders 0
}

// A queue that shapes tells how long a request must wait for its turn.
func ExampleResponse_Delay() {
	buckets, err := memstore.New(memstore.Options{
		Now: func() limit.Micros { return limit.MicrosOf(time.Unix(1_700_000_000, 0)) },
	})
	if err != nil {
		log.Fatal(err)
	}
	limiter, err := headgate.New(headgate.Options{Store: buckets})
	if err != nil {
		log.Fatal(err)
	}
	queue := limit.Must(limit.Spec{
		Algorithm: limit.LeakyQueue, Quota: 10, Period: time.Second, MaxDelay: 200 * time.Millisecond,
	})
	requests := []headgate.Request{{
		Domain: headgate.CallerDomain,
		Descriptors: []headgate.Descriptor{{
			Entries: []descriptor.Entry{{Key: "job", Value: "export"}}, Hits: 1, Limit: queue,
		}},
	}}
	responses := make([]headgate.Response, 1)
	for range 4 {
		if err := limiter.Check(context.Background(), requests, responses); err != nil {
			log.Fatal(err)
		}
		fmt.Println(responses[0].Allowed, responses[0].Delay())
	}
	// Output:
	// true 0s
	// true 100ms
	// true 200ms
	// false 0s
}
