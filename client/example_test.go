package client_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/client"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/httpcheck"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/store/memstore"
)

// Keep to the limits of an API, and see when that takes time.
func ExampleTransport() {
	refusals := 1
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if refusals--; refusals == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer api.Close()
	transport := &client.Transport{
		MaxWait: 10 * time.Second,
		// Reads and writes have budgets of their own there.
		Partition: func(r *http.Request) string {
			if r.Method == http.MethodGet {
				return "read"
			}
			return "write"
		},
		Observe: func(e client.Event) { fmt.Println(e.Kind, e.Status) },
	}
	c := &http.Client{Transport: transport, Timeout: time.Minute}
	defer c.CloseIdleConnections()
	resp, err := c.Get(api.URL)
	if err != nil {
		log.Fatal(err)
	}
	resp.Body.Close()
	fmt.Println(resp.Status)
	// Output:
	// retried 503
	// 200 OK
}

// Ask a Headgate in place of deciding in this process: a Checker stands where a
// headgate.Limiter stood.
func ExampleChecker() {
	address, stop := startHeadgate()
	defer stop()

	// limiter, err := headgate.New(headgate.Options{...})
	limiter, err := client.NewChecker(client.CheckerOptions{URL: address, Budget: time.Second, Failure: rules.Open})
	if err != nil {
		log.Fatal(err)
	}
	defer limiter.Close()
	requests := []headgate.Request{{
		Domain:      "shop",
		Descriptors: []headgate.Descriptor{{Entries: []descriptor.Entry{{Key: "user", Value: "42"}}, Hits: 1}},
	}}
	responses := make([]headgate.Response, 1)
	for range 2 {
		if err := limiter.Check(context.Background(), requests, responses); err != nil {
			log.Fatal(err) // a malformed request
		}
		v := responses[0].Speaker()
		fmt.Println(responses[0].Allowed, v.Rule.ID, v.Decision.Remaining)
	}
	// Output:
	// true shop.user 0
	// false shop.user 0
}

// startHeadgate stands for `headgate serve`.
func startHeadgate() (address string, stop func()) {
	set, err := rulefile.Load([]rulefile.File{{Name: "shop.yaml", Data: []byte(`
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 1}
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
	handler, err := httpcheck.NewHandler(httpcheck.Options{Checker: limiter})
	if err != nil {
		log.Fatal(err)
	}
	server := httptest.NewServer(handler)
	return server.URL, server.Close
}
