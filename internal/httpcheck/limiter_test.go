package httpcheck_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/httpcheck"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
)

const ruleFile = `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 5, name: five}
  - key: pair
    limits:
      - {requests_per_unit: 2, unit: second}
      - {requests_per_unit: 10, unit: hour}
  - key: bytes
    cost: {from: content_length}
    rate_limit: {unit: minute, requests_per_unit: 1000}
  - key: shadow
    shadow_mode: true
    rate_limit: {unit: minute, requests_per_unit: 0}
  - key: free
    rate_limit: {unlimited: true}
  - key: login
    sensitive: true
    rate_limit: {unit: minute, requests_per_unit: 5}
`

// brokenStore answers nothing.
type brokenStore struct{}

func (brokenStore) Take(_ context.Context, _ []store.Take, results []store.Result) {
	for i := range results {
		results[i] = store.Result{Err: &store.Error{Op: "take", Store: "test", Reason: store.Unavailable}}
	}
}

func (brokenStore) Close() error { return nil }

// panickyStore has a bug.
type panickyStore struct{ brokenStore }

func (panickyStore) Take(context.Context, []store.Take, []store.Result) { panic("a bug") }

func serve(t *testing.T, s store.Store) http.Handler {
	t.Helper()
	set, err := rulefile.Load([]rulefile.File{{Name: "api.yaml", Data: []byte(ruleFile)}}, rulefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := headgate.New(headgate.Options{Store: s, Rules: set})
	if err != nil {
		t.Fatal(err)
	}
	h, err := httpcheck.NewHandler(httpcheck.Options{Checker: limiter})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// memory is a store whose clock stands at noon of a day, on the edge of a
// window.
func memory(t *testing.T) store.Store {
	t.Helper()
	noon := limit.MicrosOf(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	s, err := memstore.New(memstore.Options{Now: func() limit.Micros { return noon }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

type answer struct {
	status int
	header http.Header

	Allowed      bool
	Limit        *int64
	Remaining    *int64
	ResetMS      *int64 `json:"reset_ms"`
	RetryAfterS  *int64 `json:"retry_after_s"`
	Rule         string
	Degraded     string
	Name         string
	WindowS      int64 `json:"window_s"`
	DelayMS      int64 `json:"delay_ms"`
	Role         string
	Hold         *held
	Soft         []map[string]any
	Results      []answer
	Detail, Hint string
}

// held is what an answer says of a hold.
type held struct {
	ID            string
	RenewWithinMS int64 `json:"renew_within_ms"`
}

func ask(t testing.TB, h http.Handler, body string) answer {
	t.Helper()
	return post(t, h, "/v1/check", body)
}

func post(t testing.TB, h http.Handler, path, body string) answer {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
	a := answer{status: w.Code, header: w.Header()}
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		t.Fatalf("%s: %v", w.Body, err)
	}
	return a
}

// field returns a header field by the very spelling in which it was set.
func field(h http.Header, name string) string { return strings.Join(h[name], ", ") }

// is returns the number behind p, or -1 where there is none.
func is(p *int64) int64 {
	if p == nil {
		return -1
	}
	return *p
}

func TestByRules(t *testing.T) {
	h := serve(t, memory(t))
	one := func(key, rest string) string {
		return `{"domain":"api","descriptors":[{"entries":[{"key":"` + key + `","value":"a"}]` + rest + `}]}`
	}
	steps := []struct {
		name, body              string
		status                  int
		limit, remaining, retry int64
		rule                    string
	}{
		{"first", one("user", ""), 200, 5, 4, 0, "five"},
		{"peek", one("user", `,"hits":0`), 200, 5, 4, 0, "five"},
		{"three more", one("user", `,"hits":3`), 200, 5, 1, 0, "five"},
		{"too many", one("user", `,"hits":2`), 429, 5, 1, 75, "five"},
		{"the last", one("user", ""), 200, 5, 0, 0, "five"},
		{"over", one("user", ""), 429, 5, 0, 72, "five"},
		{"never", one("user", `,"hits":6`), 429, 5, 0, -1, "five"},
		{"refund", one("user", `,"hits":-2`), 200, 5, 2, 0, "five"},
		{"reset", one("user", `,"op":"reset"`), 200, 5, 5, 0, "five"},
		{"unlimited", one("free", ""), 200, -1, -1, 0, "api.free"},
		{"shadow", one("shadow", ""), 200, -1, -1, 0, ""},
		{"no rule", one("nobody", ""), 200, -1, -1, 0, ""},
		{"no such domain", `{"domain":"other","descriptors":[{"entries":[{"key":"user","value":"a"}]}]}`, 200, -1, -1, 0, ""},
	}
	for _, s := range steps {
		a := ask(t, h, s.body)
		if a.status != s.status || is(a.Limit) != s.limit || is(a.Remaining) != s.remaining || is(a.RetryAfterS) != s.retry || a.Rule != s.rule || a.Degraded != "" {
			t.Errorf("%s: status %d limit %d remaining %d retry_after_s %d rule %q degraded %q, want %+v",
				s.name, a.status, is(a.Limit), is(a.Remaining), is(a.RetryAfterS), a.Rule, a.Degraded, s)
		}
		if (a.header.Get("Retry-After") != "") != (s.retry > 0) {
			t.Errorf("%s: Retry-After %q", s.name, a.header.Get("Retry-After"))
		}
	}
}

func TestCostFromAttributes(t *testing.T) {
	h := serve(t, memory(t))
	a := ask(t, h, `{"domain":"api","descriptors":[{"entries":[{"key":"bytes","value":"a"}]}],"attributes":{"content_length":"400"}}`)
	if a.status != 200 || is(a.Remaining) != 600 {
		t.Errorf("status %d, remaining %d, want 600", a.status, is(a.Remaining))
	}
}

// TestSeveralLimits: each limit of a rule is a policy with a name of its own.
func TestSeveralLimits(t *testing.T) {
	h := serve(t, memory(t))
	a := ask(t, h, `{"domain":"api","descriptors":[{"entries":[{"key":"pair","value":"a"}]}]}`)
	if want := `"api.pair/1s";q=2;w=1, "api.pair/1h";q=10;w=3600`; field(a.header, "RateLimit-Policy") != want {
		t.Errorf("RateLimit-Policy %s, want %s", field(a.header, "RateLimit-Policy"), want)
	}
	if want := `"api.pair/1s";r=1`; !strings.HasPrefix(field(a.header, "RateLimit"), want) {
		t.Errorf("RateLimit %s, want %s", field(a.header, "RateLimit"), want)
	}
}

func TestByCaller(t *testing.T) {
	h := serve(t, memory(t))
	body := func(key string, quota, window int) string {
		return fmt.Sprintf(`{"key":"%s","limit":%d,"window_ms":%d}`, key, quota, window)
	}
	for i := range 10 {
		if a := ask(t, h, body("k", 10, 60000)); a.status != 200 || is(a.Remaining) != int64(9-i) {
			t.Fatalf("hit %d: status %d, remaining %d", i, a.status, is(a.Remaining))
		}
	}
	if a := ask(t, h, body("k", 10, 60000)); a.status != 429 || a.Allowed {
		t.Errorf("hit 11: status %d", a.status)
	}
	// Braces, separators and another key do not reach the same bucket; another
	// window stands beside it; another limit goes on with its counts.
	for _, key := range []string{"K", "k,", "{k}", "k:window_ms", "k\\u0000"} {
		if a := ask(t, h, body(key, 10, 60000)); is(a.Remaining) != 9 {
			t.Errorf("key %q: remaining %d, want 9", key, is(a.Remaining))
		}
	}
	if a := ask(t, h, body("k", 10, 1000)); is(a.Remaining) != 9 {
		t.Errorf("another window: remaining %d, want 9", is(a.Remaining))
	}
	if a := ask(t, h, body("k", 20, 60000)); is(a.Remaining) != 9 {
		t.Errorf("another limit: remaining %d, want 9", is(a.Remaining))
	}
	// A rule's bucket of the same name is another one.
	if a := ask(t, h, body("a", 5, 60000)); is(a.Remaining) != 4 {
		t.Errorf("key a: remaining %d, want 4", is(a.Remaining))
	}
}

func TestBatchInOrder(t *testing.T) {
	h := serve(t, memory(t))
	const one = `{"key":"k","limit":3,"window_ms":60000}`
	a := ask(t, h, `{"checks":[`+strings.Repeat(one+",", 4)+one+`]}`)
	if a.status != 200 || len(a.Results) != 5 {
		t.Fatalf("status %d, %d results", a.status, len(a.Results))
	}
	for i, r := range a.Results {
		if r.Allowed != (i < 3) || is(r.Remaining) != int64(max(2-i, 0)) {
			t.Errorf("result %d: allowed %v, remaining %d", i, r.Allowed, is(r.Remaining))
		}
	}
}

// TestRefusedChargesNothing: a batch with a malformed check changes no bucket.
func TestRefusedChargesNothing(t *testing.T) {
	h := serve(t, memory(t))
	const good = `{"key":"k","limit":3,"window_ms":60000}`
	for _, bad := range []string{
		`{"domain":"","descriptors":[{"entries":[{"key":"user","value":"a"}]}]}`,
		`{"domain":"api","descriptors":[]}`,
		`{"domain":"api","descriptors":[{"entries":[{"key":"","value":"a"}]}]}`,
		`{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"` + strings.Repeat("v", 1<<19) + `"}]}]}`,
	} {
		a := ask(t, h, `{"checks":[`+good+`,`+bad+`]}`)
		if a.status != 400 || a.Detail == "" {
			t.Errorf("%.80s: status %d %q", bad, a.status, a.Detail)
		}
	}
	if a := ask(t, h, good); is(a.Remaining) != 2 {
		t.Errorf("remaining %d after refusals, want 2", is(a.Remaining))
	}
}

// TestStoreFails: open is 200 without counts, closed is 503 and not 429, and a
// panic below is the same as a failing store.
func TestStoreFails(t *testing.T) {
	for name, s := range map[string]store.Store{"broken": brokenStore{}, "panicky": panickyStore{}} {
		h := serve(t, s)
		open := ask(t, h, `{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"a"}]}]}`)
		if open.status != 200 || !open.Allowed || open.Degraded == "" || open.Remaining != nil || open.ResetMS != nil || field(open.header, "RateLimit") != "" || field(open.header, "X-RateLimit-Remaining") != "" {
			t.Errorf("%s, open: %+v", name, open)
		}
		closed := ask(t, h, `{"domain":"api","descriptors":[{"entries":[{"key":"login","value":"a"}]}]}`)
		if closed.status != 503 || closed.Allowed || closed.Degraded == "" || closed.header.Get("Retry-After") == "" || closed.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s, closed: %+v", name, closed)
		}
	}
}

// TestManyAtOnce: over a real listener, exactly the limit passes.
func TestManyAtOnce(t *testing.T) {
	server := httptest.NewServer(serve(t, memory(t)))
	defer server.Close()
	const quota, callers, each = 50, 8, 20
	var admitted atomic.Int64
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			for range each {
				resp, err := server.Client().Post(server.URL+"/v1/check", "application/json",
					strings.NewReader(fmt.Sprintf(`{"key":"k","limit":%d,"window_ms":3600000}`, quota)))
				if err != nil {
					t.Error(err)
					return
				}
				resp.Body.Close()
				if resp.StatusCode == 200 {
					admitted.Add(1)
				}
			}
		})
	}
	group.Wait()
	if n := admitted.Load(); n != quota {
		t.Errorf("%d admitted, want %d", n, quota)
	}
}

// FuzzCheck: whatever the body, the server answers in JSON and never with 5xx.
func FuzzCheck(f *testing.F) {
	for _, seed := range []string{
		`{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"42"}],"hits":1}],"attributes":{"content_length":"9"}}`,
		`{"key":"user:42","limit":100,"window_ms":60000,"hits":1,"algorithm":"gcra","burst":20}`,
		`{"checks":[{"key":"k","limit":1,"window_ms":1},{"domain":"api","descriptors":[{"descriptor":"bytes:b","op":"reset"}]}]}`,
		`{"key":"k","limit":1125899906842624,"window_ms":1,"hits":-1125899906842624}`,
		`{"key":"k","limit":7,"window_ms":31622400000,"algorithm":"leaky_queue","hits":3}`,
		`{"key":"k","limit":2,"window_ms":60000,"algorithm":"concurrency","hold":true}`,
		`{"checks":[{"domain":"api","descriptors":[{"descriptor":"user:u","op":"renew","hits":5}],"hold":"a"}]}`,
		`{"domain":"api","descriptors":[{"descriptor":"user:u"}],"hold":"a","in_flight_ms":12}`,
		"{\"key\":\"\xff\"}", ``,
	} {
		f.Add(seed)
	}
	var handlers sync.Map // one per worker process
	f.Fuzz(func(t *testing.T, body string) {
		stored, ok := handlers.Load("")
		if !ok {
			s, err := memstore.New(memstore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			stored, _ = handlers.LoadOrStore("", serve(t, s))
		}
		for _, path := range []string{"/v1/check", "/v1/renew", "/v1/release"} {
			a := post(t, stored.(http.Handler), path, body)
			if a.status >= 500 {
				t.Fatalf("%s: status %d: %q", path, a.status, body)
			}
			if a.Allowed && a.status != 200 {
				t.Fatalf("%s: status %d, allowed: %q", path, a.status, body)
			}
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	s, err := memstore.New(memstore.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	limiter, err := headgate.New(headgate.Options{Store: s})
	if err != nil {
		b.Fatal(err)
	}
	h, err := httpcheck.NewHandler(httpcheck.Options{Checker: limiter})
	if err != nil {
		b.Fatal(err)
	}
	const body = `{"key":"user:42:GET:/v1/charges","limit":1000000000,"window_ms":60000,"hits":1}`
	b.ReportAllocs()
	for b.Loop() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/check", strings.NewReader(body)))
		if w.Code != http.StatusOK {
			b.Fatal(w.Body)
		}
	}
}
