package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
)

// exampleNow is a whole minute, so that windows begin with the test.
var exampleNow = time.Unix(1_706_000_040, 0)

// newLimiter decides by rules (none when text is empty) at exampleNow.
func newLimiter(t testing.TB, text string) *headgate.Limiter {
	t.Helper()
	buckets, err := memstore.New(memstore.Options{
		MaxBytes: 1 << 20,
		Now:      func() limit.Micros { return limit.MicrosOf(exampleNow) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return limiterOver(t, buckets, text)
}

func limiterOver(t testing.TB, buckets store.Store, text string) *headgate.Limiter {
	t.Helper()
	var set *rules.Set
	if text != "" {
		var err error
		if set, err = rulefile.Load([]rulefile.File{{Name: "test.yaml", Data: []byte(text)}}, rulefile.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	l, err := headgate.New(headgate.Options{Store: buckets, Rules: set})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func newMiddleware(t testing.TB, c httplimit.Checker, o httplimit.Options) *httplimit.Middleware {
	t.Helper()
	if o.Now == nil {
		o.Now = func() time.Time { return exampleNow }
	}
	m, err := httplimit.New(c, o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// perMinute is a middleware without rules.
func perMinute(t testing.TB, quota int64, o httplimit.Options) *httplimit.Middleware {
	t.Helper()
	o.Limits = []rules.NamedLimit{{Limit: limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: quota, Period: time.Minute})}}
	return newMiddleware(t, newLimiter(t, ""), o)
}

// status answers every request with a status.
func status(code int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
}

func newRequest(method, target string, header ...string) *http.Request {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

// ask serves one request and returns the answer.
func ask(h http.Handler, r *http.Request) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// failing is a remote checker that cannot be reached.
type failing struct{ err error }

func (f failing) Check(context.Context, []headgate.Request, []headgate.Response) error { return f.err }

func TestDeniesAtTheLimitForEachAddress(t *testing.T) {
	m := perMinute(t, 2, httplimit.Options{})
	h := m.Wrap(status(http.StatusNoContent))
	for i, want := range []int{204, 204, 429, 429} {
		if got := ask(h, newRequest("GET", "/")).StatusCode; got != want {
			t.Errorf("request %d: status %d, want %d", i, got, want)
		}
	}
	other := newRequest("GET", "/")
	other.RemoteAddr = "198.51.100.7:1"
	if got := ask(h, other).StatusCode; got != 204 {
		t.Errorf("another address: status %d, want 204", got)
	}
	if s := m.Stats(); s.Allowed != 3 || s.Denied != 2 {
		t.Errorf("stats %+v, want 3 allowed and 2 denied", s)
	}
}

func TestDenialIsNotStoredAndSaysWhenToReturn(t *testing.T) {
	h := perMinute(t, 0, httplimit.Options{}).Wrap(status(200))
	r := ask(h, newRequest("GET", "/"))
	if got := r.Header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control %q, want no-store", got)
	}
	h = perMinute(t, 1, httplimit.Options{Answer: httplimit.Answer{Jitter: httplimit.ExactRetry}}).Wrap(status(200))
	ask(h, newRequest("GET", "/"))
	if got := ask(h, newRequest("GET", "/")).Header.Get("Retry-After"); got != "60" {
		t.Errorf("Retry-After %q, want 60", got)
	}
}

func TestHeadIsDeniedWithoutBody(t *testing.T) {
	h := perMinute(t, 1, httplimit.Options{}).Wrap(status(200))
	ask(h, newRequest("HEAD", "/"))
	r := ask(h, newRequest("HEAD", "/"))
	if r.StatusCode != 429 || body(t, r) != "" || r.Header.Get("Content-Type") != "application/json" {
		t.Errorf("status %d, Content-Type %q, body %q; want 429, application/json and no body", r.StatusCode, r.Header.Get("Content-Type"), body(t, r))
	}
	if r := ask(h, newRequest("GET", "/")); body(t, r) == "" {
		t.Error("the denial of GET has no body")
	}
}

func TestSkips(t *testing.T) {
	o := httplimit.Options{
		SkipPaths:   []string{"/healthz", "/static/", "/"},
		SkipMethods: []string{"TRACE"},
		Skip:        func(r *http.Request) bool { return r.Header.Get("X-Internal") != "" },
	}
	preflight := []string{"Origin", "https://a.example", "Access-Control-Request-Method", "POST"}
	cases := []struct {
		name    string
		request *http.Request
		skipped bool
	}{
		{"path", newRequest("GET", "/healthz"), true},
		{"root alone", newRequest("GET", "/"), true},
		{"below", newRequest("GET", "/static/a/b.css"), true},
		{"the folder", newRequest("GET", "/static/"), true},
		{"a longer name", newRequest("GET", "/healthz2"), false},
		{"folder without slash", newRequest("GET", "/static"), false},
		{"out of the folder", newRequest("GET", "/static/../admin"), false},
		{"out of the folder, escaped", newRequest("GET", "/static/%2e%2e/admin"), false},
		{"out of the folder, escaped slash", newRequest("GET", "/static/..%2fadmin"), false},
		{"empty element", newRequest("GET", "/static//admin"), false},
		{"method", newRequest("TRACE", "/x"), true},
		{"function", newRequest("GET", "/x", "X-Internal", "1"), true},
		{"preflight", newRequest("OPTIONS", "/x", preflight...), true},
		{"options", newRequest("OPTIONS", "/x", "Origin", "https://a.example"), false},
		{"get with the fields of a preflight", newRequest("GET", "/x", preflight...), false},
	}
	for _, c := range cases {
		m := perMinute(t, 1, o)
		r := ask(m.Wrap(status(200)), c.request)
		if got := r.Header.Get("RateLimit") == ""; got != c.skipped || (m.Stats().Skipped == 1) != c.skipped {
			t.Errorf("%s: skipped is %v, want %v; stats %+v", c.name, got, c.skipped, m.Stats())
		}
	}
	m := perMinute(t, 0, httplimit.Options{CountPreflight: true})
	if got := ask(m.Wrap(status(200)), newRequest("OPTIONS", "/x", preflight...)).StatusCode; got != 429 {
		t.Errorf("a preflight that is counted: status %d, want 429", got)
	}
}

func TestHandlersOwnFieldsStand(t *testing.T) {
	own := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("RateLimit", `"mine";r=7`)
		w.Header().Del("X-RateLimit-Reset")
		spelled := "X-RateLimit-Limit" // as no net/http does
		w.Header()[spelled] = []string{"7"}
		_, _ = io.WriteString(w, "ok")
	})
	r := ask(perMinute(t, 5, httplimit.Options{}).Wrap(own), newRequest("GET", "/"))
	if got := r.Header.Values("RateLimit"); len(got) != 1 || got[0] != `"mine";r=7` {
		t.Errorf("RateLimit %q, want the handler's alone", got)
	}
	if got := r.Header.Values("X-RateLimit-Reset"); len(got) != 0 {
		t.Errorf("X-RateLimit-Reset %q, want none: the handler deleted it", got)
	}
	for _, o := range []httplimit.Options{{Override: true}, {Override: true, Answer: httplimit.Answer{Generation: httplimit.Draft7}}} {
		r = ask(perMinute(t, 5, o).Wrap(own), newRequest("GET", "/"))
		if got := r.Header.Values("RateLimit"); len(got) != 1 || strings.Contains(got[0], "mine") {
			t.Errorf("with Override: RateLimit %q, want ours alone", got)
		}
		var limits []string
		for name, values := range r.Header {
			if strings.EqualFold(name, "X-RateLimit-Limit") {
				limits = append(limits, values...)
			}
		}
		if len(limits) != 1 || limits[0] != "5" {
			t.Errorf("with Override: X-RateLimit-Limit %q, want ours alone", limits)
		}
	}
}

func TestOverrideOfAnEmptyAnswerAndOfInformational(t *testing.T) {
	m := perMinute(t, 5, httplimit.Options{Override: true})
	server := httptest.NewServer(m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("RateLimit", `"mine";r=7`)
	})))
	defer server.Close()
	r, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if got := r.Header.Get("RateLimit"); r.StatusCode != 200 || strings.Contains(got, "mine") {
		t.Errorf("status %d, RateLimit %q; want 200 and ours", r.StatusCode, got)
	}
}

func TestCustomDenial(t *testing.T) {
	var seen httplimit.Result
	o := httplimit.Options{Answer: httplimit.Answer{Jitter: httplimit.ExactRetry}, Denied: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen, _ = httplimit.FromContext(r.Context())
		w.WriteHeader(seen.Status)
		_, _ = io.WriteString(w, "slow down")
	})}
	h := perMinute(t, 1, o).Wrap(status(200))
	ask(h, newRequest("GET", "/"))
	r := ask(h, newRequest("GET", "/"))
	if r.StatusCode != 429 || body(t, r) != "slow down" || r.Header.Get("Retry-After") != "60" {
		t.Errorf("status %d, Retry-After %q; want 429, 60 and the handler's body", r.StatusCode, r.Header.Get("Retry-After"))
	}
	if seen.RetryAfter != time.Minute || seen.Limit != 1 || !seen.Counted || seen.Code != "RATE_LIMITED" {
		t.Errorf("the handler was told %+v", seen)
	}
}

