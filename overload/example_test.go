package overload_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	"github.com/headgate/headgate/overload"
)

// shedding puts a gate before a handler, as package httpshed does it more
// carefully.
func shedding(next http.Handler, classifier *overload.Classifier, gate *overload.Gate) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		priority := classifier.Priority(overload.Asked{Method: r.Method, Path: r.URL.Path, Header: r.Header.Get("X-Priority")})
		ticket, d := gate.Admit(priority, time.Now())
		if !d.Admitted() {
			refuse(w, d)
			return
		}
		outcome := overload.Ignored // also after a panic, whose latency says nothing
		defer func() { gate.Done(ticket, outcome, time.Now()) }()
		next.ServeHTTP(w, r)
		if r.Context().Err() == nil {
			outcome = overload.Served
		}
	})
}

func refuse(w http.ResponseWriter, d overload.Decision) {
	w.Header().Set("Retry-After", strconv.FormatInt(d.RetryAfterSeconds(), 10))
	w.Header().Set("Cache-Control", "no-store")
	http.Error(w, "overloaded", overload.Status)
}

// A handler with both shedders before it, in a fleet that is over its capacity
// with reads and test traffic.
func Example() {
	classifier, err := overload.NewClassifier(overload.ClassifierOptions{
		Paths: []overload.PathPriority{{Method: "POST", Pattern: "/v1/charges", Priority: overload.P0}},
	})
	if err != nil {
		panic(err)
	}
	start := time.Now().Add(-time.Minute)
	fleet, err := overload.NewFleet(overload.FleetOptions{
		Usage: func() overload.Usage { return overload.Usage{Used: 1500, Capacity: 1000} },
	}, start)
	if err != nil {
		panic(err)
	}
	worker, err := overload.New(overload.Options{MaxInFlight: 500, MaxCritical: 100}, start)
	if err != nil {
		panic(err)
	}
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "done") })
	handler := shedding(api, classifier, overload.NewGate(fleet, worker))

	for i := range 100 { // ten seconds of what others asked
		fleet.Admit(overload.P2, start.Add(time.Duration(i)*100*time.Millisecond))
		fleet.Admit(overload.P3, start.Add(time.Duration(i)*100*time.Millisecond))
	}
	test := httptest.NewRequest("POST", "/v1/orders", nil)
	test.Header.Set("X-Priority", "test")
	for _, request := range []*http.Request{
		httptest.NewRequest("POST", "/v1/charges", nil),
		httptest.NewRequest("POST", "/v1/orders", nil),
		test,
	} {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		fmt.Println(request.Method, request.URL.Path, answer.Code, answer.Header().Get("Retry-After") != "")
	}
	// Output:
	// POST /v1/charges 200 false
	// POST /v1/orders 200 false
	// POST /v1/orders 503 true
}

// A priority by rule, path, method and header.
func ExampleClassifier() {
	classifier, err := overload.NewClassifier(overload.ClassifierOptions{
		Paths: []overload.PathPriority{{Method: "POST", Pattern: "/v1/charges/{id}/capture", Priority: overload.P0}},
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(classifier.Priority(overload.Asked{Method: "GET", Path: "/v1/charges"}))
	fmt.Println(classifier.Priority(overload.Asked{Method: "POST", Path: "/v1/charges/42/capture"}))
	fmt.Println(classifier.Priority(overload.Asked{Method: "POST", Path: "/v1/refunds", Header: "critical"}))
	fmt.Println(classifier.Priority(overload.Asked{Method: "POST", Path: "/v1/refunds", Header: "test"}))
	fmt.Println(classifier.Priority(overload.Asked{Method: "GET", Path: "/v1/refunds", Rule: "critical"}))
	// Output:
	// P2
	// P0
	// P1
	// P3
	// P0
}
