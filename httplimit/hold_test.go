package httplimit_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store/memstore"
)

// slots is a middleware whose rule gives each address so many slots, which no
// machine is too slow to renew.
func slots(t *testing.T, n int) *httplimit.Middleware {
	t.Helper()
	return ruled(t, fmt.Sprintf("concurrency: {limit: %d, timeout: 10m}", n), httplimit.Options{})
}

// ruled is a middleware with one rule on the address.
func ruled(t *testing.T, rule string, o httplimit.Options) *httplimit.Middleware {
	t.Helper()
	buckets, err := memstore.New(memstore.Options{MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	o.Domain = "api"
	return newMiddleware(t, limiterOver(t, buckets, "domain: api\ndescriptors:\n  - {key: remote_address, name: each, "+rule+"}\n"), o)
}

// TestNeverMoreInFlight: of 200 requests at once no more than five run at a time,
// and all slots are free at the end.
func TestNeverMoreInFlight(t *testing.T) {
	const most, requests = 5, 200
	m := slots(t, most)
	var running, peak, served, denied atomic.Int64
	full := make(chan struct{})
	var fill sync.Once
	server := httptest.NewServer(m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		now := running.Add(1)
		defer running.Add(-1)
		for old := peak.Load(); now > old && !peak.CompareAndSwap(old, now); old = peak.Load() {
		}
		if now == most {
			fill.Do(func() { close(full) })
		}
		<-full // so that they meet: until all slots are taken nobody is denied
	})))
	defer server.Close()
	server.Client().Transport.(*http.Transport).MaxIdleConnsPerHost = requests
	var group sync.WaitGroup
	for range requests {
		group.Go(func() {
			r, err := server.Client().Get(server.URL)
			if err != nil {
				t.Error(err)
				return
			}
			defer r.Body.Close()
			text, _ := io.ReadAll(r.Body)
			switch {
			case r.StatusCode == 200:
				served.Add(1)
			case r.StatusCode == 429 && strings.Contains(string(text), "CONCURRENCY_LIMITED") && r.Header.Get("Retry-After") == "1":
				denied.Add(1)
			default:
				t.Errorf("status %d, header %v, body %s", r.StatusCode, r.Header, text)
			}
		})
	}
	group.Wait()
	if peak.Load() != most || served.Load() < most || served.Load()+denied.Load() != requests {
		t.Errorf("up to %d in flight, %d served, %d denied; want at most %d in flight", peak.Load(), served.Load(), denied.Load(), most)
	}
	var left string
	for range most {
		left = get(t, server.Client(), server.URL).Header.Get("RateLimit")
	}
	if s := m.Stats(); left != `"each/concurrency";r=4` || s.Held != 0 || s.ReleasesDropped != 0 {
		t.Errorf("at the end RateLimit is %s; stats %+v", left, s)
	}
}

// TestPanicFreesTheSlot, also of a server that recovers.
func TestPanicFreesTheSlot(t *testing.T) {
	m := slots(t, 1)
	h := m.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/panic" {
			panic(http.ErrAbortHandler)
		}
	}))
	server := httptest.NewServer(h)
	defer server.Close()
	for range 3 {
		if r, err := http.Get(server.URL + "/panic"); err == nil {
			r.Body.Close()
			t.Fatalf("status %d of a handler that panics", r.StatusCode)
		}
	}
	if r := get(t, http.DefaultClient, server.URL); r.StatusCode != 200 || m.Stats().Released < 3 {
		t.Errorf("status %d, stats %+v", r.StatusCode, m.Stats())
	}
}

// TestUpgradeHoldsTheSlot: a connection that is taken over holds its slot until the
// handler returns.
func TestUpgradeHoldsTheSlot(t *testing.T) {
	for name, o := range plainAndWrapped {
		m := ruled(t, "concurrency: {limit: 1, timeout: 10m}", o)
		server := httptest.NewServer(m.Wrap(http.HandlerFunc(echoSocket)))
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, "GET /socket HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: x\r\n\r\n")
		if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "101") {
			t.Fatalf("%s: %q, %v", name, line, err)
		}
		if r := get(t, http.DefaultClient, server.URL); r.StatusCode != 429 {
			t.Errorf("%s: status %d beside an open socket, want 429", name, r.StatusCode)
		}
		_, _ = io.WriteString(conn, "ping") // the handler echoes it and returns
		eventually.True(t, name+": the slot of a closed socket is free", func() bool { return m.Stats().Released == 1 })
		if answer, _ := dialSocket(t, server.Listener.Addr().String()); !strings.Contains(answer, "101") {
			t.Errorf("%s: the next socket got %q", name, answer)
		}
		conn.Close()
		server.Close()
	}
}