type ownKey struct{}

func TestResultInContext(t *testing.T) {
	var got httplimit.Result
	var found bool
	inner := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		got, found = httplimit.FromContext(context.WithValue(ctx, ownKey{}, "v"))
	})
	m := newMiddleware(t, newLimiter(t, "domain: api\ndescriptors: [{key: remote_address, rate_limit: {name: each, unit: minute, requests_per_unit: 5}}]"),
		httplimit.Options{Domain: "api", PassResult: true})
	ask(m.Wrap(inner), newRequest("GET", "/"))
	if !found || got.Status != 200 || got.Remaining != 4 || got.Limit != 5 || got.Rule != "each" && got.Rule != "api.remote_address" {
		t.Errorf("found %v, %+v", found, got)
	}
	if ask(perMinute(t, 5, httplimit.Options{}).Wrap(inner), newRequest("GET", "/")); found {
		t.Error("a Result is passed though nobody asked")
	}
	if _, found := httplimit.FromContext(t.Context()); found {
		t.Error("a context without a decision has one")
	}
}

// TestPriorityOfAResult: of several rules the one that is shed first counts.
func TestPriorityOfAResult(t *testing.T) {
	limiter := newLimiter(t, `
domain: api
descriptors:
  - {key: a, priority: critical, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: b, priority: test, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: c, rate_limit: {unit: minute, requests_per_unit: 5}}
`)
	for keys, want := range map[string]string{"a": "p0", "a b": "p3", "b a": "p3", "c": "", "c a": "p0"} {
		m := newMiddleware(t, limiter, httplimit.Options{Domain: "api", PassResult: true, Identify: func(_ *http.Request, s *httplimit.Subject) error {
			for key := range strings.FieldsSeq(keys) {
				s.AddHits(0, descriptorEntry(key, "1"))
			}
			return nil
		}})
		ask(m.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if got, _ := httplimit.FromContext(r.Context()); got.Priority != want {
				t.Errorf("%s: priority %q, want %q", keys, got.Priority, want)
			}
		})), newRequest("GET", "/"))
	}
}

