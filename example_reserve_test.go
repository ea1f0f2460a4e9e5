package headgate_test

import (
	"context"
	"fmt"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/reservation"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/store/memstore"
)

// An answer of a language model costs what it turns out to cost.
func ExampleLimiter_Reserve() {
	set, err := rulefile.Load([]rulefile.File{{Name: "llm.yaml", Data: []byte(`
domain: llm
descriptors:
- {key: user, rate_limit: {window: 366d, requests_per_unit: 1000, algorithm: fixed_window}}
`)}}, rulefile.Options{})
	if err != nil {
		panic(err)
	}
	buckets, err := memstore.New(memstore.Options{})
	if err != nil {
		panic(err)
	}
	defer buckets.Close()
	limiter, err := headgate.New(headgate.Options{Store: buckets, Rules: set})
	if err != nil {
		panic(err)
	}
	request := headgate.Request{Domain: "llm", Descriptors: []headgate.Descriptor{{
		Entries: []descriptor.Entry{{Key: "user", Value: "42"}}, Hits: 400,
	}}}
	ctx := context.Background()
	var resp headgate.Response
	r, err := limiter.Reserve(ctx, &request, reservation.Options{ID: "chat-1"}, &resp)
	fmt.Println(resp.Allowed, resp.Speaker().Decision.Remaining, err)

	outcome, err := limiter.Commit(ctx, r, reservation.Actual{Hits: []int64{250}}, &resp)
	fmt.Println(outcome, resp.Speaker().Decision.Remaining, err)

	outcome, err = limiter.Cancel(ctx, r, &resp) // too late
	fmt.Println(outcome, resp.Speaker().Decision.Remaining, err)
	// Output:
	// true 600 <nil>
	// settled 750 <nil>
	// settled_before 750 <nil>
}
