package httpshed_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/headgate/headgate/overload"
	"github.com/headgate/headgate/overload/fleetusage"
	"github.com/headgate/headgate/overload/httpshed"
	"github.com/headgate/headgate/store/memstore"
)

// Both shedders before a handler. In place of the memory store stands one that
// the nodes of the fleet share.
func Example() {
	buckets, err := memstore.New(memstore.Options{})
	if err != nil {
		panic(err)
	}
	defer buckets.Close()
	usage, err := fleetusage.New(fleetusage.Options{Store: buckets, Capacity: 20_000})
	if err != nil {
		panic(err)
	}
	fleet, err := overload.NewFleet(overload.FleetOptions{Usage: usage.Usage}, time.Now())
	if err != nil {
		panic(err)
	}
	worker, err := overload.New(overload.Options{MaxInFlight: 500, MaxCritical: 100}, time.Now())
	if err != nil {
		panic(err)
	}
	classifier, err := overload.NewClassifier(overload.ClassifierOptions{
		Paths: []overload.PathPriority{{Method: "POST", Pattern: "/v1/charges", Priority: overload.P0}},
	})
	if err != nil {
		panic(err)
	}
	gate := overload.NewGate(fleet, worker)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go usage.Run(ctx, gate.TotalAdmitted)

	shed, err := httpshed.New(httpshed.Options{Gate: gate, Classifier: classifier, Header: "X-Priority"})
	if err != nil {
		panic(err)
	}
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "done") })
	handler := shed.Wrap(api) // and limits.Wrap around it, where there are limits

	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest("POST", "/v1/charges", nil))
	fmt.Println(answer.Code, answer.Body, gate.Stats().Admitted)
	// Output: 200 done [1 0 0 0]
}

// What a client hears that was shed.
func Example_refused() {
	worker, err := overload.New(overload.Options{MaxInFlight: 1, MaxCritical: 1}, time.Now())
	if err != nil {
		panic(err)
	}
	shed, err := httpshed.New(httpshed.Options{Gate: overload.NewGate(nil, worker)})
	if err != nil {
		panic(err)
	}
	handler := shed.Wrap(http.NotFoundHandler())
	worker.Admit(overload.P0, time.Now()) // all that it may have in flight

	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest("GET", "/v1/orders", nil))
	fmt.Println(answer.Code, answer.Header().Get("Cache-Control"), answer.Header().Get("Content-Type"))
	// Output: 503 no-store application/problem+json
}