func TestCheckerFailure(t *testing.T) {
	down := failing{&store.Error{Op: "check", Store: "remote", Reason: store.Timeout}}
	cases := []struct {
		name       string
		err        error
		failClosed bool
		status     int
		degraded   store.Reason
	}{
		{"open", down.err, false, 200, store.Timeout},
		{"closed", down.err, true, 503, store.Timeout},
		{"unknown error", errors.New("connection refused"), true, 503, store.Unavailable},
		{"deadline", context.DeadlineExceeded, true, 503, store.Timeout},
	}
	for _, c := range cases {
		var told httplimit.Result
		handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { told, _ = httplimit.FromContext(r.Context()) })
		var heard error
		m := newMiddleware(t, failing{c.err}, httplimit.Options{
			Domain: "api", FailClosed: c.failClosed, PassResult: true,
			OnError: func(_ *http.Request, err error) { heard = err },
		})
		r := ask(m.Wrap(handler), newRequest("GET", "/"))
		if !errors.Is(heard, c.err) {
			t.Errorf("%s: OnError was told %v", c.name, heard)
		}
		if r.StatusCode != c.status {
			t.Errorf("%s: status %d, want %d", c.name, r.StatusCode, c.status)
		}
		if c.status == 503 && (r.Header.Get("Retry-After") == "" || r.Header.Get("Cache-Control") != "no-store" || !strings.Contains(body(t, r), "SERVICE_UNAVAILABLE")) {
			t.Errorf("%s: header %v", c.name, r.Header)
		}
		if c.status == 200 && told.Degraded != c.degraded {
			t.Errorf("%s: the handler was told %+v", c.name, told)
		}
		if m.Stats().Failed != 1 {
			t.Errorf("%s: stats %+v", c.name, m.Stats())
		}
	}
}

