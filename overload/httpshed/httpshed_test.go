package httpshed_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/overload"
	"github.com/headgate/headgate/overload/httpshed"
)

func newWorker(t testing.TB, o overload.Options) *overload.Shedder {
	t.Helper()
	s, err := overload.New(o, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newMiddleware(t testing.TB, o httpshed.Options) *httpshed.Middleware {
	t.Helper()
	m, err := httpshed.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// full returns a Shedder with nothing left for anybody, critical requests
// included.
func full(t testing.TB) *overload.Shedder {
	t.Helper()
	s := newWorker(t, overload.Options{MaxInFlight: 1, MaxCritical: 1})
	if _, d := s.Admit(overload.P0, time.Now()); !d.Admitted() {
		t.Fatal("the first request is shed")
	}
	return s
}

func ask(h http.Handler, r *http.Request) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func status(code int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
}

// TestRefusal (J3, J4): who is shed is told 503 and when to come back, by all
// methods and over a real connection, and the handler is not run.
func TestRefusal(t *testing.T) {
	gate := overload.NewGate(nil, full(t))
	m := newMiddleware(t, httpshed.Options{Gate: gate})
	server := httptest.NewServer(m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request that was shed is worked on") })))
	defer server.Close()
	for _, method := range []string{"GET", "HEAD", "POST", "DELETE", "OPTIONS"} {
		r, err := http.NewRequest(method, server.URL+"/v1/orders?key=secret", strings.NewReader("secret"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer secret")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		seconds, err := strconv.Atoi(answer.Header.Get("Retry-After"))
		if answer.StatusCode != 503 || err != nil || seconds < 1 || seconds > 2 {
			t.Errorf("%s: status %d, Retry-After %q; want 503 and 1 or 2", method, answer.StatusCode, answer.Header.Get("Retry-After"))
		}
		if answer.Header.Get("Cache-Control") != "no-store" || answer.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: header %v", method, answer.Header)
		}
		if method == "HEAD" {
			if len(body) > 0 {
				t.Errorf("HEAD: body %q", body)
			}
			continue
		}
		var problem struct {
			Type, Title, Detail string
			Status              int
		}
		if err := json.Unmarshal(body, &problem); err != nil || problem.Status != 503 || !strings.Contains(problem.Detail, "overloaded") ||
			!strings.Contains(problem.Detail, strconv.Itoa(seconds)+" second") || !strings.HasSuffix(problem.Type, "#temporary-reduced-capacity") {
			t.Errorf("%s: body %s (%v)", method, body, err)
		}
		if strings.Contains(string(body), "secret") || len(body) > 256 {
			t.Errorf("%s: body %s", method, body)
		}
	}
	if s := gate.Stats(); s.Shed[overload.P2][overload.HardCap-1] != 2 || s.Shed[overload.P1][overload.HardCap-1] != 3 || gate.TotalAdmitted() != 0 {
		t.Errorf("%+v", s)
	}
}

// TestFleetShedsFirst (J3): what the fleet sheds is not counted by the worker,
// and critical requests pass.
func TestFleetShedsFirst(t *testing.T) {
	begun := time.Now()
	now := begun
	fleet, err := overload.NewFleet(overload.FleetOptions{
		Usage: func() overload.Usage { return overload.Usage{Used: 30, Capacity: 1} },
	}, begun)
	if err != nil {
		t.Fatal(err)
	}
	worker := newWorker(t, overload.Options{})
	gate := overload.NewGate(fleet, worker)
	m := newMiddleware(t, httpshed.Options{Gate: gate, Header: "X-Priority", Now: func() time.Time { return now },
		Trusted: func(*http.Request) bool { return true }})
	h := m.Wrap(status(200))
	var last [overload.Priorities]int
	for range 300 {
		for p := range overload.Priorities {
			r := httptest.NewRequest("GET", "/", nil)
			r.Header.Set("X-Priority", overload.Priority(p).String())
			last[p] = ask(h, r).StatusCode
		}
		now = now.Add(100 * time.Millisecond)
	}
	if last != [4]int{200, 503, 503, 503} {
		t.Errorf("P0 to P3 got %v at thirty times the capacity, want P0 alone to pass", last)
	}
	stats, inner := gate.Stats(), worker.Stats()
	for p := range overload.Priorities {
		if uint64(inner.Admitted[p]) != stats.Admitted[p] || inner.Shed[p] != 0 {
			t.Errorf("P%d: the worker saw %d+%d, the middleware admitted %d", p, inner.Admitted[p], inner.Shed[p], stats.Admitted[p])
		}
		if stats.Admitted[p]+stats.Shed[p][overload.FleetShare-1] != 300 {
			t.Errorf("P%d: %+v of 300 requests", p, stats)
		}
	}
}

// TestPriorities (J5): from method, path, header and rule, and who may raise.
func TestPriorities(t *testing.T) {
	classifier, err := overload.NewClassifier(overload.ClassifierOptions{
		Paths: []overload.PathPriority{{Method: "POST", Pattern: "/v1/charges", Priority: overload.P0}},
	})
	if err != nil {
		t.Fatal(err)
	}
	const ours = "10.0.0.1:1"
	m := newMiddleware(t, httpshed.Options{
		Gate: overload.NewGate(nil, newWorker(t, overload.Options{})), Classifier: classifier, Header: "x-priority",
		Trusted: func(r *http.Request) bool { return r.RemoteAddr == ours },
		Rule:    func(r *http.Request) string { return r.Header.Get("Test-Rule") },
	})
	many := strings.Split(strings.Repeat("p1,", 9)+"p1", ",")
	for _, c := range []struct {
		name, ask string
		peer      string
		headers   []string
		rule      string
		want      overload.Priority
	}{
		{"method", "GET /v1/orders", "", nil, "", overload.P2},
		{"method", "DELETE /v1/orders", "", nil, "", overload.P1},
		{"path", "POST /v1/charges", "", nil, "", overload.P0},
		{"another path", "POST /v1//charges", "", nil, "", overload.P1},
		{"a client lowers", "POST /v1/charges", "", []string{"test"}, "", overload.P3},
		{"a client cannot raise", "GET /v1/orders", "", []string{"critical"}, "", overload.P2},
		{"a trusted peer raises", "GET /v1/orders", ours, []string{"critical"}, "", overload.P0},
		{"nonsense counts as none", "GET /v1/orders", ours, []string{"urgent"}, "", overload.P2},
		{"of several the lowest", "GET /v1/orders", ours, []string{"p0", "p1"}, "", overload.P1},
		{"of several the lowest", "GET /v1/orders", ours, []string{"p1", "p0"}, "", overload.P1},
		{"nonsense first", "GET /v1/orders", ours, []string{"urgent", "p3", "p0"}, "", overload.P3},
		{"too many", "GET /v1/orders", ours, many, "", overload.P3},
		{"rule", "GET /v1/orders", "", nil, "critical", overload.P0},
		{"rule before path", "POST /v1/charges", "", nil, "p2", overload.P2},
		{"nobody raises over a rule", "GET /v1/orders", ours, []string{"p0"}, "p1", overload.P1},
		{"a header lowers a rule", "GET /v1/orders", "", []string{"p3"}, "p1", overload.P3},
	} {
		method, path, _ := strings.Cut(c.ask, " ")
		r := httptest.NewRequest(method, path, nil)
		if c.peer != "" {
			r.RemoteAddr = c.peer
		}
		r.Header["X-Priority"] = c.headers
		r.Header.Set("Test-Rule", c.rule)
		if got := m.Priority(r); got != c.want {
			t.Errorf("%s: %s %v, rule %q: %v, want %v", c.name, c.ask, c.headers, c.rule, got, c.want)
		}
	}
}

// TestOutcomes: how a request ends is told to the shedder, and none stays in
// flight.
func TestOutcomes(t *testing.T) {
	cases := map[string]struct {
		handler http.Handler
		cancel  bool
		passed  bool // the deadline
		want    string
	}{
		"200":                 {handler: status(200), want: "served"},
		"404":                 {handler: status(404), want: "served"},
		"nothing written":     {handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), want: "served"},
		"a body":              {handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "x") }), want: "served"},
		"early hints, 200":    {handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(103); w.WriteHeader(200) }), want: "served"},
		"429":                 {handler: status(429), want: "ignored"},
		"500":                 {handler: status(500), want: "ignored"},
		"502":                 {handler: status(502), want: "ignored"},
		"503":                 {handler: status(503), want: "overloaded"},
		"504":                 {handler: status(504), want: "overloaded"},
		"200, then 503":       {handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200); w.WriteHeader(503) }), want: "served"},
		"client gone":         {handler: status(504), cancel: true, want: "ignored"},
		"deadline passed":     {handler: status(200), passed: true, want: "overloaded"},
		"panic":               {handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("mine") }), want: "ignored"},
		"panic after 200":     {handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200); panic("mine") }), want: "ignored"},
		"upgrade":             {handler: status(101), want: "ignored"},
		"event stream":        {handler: stream("text/event-stream"), want: "ignored"},
		"event stream, utf-8": {handler: stream("Text/Event-Stream; charset=utf-8"), want: "ignored"},
		"no event stream":     {handler: stream("text/event-streams"), want: "served"},
	}
	for name, c := range cases {
		worker := newWorker(t, overload.Options{})
		gate := overload.NewGate(nil, worker)
		m := newMiddleware(t, httpshed.Options{Gate: gate})
		ctx, cancel := context.WithCancel(t.Context())
		if c.passed {
			ctx, cancel = context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
		}
		if c.cancel {
			cancel()
		}
		panicked := panics(func() { ask(m.Wrap(c.handler), httptest.NewRequestWithContext(ctx, "GET", "/", nil)) })
		cancel()
		if want := strings.HasPrefix(name, "panic"); (panicked == "mine") != want {
			t.Errorf("%s: recovered %v", name, panicked)
		}
		s := gate.Stats()
		got := map[string]uint64{"served": s.Served, "ignored": s.Ignored, "overloaded": s.Overloaded}
		if got[c.want] != 1 || s.Served+s.Ignored+s.Overloaded != 1 {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
		if inFlight := worker.Stats(); inFlight.InFlight != 0 || inFlight.Critical != 0 {
			t.Errorf("%s: %d+%d in flight after the end", name, inFlight.Critical, inFlight.InFlight)
		}
	}
}