// TestClientGoesAway: its slot is free when the handler has noticed.
func TestClientGoesAway(t *testing.T) {
	m := slots(t, 1)
	inside := make(chan struct{}, 1)
	server := httptest.NewServer(m.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/long" {
			inside <- struct{}{}
			<-r.Context().Done()
		}
	})))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/long", nil)
	if err != nil {
		t.Fatal(err)
	}
	gone := make(chan error)
	go func() {
		_, err := http.DefaultClient.Do(r)
		gone <- err
	}()
	<-inside
	if got := get(t, http.DefaultClient, server.URL).StatusCode; got != 429 {
		t.Errorf("status %d while the slot is taken", got)
	}
	cancel()
	if err := <-gone; err == nil {
		t.Error("the request was answered")
	}
	eventually.True(t, "the slot is free", func() bool { return m.Stats().Released == 1 })
	if got := get(t, http.DefaultClient, server.URL).StatusCode; got != 200 {
		t.Errorf("status %d after it, stats %+v", got, m.Stats())
	}
}

// TestLongRequestKeepsItsSlot: for ten minutes, with a timeout of three seconds.
func TestLongRequestKeepsItsSlot(t *testing.T) {
	for name, o := range plainAndWrapped {
		synctest.Test(t, func(t *testing.T) {
			m := ruled(t, "concurrency: {limit: 1, timeout: 3s}", o)
			long := m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(10 * time.Minute) }))
			var group sync.WaitGroup
			group.Go(func() { ask(long, newRequest("GET", "/")) })
			synctest.Wait()
			for minute := range 10 {
				time.Sleep(59 * time.Second)
				if got := ask(m.Wrap(status(200)), newRequest("GET", "/")).StatusCode; got != 429 {
					t.Errorf("%s: status %d in minute %d, want 429", name, got, minute)
				}
			}
			group.Wait()
			if got := ask(m.Wrap(status(200)), newRequest("GET", "/")).StatusCode; got != 200 {
				t.Errorf("%s: status %d at the end; stats %+v", name, got, m.Stats())
			}
		})
	}
}

// TestRefundAndRelease: a request whose hits are given back frees its slot too.
func TestRefundAndRelease(t *testing.T) {
	m := ruled(t, "rate_limit: {unit: hour, requests_per_unit: 2}, concurrency: 1",
		httplimit.Options{Refund: func(status int) bool { return status >= 500 }})
	for range 5 {
		if got := ask(m.Wrap(status(502)), newRequest("GET", "/")).StatusCode; got != 502 {
			t.Fatalf("status %d, want the handler's", got)
		}
	}
	r := ask(m.Wrap(status(200)), newRequest("GET", "/"))
	if got := r.Header.Get("RateLimit-Policy"); r.StatusCode != 200 || got != `"each";q=2;w=3600, "each/concurrency";q=1;qu="concurrent-requests"` {
		t.Errorf("status %d, RateLimit-Policy %s", r.StatusCode, got)
	}
	if s := m.Stats(); s.Refunded != 5 || s.Released != 6 || s.Held != 0 {
		t.Errorf("stats %+v", s)
	}
}

// TestSlotsWithoutRules: Options.Limits may have one on concurrency.
func TestSlotsWithoutRules(t *testing.T) {
	m := newMiddleware(t, newLimiter(t, ""), httplimit.Options{Limits: []rules.NamedLimit{
		{Limit: limit.Must(limit.Spec{Algorithm: limit.Concurrency, Quota: 1, Period: time.Minute})},
	}})
	inner := 0
	h := m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		inner = ask(m.Wrap(status(200)), newRequest("GET", "/")).StatusCode
	}))
	for range 2 {
		if got := ask(h, newRequest("GET", "/")).StatusCode; got != 200 || inner != 429 {
			t.Errorf("status %d and within it %d, want 200 and 429", got, inner)
		}
	}
}

// TestSoftActions: what clients and handlers are told above a soft limit, and that
// a client cannot tell it for us.
func TestSoftActions(t *testing.T) {
	const quota = "rate_limit: {unit: hour, requests_per_unit: 4}, soft_limit: "
	cases := []struct {
		name, soft   string
		field, value string // for the handler
		warning      string
	}{
		{"degrade", "{at: 50%, action: degrade, header: X-Degraded, value: lean}", "X-Degraded", "lean", ""},
		{"challenge", "{at: 50%, action: challenge, challenge: captcha}", "X-Ratelimit-Challenge", "captcha", ""},
		{"warn", "{at: 50%, action: warn}", "X-Degraded", "", `"each";percent=50`},
	}
	for _, c := range cases {
		m := ruled(t, quota+c.soft, httplimit.Options{SkipPaths: []string{"/healthz"}})
		var seen []string
		h := m.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			seen = append(r.Header.Values(c.field), r.Header.Values(strings.ReplaceAll(c.field, "-", "_"))...)
		}))
		for i, path := range []string{"/", "/", "/healthz", "/"} {
			request := newRequest("GET", path)
			if c.value != "" {
				request.Header.Set(c.field, "forged")
				request.Header.Set(strings.ReplaceAll(c.field, "-", "_"), "forged") // the same to many applications
			}
			r := ask(h, request)
			reached := i == 1 || i == 3
			if want := c.value != "" && reached; r.StatusCode != 200 || (len(seen) == 1) != want || want && seen[0] != c.value {
				t.Errorf("%s, request %d: status %d, the handler sees %q", c.name, i, r.StatusCode, seen)
			}
			if got := r.Header.Get("X-RateLimit-Warning"); (got != "") != (reached && c.warning != "") || got != "" && got != c.warning {
				t.Errorf("%s, request %d: warning %q", c.name, i, got)
			}
		}
	}
}