func TestStoreFailureOfAClosedRuleIs503(t *testing.T) {
	l := limiterOver(t, downStore{}, "domain: api\ndescriptors: [{key: remote_address, failure_mode: closed, rate_limit: {unit: minute, requests_per_unit: 5}}]")
	r := ask(newMiddleware(t, l, httplimit.Options{Domain: "api"}).Wrap(status(200)), newRequest("GET", "/"))
	if r.StatusCode != 503 || r.Header.Get("Retry-After") != "1" || r.Header.Get("RateLimit") != "" {
		t.Errorf("status %d, header %v; want 503 with Retry-After 1 and no counts", r.StatusCode, r.Header)
	}
}

// downStore is a store that cannot be reached.
type downStore struct{}

func (downStore) Take(_ context.Context, takes []store.Take, results []store.Result) {
	for i := range takes {
		results[i] = store.Result{Err: &store.Error{Op: "take", Store: "test", Reason: store.Unavailable}}
	}
}

func (downStore) Close() error { return nil }

func TestMalformedRequestIs400(t *testing.T) {
	var told error
	o := httplimit.Options{
		Identify: func(r *http.Request, s *httplimit.Subject) error {
			s.Add(descriptorEntry("name", strings.Repeat("x", 70_000)))
			return nil
		},
		OnError: func(_ *http.Request, err error) { told = err },
	}
	m := perMinute(t, 5, o)
	r := ask(m.Wrap(status(200)), newRequest("GET", "/"))
	if r.StatusCode != 400 || !errors.Is(told, headgate.ErrDescriptor) || m.Stats().Refused != 1 {
		t.Errorf("status %d, told %v, stats %+v", r.StatusCode, told, m.Stats())
	}
}

func TestNothingToLimitOnPasses(t *testing.T) {
	m := perMinute(t, 0, httplimit.Options{Identify: func(*http.Request, *httplimit.Subject) error { return nil }})
	if got := ask(m.Wrap(status(200)), newRequest("GET", "/")).StatusCode; got != 200 || m.Stats().Skipped != 1 {
		t.Errorf("status %d, stats %+v", got, m.Stats())
	}
}