func stream(contentType string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, "data: x\n\n")
	})
}

func panics(f func()) (cause any) {
	defer func() { cause = recover() }()
	f()
	return nil
}

// TestWaited: what the front knows of the time before is told.
func TestWaited(t *testing.T) {
	begun := time.Now()
	now := begun
	worker := newWorker(t, overload.Options{MinLimit: 10})
	m := newMiddleware(t, httpshed.Options{
		Gate: overload.NewGate(nil, worker), Now: func() time.Time { return now },
		Waited: func(*http.Request) time.Duration { return time.Second },
	})
	h := m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { now = now.Add(time.Millisecond) }))
	// Half of the limit is in use, so that it may move.
	for range 12 {
		worker.Admit(overload.P1, now)
	}
	for range 2000 {
		ask(h, httptest.NewRequest("POST", "/", nil))
	}
	if s := worker.Stats(); s.Limit > 12 {
		t.Errorf("limit %v after requests that waited for a second, want the least, 10, and little more", s.Limit)
	}
}

// TestOneShedderAlone: each part works without the other, and none sheds nothing.
func TestOneShedderAlone(t *testing.T) {
	fleet, err := overload.NewFleet(overload.FleetOptions{Usage: func() overload.Usage { return overload.Usage{} }}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, gate := range []*overload.Gate{overload.NewGate(fleet, nil), overload.NewGate(nil, newWorker(t, overload.Options{})), overload.NewGate(nil, nil)} {
		m := newMiddleware(t, httpshed.Options{Gate: gate})
		if got := ask(m.Wrap(status(204)), httptest.NewRequest("GET", "/", nil)).StatusCode; got != 204 || gate.TotalAdmitted() != 1 {
			t.Errorf("status %d, %+v", got, gate.Stats())
		}
	}
}

func TestOptionsAreRefused(t *testing.T) {
	gate := overload.NewGate(nil, nil)
	for want, o := range map[string]httpshed.Options{
		"no Gate":    {},
		"field name": {Gate: gate, Header: "X Priority"},
	} {
		if _, err := httpshed.New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one of %q", err, want)
		}
	}
}
