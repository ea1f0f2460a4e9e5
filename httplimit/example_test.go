package httplimit_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/store/memstore"
)

// Limit by rules, on the API key where there is one and else on the address.
func Example() {
	set, err := rulefile.Load([]rulefile.File{{Name: "api.yaml", Data: []byte(`
domain: api
descriptors:
  - key: api_key
    rate_limit: {name: with-key, unit: hour, requests_per_unit: 5000}
  - key: remote_address
    rate_limit: {name: without-key, unit: hour, requests_per_unit: 60}
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
	byKey, err := httplimit.SecretHeader{Header: "X-Api-Key", Pepper: []byte("from a secret store")}.Identify()
	if err != nil {
		log.Fatal(err)
	}
	limits, err := httplimit.New(limiter, httplimit.Options{
		Domain:     "api",
		Identify:   httplimit.First(byKey, httplimit.RemoteAddress),
		SkipPaths:  []string{"/healthz"},
		Refund:     func(status int) bool { return status >= 500 },
		PassResult: true,
	})
	if err != nil {
		log.Fatal(err)
	}
	api := limits.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		result, _ := httplimit.FromContext(r.Context())
		fmt.Fprintln(w, "remaining:", result.Remaining)
	}))
	for _, key := range []string{"k-1", ""} {
		r := httptest.NewRequest("GET", "/orders", nil)
		if key != "" {
			r.Header.Set("X-Api-Key", key)
		}
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		fmt.Print(w.Header().Get("RateLimit-Policy"), " ", w.Body)
	}
	// Output:
	// "with-key";q=5000;w=3600 remaining: 4999
	// "without-key";q=60;w=3600 remaining: 59
}

// The last guard inside a backend needs no rules and no store.
func ExampleGuard() {
	guard, err := httplimit.Guard(limit.PerSecond(20), limit.PerMinute(2))
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	handler := guard.Wrap(mux)
	for range 3 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		fmt.Println(w.Code)
	}
	// Output:
	// 200
	// 200
	// 429
}

// An Identify of your own says what the application knows: the route of its
// router, the user of its session.
func ExampleEntries() {
	identify := httplimit.Entries(func(r *http.Request) ([]descriptor.Entry, error) {
		user, _, ok := r.BasicAuth()
		if !ok {
			return nil, httplimit.ErrUnidentified
		}
		return []descriptor.Entry{
			{Key: "user", Value: user},
			{Key: "endpoint", Value: r.Method + " " + r.Pattern},
		}, nil
	})
	guard, err := httplimit.New(newExampleLimiter(), httplimit.Options{
		Limits:    []rules.NamedLimit{{Limit: limit.Must(limit.PerMinute(1)), Name: "per-endpoint"}},
		Identify:  identify,
		Challenge: `Basic realm="orders"`,
	})
	if err != nil {
		log.Fatal(err)
	}
	ok := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	mux := http.NewServeMux()
	mux.Handle("GET /orders/{id}", guard.Wrap(ok)) // inside of the mux, so that the pattern is known
	for _, user := range []string{"", "ada", "ada", "bob"} {
		r := httptest.NewRequest("GET", "/orders/7", nil)
		if user != "" {
			r.SetBasicAuth(user, "secret")
		}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		fmt.Println(w.Code)
	}
	// Output:
	// 401
	// 200
	// 429
	// 200
}

func newExampleLimiter() *headgate.Limiter {
	buckets, err := memstore.New(memstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	limiter, err := headgate.New(headgate.Options{Store: buckets})
	if err != nil {
		log.Fatal(err)
	}
	return limiter
}