func TestHitsAndAttributes(t *testing.T) {
	m := perMinute(t, 10, httplimit.Options{Hits: func(r *http.Request) int64 {
		n := int64(-5)
		if v := r.Header.Get("X-Cost"); v != "" {
			_, _ = fmt.Sscan(v, &n)
		}
		return n
	}})
	for _, c := range []struct{ cost, remaining string }{{"4", "6"}, {"", "6"}, {"6", "0"}} {
		if got := ask(m.Wrap(status(200)), newRequest("GET", "/", "X-Cost", c.cost)).Header.Get("X-RateLimit-Remaining"); got != c.remaining {
			t.Errorf("cost %q: remaining %s, want %s", c.cost, got, c.remaining)
		}
	}
	byLength := newLimiter(t, `
domain: api
descriptors:
  - key: remote_address
    cost: {from: "content_length", max: 1000}
    rate_limit: {unit: minute, requests_per_unit: 1000}
`)
	m = newMiddleware(t, byLength, httplimit.Options{Domain: "api", Attributes: []string{"content_length", "header:x-cost"}})
	r := httptest.NewRequest("POST", "/", strings.NewReader(strings.Repeat("x", 300)))
	if got := ask(m.Wrap(status(200)), r).Header.Get("X-RateLimit-Remaining"); got != "700" {
		t.Errorf("remaining %s after 300 bytes of 1000, want 700", got)
	}
	twice := newRequest("GET", "/", "X-Cost", "1", "X-Cost", "900")
	if got := ask(m.Wrap(status(200)), twice).StatusCode; got != 400 {
		t.Errorf("two costs: status %d, want 400", got)
	}
}

func TestAnswerByRule(t *testing.T) {
	l := newLimiter(t, `
domain: api
descriptors:
  - {key: path, value: /a, name: rule-a, rate_limit: {unit: minute, requests_per_unit: 0}}
  - {key: path, rate_limit: {unit: minute, requests_per_unit: 0}}
`)
	m := newMiddleware(t, l, httplimit.Options{
		Domain: "api",
		Identify: func(r *http.Request, s *httplimit.Subject) error {
			s.Add(descriptorEntry("path", r.URL.Path))
			return nil
		},
		AnswerByRule: map[string]httplimit.Answer{"rule-a": {Generation: httplimit.Draft6, Body: httplimit.Problem}},
	})
	a, b := ask(m.Wrap(status(200)), newRequest("GET", "/a")), ask(m.Wrap(status(200)), newRequest("GET", "/b"))
	if got := a.Header.Get("Content-Type"); got != "application/problem+json" || a.Header.Get("RateLimit-Limit") == "" {
		t.Errorf("rule-a: %v", a.Header)
	}
	if got := b.Header.Get("Content-Type"); got != "application/json" || b.Header.Get("RateLimit") == "" {
		t.Errorf("the other: %v", b.Header)
	}
}

func TestExposesFieldsToOtherOrigins(t *testing.T) {
	m := perMinute(t, 1, httplimit.Options{ExposeHeaders: true})
	for _, want := range []string{
		"RateLimit-Policy, RateLimit, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset",
		// What a script may read in any case is not listed: Cache-Control, Content-Type.
		"RateLimit-Policy, RateLimit, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, Retry-After",
	} {
		r := ask(m.Wrap(status(200)), newRequest("GET", "/", "Origin", "https://a.example"))
		if got := r.Header.Get("Access-Control-Expose-Headers"); got != want {
			t.Errorf("%d exposes %q, want %q", r.StatusCode, got, want)
		}
	}
	if got := ask(m.Wrap(status(200)), newRequest("GET", "/")).Header.Get("Access-Control-Expose-Headers"); got != "" {
		t.Errorf("without an origin: %q", got)
	}
}

