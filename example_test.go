package headgate_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules/describe"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/denial"
	"github.com/headgate/headgate/store/fleet"
	"github.com/headgate/headgate/store/lease"
	"github.com/headgate/headgate/store/local"
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
	set, err := rulefile.Load([]rulefile.File{{Name: "api.yaml", Data: []byte(`
domain: api_platform
match: path
descriptors:
  - key: api_key
    rate_limit: {unit: minute, requests_per_unit: 100, name: per_key}
    descriptors:
      - key: endpoint
        value: POST /api/v1/orders
        rate_limit: {unit: minute, requests_per_unit: 1, name: orders}
`)}}, rulefile.Options{})
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
		v := responses[0].Speaker()
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

// limiterOf returns a limiter in memory by the rules of a file.
func limiterOf(file string) *headgate.Limiter {
	set, err := rulefile.Load([]rulefile.File{{Name: "api.yaml", Data: []byte(file)}}, rulefile.Options{})
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
	return limiter
}

// Let each user have one export in flight: hold a slot while it runs, and release
// it when it ends. A holder that runs for long renews before HoldFor is over.
func ExampleRequest_Turn() {
	limiter := limiterOf(`
domain: api
descriptors:
  - key: user
    concurrency: {limit: 1, timeout: 30s}
`)
	request := func() headgate.Request {
		return headgate.Request{
			Domain: "api", Hold: limit.NewHold(),
			Descriptors: []headgate.Descriptor{{Entries: []descriptor.Entry{{Key: "user", Value: "42"}}, Hits: 1}},
		}
	}
	check := func(r *headgate.Request) (resp headgate.Response) {
		responses := make([]headgate.Response, 1)
		if err := limiter.Check(context.Background(), []headgate.Request{*r}, responses); err != nil {
			log.Fatal(err)
		}
		return responses[0]
	}
	first, second := request(), request()
	resp := check(&first)
	fmt.Println("first:", resp.Allowed, resp.Hold != 0, resp.HoldFor)
	fmt.Println("second:", check(&second).Allowed)

	first.Turn(store.Renew, 10*time.Second) // it is still at work after ten seconds
	check(&first)
	first.Turn(store.Release, 5*time.Second) // and ends five seconds later
	check(&first)

	fmt.Println("second:", check(&second).Allowed)
	// Output:
	// first: true true 30s
	// second: false
	// second: true
}

// Have the service do less for whoever has used most of the limit.
func ExampleVerdict_Soft() {
	limiter := limiterOf(`
domain: api
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 4}
    soft_limit: {at: 75%, action: degrade, header: X-Degraded, value: "1"}
`)
	requests := []headgate.Request{{
		Domain:      "api",
		Descriptors: []headgate.Descriptor{{Entries: []descriptor.Entry{{Key: "user", Value: "42"}}, Hits: 1}},
	}}
	responses := make([]headgate.Response, 1)
	for range 4 {
		if err := limiter.Check(context.Background(), requests, responses); err != nil {
			log.Fatal(err)
		}
		v := responses[0].Speaker()
		if soft := v.Soft(); soft != nil {
			fmt.Println(v.Decision.Remaining, "left:", soft.Header, soft.Value)
		} else {
			fmt.Println(v.Decision.Remaining, "left")
		}
	}
	// Output:
	// 3 left
	// 2 left
	// 1 left: X-Degraded 1
	// 0 left: X-Degraded 1
}

// Put the layers over a shared store, so that rules may lease, and let each of
// three nodes go on by a third of the limit when the store is away.
func ExampleOptions_layers() {
	shared, err := memstore.New(memstore.Options{}) // stands for redisstore.New
	if err != nil {
		log.Fatal(err)
	}
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	nodes := fleet.Join(fleet.Options{Roster: shared, Static: 3}) // without Static they count each other
	go nodes.Run(ctx)
	own, err := local.New(local.Options{Nodes: nodes.Live})
	if err != nil {
		log.Fatal(err)
	}
	leases := lease.New(lease.Options{Store: shared, Local: own, Nodes: nodes.Live})
	defer leases.Close() // gives back what is leased
	set, err := rulefile.Load([]rulefile.File{{Name: "api.yaml", Data: []byte(`
domain: api
descriptors:
  - key: tenant
    consistency: leased
    failure_mode: local
    rate_limit: {unit: day, requests_per_unit: 90000}
`)}}, rulefile.Options{})
	if err != nil {
		log.Fatal(err)
	}
	limiter, err := headgate.New(headgate.Options{
		Store:    denial.New(leases, denial.Options{}),
		Fallback: own,
		Rules:    set,
	})
	if err != nil {
		log.Fatal(err)
	}
	requests := []headgate.Request{{
		Domain:      "api",
		Descriptors: []headgate.Descriptor{{Entries: []descriptor.Entry{{Key: "tenant", Value: "acme"}}, Hits: 1}},
	}}
	responses := make([]headgate.Response, 1)
	if err := limiter.Check(ctx, requests, responses); err != nil {
		log.Fatal(err)
	}
	fmt.Println(responses[0].Allowed)
	fmt.Println(describe.Promise(set.Rules()[0], 0))
	// Output:
	// true
	// leased: hits that a node takes in advance count as used until its lease ends, so excess 0
}

// Read rules again, and keep the old ones where the new ones have an error.
func ExampleLimiter_SetRules() {
	buckets, err := memstore.New(memstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	limiter, err := headgate.New(headgate.Options{Store: buckets})
	if err != nil {
		log.Fatal(err)
	}
	reload := func(text string) error {
		set, err := rulefile.Load([]rulefile.File{{Name: "api.yaml", Data: []byte(text)}}, rulefile.Options{})
		if err != nil {
			return err
		}
		for _, w := range set.Warnings() {
			log.Print(w)
		}
		limiter.SetRules(set)
		return nil
	}
	fmt.Println(reload("domain: api\ndescriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 100}}]"))
	fmt.Println(reload("domain: api\ndescriptors: [{key: user, rate_limit: {unit: minuet, requests_per_unit: 50}}]") != nil)
	fmt.Println(limiter.Rules().Rules()[0].Limits[0].Quota)
	// Output:
	// <nil>
	// true
	// 100
}