// TestFieldsOfOthersStand: where no rule uses such a field it belongs to someone
// else, a gateway before us for instance.
func TestFieldsOfOthersStand(t *testing.T) {
	var seen string
	h := perMinute(t, 5, httplimit.Options{}).Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		seen = r.Header.Get("X-RateLimit-Challenge")
	}))
	if ask(h, newRequest("GET", "/", "X-RateLimit-Challenge", "captcha")); seen != "captcha" {
		t.Errorf("the handler sees %q", seen)
	}
}

// TestSoftDelay holds requests back above the threshold, within MaxWait.
func TestSoftDelay(t *testing.T) {
	const rule = "rate_limit: {unit: hour, requests_per_unit: 4}, soft_limit: {at: 50%, action: delay, delay: 250ms}"
	synctest.Test(t, func(t *testing.T) {
		h := ruled(t, rule, httplimit.Options{}).Wrap(status(200))
		for i, want := range []time.Duration{0, 250 * time.Millisecond, 250 * time.Millisecond} {
			start := time.Now()
			if got := ask(h, newRequest("GET", "/")).StatusCode; got != 200 || time.Since(start) != want {
				t.Errorf("request %d: status %d after %v, want 200 after %v", i, got, time.Since(start), want)
			}
		}
		h = ruled(t, rule, httplimit.Options{MaxWait: 100 * time.Millisecond}).Wrap(status(200))
		ask(h, newRequest("GET", "/"))
		if r := ask(h, newRequest("GET", "/")); r.StatusCode != 429 || r.Header.Get("Retry-After") != "1" {
			t.Errorf("longer than MaxWait: status %d, header %v", r.StatusCode, r.Header)
		}
	})
}

// TestAnswerOfRule: what a rule says comes before the middleware's options, and
// before AnswerByRule.
func TestAnswerOfRule(t *testing.T) {
	o := httplimit.Options{
		Answer:       httplimit.Answer{Body: httplimit.Flat},
		AnswerByRule: map[string]httplimit.Answer{"each": {Body: httplimit.Flat, Generation: httplimit.Draft6}},
	}
	h := ruled(t, "rate_limit: {unit: hour, requests_per_unit: 1}, answer: {body: problem, x_ratelimit: off}", o).Wrap(status(200))
	ask(h, newRequest("GET", "/"))
	r := ask(h, newRequest("GET", "/"))
	if got := r.Header.Get("Content-Type"); got != "application/problem+json" || !strings.Contains(body(t, r), "quota-exceeded") {
		t.Errorf("Content-Type %s", got)
	}
	if r.Header.Get("X-RateLimit-Limit") != "" || r.Header.Get("RateLimit-Limit") != "1" {
		t.Errorf("header %v; want the fields of draft-6 and none of X-RateLimit", r.Header)
	}
}

// TestBan: denials lead to it, and it says how long it lasts.
func TestBan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := ruled(t, "rate_limit: {unit: second, requests_per_unit: 1}, ban: {after: 2, within: 1m, for: 15m}", httplimit.Options{Answer: httplimit.Answer{Jitter: httplimit.ExactRetry}}).Wrap(status(200))
		ask(h, newRequest("GET", "/"))
		for range 2 {
			if r := ask(h, newRequest("GET", "/")); !strings.Contains(body(t, r), `"RATE_LIMITED"`) {
				t.Errorf("header %v", r.Header)
			}
		}
		time.Sleep(5 * time.Minute)
		r := ask(h, newRequest("GET", "/"))
		if text := body(t, r); r.StatusCode != 429 || !strings.Contains(text, `"BANNED"`) || r.Header.Get("Retry-After") != "600" || r.Header.Get("RateLimit") != "" {
			t.Errorf("status %d, header %v, body %s", r.StatusCode, r.Header, text)
		}
		time.Sleep(10 * time.Minute)
		if got := ask(h, newRequest("GET", "/")).StatusCode; got != 200 {
			t.Errorf("after the ban: status %d", got)
		}
	})
}