func TestNewRefuses(t *testing.T) {
	l := newLimiter(t, "")
	minute := rules.NamedLimit{Limit: limit.Must(limit.PerMinute(1))}
	cases := []struct {
		name    string
		checker httplimit.Checker
		options httplimit.Options
	}{
		{"no checker", nil, httplimit.Options{Domain: "api"}},
		{"no domain", l, httplimit.Options{}},
		{"both", l, httplimit.Options{Domain: "api", Limits: []rules.NamedLimit{minute}}},
		{"one window twice", l, httplimit.Options{Limits: []rules.NamedLimit{minute, minute}}},
		{"nil limit", l, httplimit.Options{Limits: []rules.NamedLimit{{}}}},
		{"jitter", l, httplimit.Options{Domain: "api", Answer: httplimit.Answer{Jitter: 2}}},
		{"jitter of a rule", l, httplimit.Options{Domain: "api", AnswerByRule: map[string]httplimit.Answer{"r": {Jitter: -2}}}},
		{"attribute", l, httplimit.Options{Domain: "api", Attributes: []string{"claim:plan"}}},
		{"attribute without a name", l, httplimit.Options{Domain: "api", Attributes: []string{"header:x cost"}}},
		{"MaxWaiting -1;", l, httplimit.Options{Domain: "api", MaxWaiting: -1}},
		{"MaxRefunds -1;", l, httplimit.Options{Domain: "api", MaxRefunds: -1}},
		{"RefundTimeout -1s;", l, httplimit.Options{Domain: "api", RefundTimeout: -time.Second}},
		{`SkipPaths: "healthz"`, l, httplimit.Options{Domain: "api", SkipPaths: []string{"/static/", "healthz"}}},
		{`SkipPaths: "/a//"`, l, httplimit.Options{Domain: "api", SkipPaths: []string{"/a//"}}},
		{`SkipMethods: "get"`, l, httplimit.Options{Domain: "api", SkipMethods: []string{"HEAD", "get"}}},
		{`SkipMethods: ""`, l, httplimit.Options{Domain: "api", SkipMethods: []string{""}}},
	}
	for _, c := range cases {
		if _, err := httplimit.New(c.checker, c.options); err == nil || !strings.HasPrefix(err.Error(), "new middleware: ") ||
			strings.ContainsAny(c.name, `";`) && !strings.HasPrefix(err.Error(), "new middleware: "+c.name) {
			t.Errorf("%s: error %v", c.name, err)
		}
	}
}

// A crowd is spread unless somebody says that it is not: the zero value lengthens retry
// times by up to a tenth.
func TestJitterIsOnByDefault(t *testing.T) {
	for name, test := range map[string]struct {
		answer httplimit.Answer
		want   string
	}{
		"by default": {httplimit.Answer{}, "66"},
		"a half":     {httplimit.Answer{Jitter: 0.5}, "90"},
		"exact":      {httplimit.Answer{Jitter: httplimit.ExactRetry}, "60"},
	} {
		test.answer.Random = func() float64 { return 1 }
		h := perMinute(t, 1, httplimit.Options{Answer: test.answer}).Wrap(status(200))
		ask(h, newRequest("GET", "/"))
		if got := ask(h, newRequest("GET", "/")).Header.Get("Retry-After"); got != test.want {
			t.Errorf("%s: Retry-After %s, want %s", name, got, test.want)
		}
	}
}

// TestInnerOverrides: of two middlewares that override the fields of a backend, the inner one
// speaks, allowed and denied.
func TestInnerOverrides(t *testing.T) {
	o := httplimit.Options{Override: true}
	outer, inner := perMinute(t, 9, o), perMinute(t, 1, o)
	h := outer.Wrap(inner.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Add("X-RateLimit-Limit", "77")
	})))
	for _, want := range []int{200, 429} {
		resp := ask(h, newRequest("GET", "/"))
		if got := resp.Header.Values("X-RateLimit-Limit"); resp.StatusCode != want || len(got) != 1 || got[0] != "1" {
			t.Errorf("%d, X-RateLimit-Limit %q, want %d of 1", resp.StatusCode, got, want)
		}
	}
}
