package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// answers is a RoundTripper that answers by a function and remembers what it was
// sent. It closes request bodies, as RoundTrip must.
type answers struct {
	answer func(n int, req *http.Request) *http.Response

	mu     sync.Mutex
	bodies []string
	at     []time.Time
	open   int // answers whose body is not closed
}

func (a *answers) RoundTrip(req *http.Request) (*http.Response, error) {
	body := ""
	if req.Body != nil {
		data, _ := io.ReadAll(req.Body)
		body = string(data)
		req.Body.Close()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	n := len(a.bodies)
	a.bodies, a.at = append(a.bodies, body), append(a.at, time.Now())
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	resp := a.answer(n, req)
	if resp == nil {
		return nil, io.ErrUnexpectedEOF
	}
	a.open++
	resp.Body = &countedBody{Reader: resp.Body, done: func() { a.mu.Lock(); a.open--; a.mu.Unlock() }}
	return resp, nil
}

func (a *answers) sent() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.bodies)
}

type countedBody struct {
	io.Reader
	done func()
	once sync.Once
}

func (b *countedBody) Close() error { b.once.Do(b.done); return nil }

// reply makes an answer of a status and header lines.
func reply(status int, lines string) *http.Response {
	return &http.Response{StatusCode: status, Header: header(lines), Body: io.NopCloser(strings.NewReader("body"))}
}

// sequence answers with each reply in turn, the last one for ever.
func sequence(replies ...func() *http.Response) func(int, *http.Request) *http.Response {
	return func(n int, _ *http.Request) *http.Response { return replies[min(n, len(replies)-1)]() }
}

func of(status int, lines string) func() *http.Response {
	return func() *http.Response { return reply(status, lines) }
}

func zero() float64 { return 0 }

// do sends a request and closes the answer.
func do(t *testing.T, rt http.RoundTripper, req *http.Request) (int, error) {
	t.Helper()
	resp, err := rt.RoundTrip(req)
	if err != nil {
		if resp != nil {
			t.Error("an answer beside an error")
		}
		return 0, err
	}
	if data, err := io.ReadAll(resp.Body); err != nil || len(data) == 0 {
		t.Errorf("the caller's body was read: %q, %v", data, err)
	}
	resp.Body.Close()
	return resp.StatusCode, nil
}

// get asks origin.
func get(t *testing.T, rt http.RoundTripper) (int, error) {
	t.Helper()
	return do(t, rt, request(t, t.Context(), "GET", origin, ""))
}

func request(t *testing.T, ctx context.Context, method, url, body string) *http.Request {
	t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, r)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

const origin = "http://api.test/v1"

// TestRetryWaits: how long after a refusal the next attempt goes out.
func TestRetryWaits(t *testing.T) {
	date := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
	cases := []struct {
		name   string
		header func() string
		random float64
		want   []time.Duration
	}{
		{"seconds", func() string { return "Retry-After: 3" }, 0, []time.Duration{3 * time.Second}},
		{"jitter only lengthens", func() string { return "Retry-After: 3" }, 1, []time.Duration{3300 * time.Millisecond}},
		{"jitter is at most a second", func() string { return "Retry-After: 30" }, 1, []time.Duration{31 * time.Second}},
		{"a date", func() string { return "Retry-After: " + date(7*time.Second) }, 0, []time.Duration{7 * time.Second}},
		{"a date of a clock that is an hour ahead", func() string {
			return "Retry-After: " + date(time.Hour+7*time.Second) + "\nDate: " + date(time.Hour)
		}, 0, []time.Duration{7 * time.Second}},
		{"the reset of a limit that is used up", func() string { return `RateLimit: "a";r=0;t=5` }, 0, []time.Duration{5 * time.Second}},
		{"Retry-After before the reset", func() string { return "RateLimit: \"a\";r=5;t=9\nRetry-After: 1" }, 0, []time.Duration{time.Second}},
		{"nothing named, least", func() string { return "" }, 0, []time.Duration{50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond}},
		{"nothing named, most", func() string { return "Retry-After: junk" }, 1, []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &answers{answer: func(n int, _ *http.Request) *http.Response {
					if n < len(c.want) {
						return reply(429, c.header())
					}
					return reply(200, "")
				}}
				rt := &Transport{Base: server, random: func() float64 { return c.random }}
				if status, err := get(t, rt); status != 200 || err != nil {
					t.Fatalf("%d, %v", status, err)
				}
				for i, want := range c.want {
					if got := server.at[i+1].Sub(server.at[i]); got != want {
						t.Errorf("attempt %d after %v, want %v", i+1, got, want)
					}
				}
				if server.open != 0 {
					t.Errorf("%d answers left open", server.open)
				}
			})
		})
	}
}

// TestRetryWhat: what is sent again, and with which body.
func TestRetryWhat(t *testing.T) {
	unreplayable := func(req *http.Request) { req.GetBody = nil }
	keyed := func(req *http.Request) { req.Header.Set("Idempotency-Key", "1") }
	oddlyKeyed := func(req *http.Request) { req.Header.Set("X-Idempotency-Key", "1") }
	cases := []struct {
		name, method, body string
		status             int
		change             func(*http.Request)
		transport          Transport
		want               int
	}{
		{"GET", "GET", "", 503, nil, Transport{}, 4},
		{"PUT", "PUT", "data", 429, nil, Transport{}, 4},
		{"POST", "POST", "data", 429, nil, Transport{}, 1},
		{"POST with a key", "POST", "data", 429, keyed, Transport{}, 4},
		{"POST with a key of the older name", "POST", "data", 429, oddlyKeyed, Transport{}, 4},
		{"POST, as the caller wishes", "POST", "data", 503, nil, Transport{Idempotent: func(*http.Request) bool { return true }}, 4},
		{"GET, as the caller wishes", "GET", "", 503, nil, Transport{Idempotent: func(*http.Request) bool { return false }}, 1},
		{"a body that is gone", "PUT", "data", 429, unreplayable, Transport{}, 1},
		{"another failure", "GET", "", 500, nil, Transport{}, 1},
		{"one retry", "GET", "", 503, nil, Transport{MaxRetries: 1}, 2},
		{"no retries", "GET", "", 503, nil, Transport{MaxRetries: -1}, 1},
		{"no waits", "GET", "", 503, nil, Transport{MaxWait: -1}, 1},
	}
	for i := range cases {
		c := &cases[i]
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &answers{answer: sequence(of(c.status, ""))}
				c.transport.Base = server
				req := request(t, t.Context(), c.method, origin, c.body)
				if c.change != nil {
					c.change(req)
				}
				if status, err := do(t, &c.transport, req); status != c.status || err != nil {
					t.Fatalf("%d, %v; want the last answer", status, err)
				}
				if server.sent() != c.want || server.open != 0 {
					t.Errorf("sent %d times, want %d; %d answers left open", server.sent(), c.want, server.open)
				}
				if i := slices.IndexFunc(server.bodies, func(b string) bool { return b != c.body }); i >= 0 {
					t.Errorf("attempt %d has body %q, want %q", i, server.bodies[i], c.body)
				}
			})
		})
	}
}

// TestRetryBudget: a server that fails gets a tenth more, after the first few.
func TestRetryBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &answers{answer: sequence(of(503, ""))}
		rt := &Transport{Base: server, random: zero}
		start := time.Now()
		const requests = 1000
		for range requests {
			if _, err := get(t, rt); err != nil {
				t.Fatal(err)
			}
		}
		byTime := int(time.Since(start) / (10 * time.Second))
		if extra, most := server.sent()-requests, 10+requests/10+byTime+1; extra > most || extra < most/2 {
			t.Errorf("%d retries of %d requests, want at most %d", extra, requests, most)
		}
		s := rt.Stats()
		if s.Sent != uint64(server.sent()) || s.Requests != requests || s.Retried != s.Sent-requests || s.GaveUp == 0 {
			t.Errorf("%+v", s)
		}
		time.Sleep(100 * time.Second) // virtual: it earns all back
		before := server.sent()
		if _, err := get(t, rt); err != nil || server.sent() != before+4 {
			t.Errorf("%d attempts after a pause, want 4 (%v)", server.sent()-before, err)
		}
	})
}

// TestContextBoundsWaits: nothing waits in vain.
func TestContextBoundsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &answers{answer: sequence(of(429, "Retry-After: 10"), of(200, ""))}
		rt := &Transport{Base: server, random: zero}
		start := time.Now()
		within := func(d time.Duration, body string) (int, error) {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			return do(t, rt, request(t, ctx, "PUT", origin, body))
		}
		if status, err := within(5*time.Second, "a"); status != 429 || err != nil || time.Since(start) != 0 {
			t.Errorf("a retry past the deadline: %d, %v after %v; want the 429 at once", status, err, time.Since(start))
		}
		closed := 0
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		req := request(t, ctx, "PUT", origin, "b")
		req.Body = &countedBody{Reader: strings.NewReader("b"), done: func() { closed++ }}
		_, err := do(t, rt, req)
		var wait *WaitError
		if !errors.As(err, &wait) || wait.Wait != 10*time.Second || wait.Bound != ContextDeadline || time.Since(start) != 0 {
			t.Errorf("a blocked request: %v after %v", err, time.Since(start))
		}
		if closed != 1 || server.sent() != 1 {
			t.Errorf("body closed %d times, %d sent; want 1, 1", closed, server.sent())
		}
		if status, err := within(20*time.Second, "c"); status != 200 || err != nil || time.Since(start) != 10*time.Second {
			t.Errorf("a request with time: %d, %v after %v", status, err, time.Since(start))
		}
	})
}

func TestCancelEndsWait(t *testing.T) {
	for _, status := range []int{200, 429} { // waiting before the request, and before the retry
		synctest.Test(t, func(t *testing.T) {
			server := &answers{answer: sequence(of(429, "Retry-After: 20"))}
			rt := &Transport{Base: server, random: zero}
			if status == 200 {
				post := request(t, t.Context(), "POST", origin, "x")
				if _, err := do(t, rt, post); err != nil {
					t.Fatal(err)
				}
			}
			why := errors.New("enough")
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(why) })
			_, err := do(t, rt, request(t, ctx, "GET", origin, ""))
			if !errors.Is(err, why) || server.open != 0 || server.sent() != 1 {
				t.Errorf("%v, %d sent, %d open", err, server.sent(), server.open)
			}
		})
	}
}

// TestMaxWait: a server that is away for long is not waited for, nor asked.
func TestMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &answers{answer: sequence(of(503, "Retry-After: 31"), of(200, ""))}
		rt := &Transport{Base: server, random: zero}
		if status, err := get(t, rt); status != 503 || err != nil {
			t.Errorf("%d, %v; want the 503", status, err)
		}
		_, err := get(t, rt)
		var wait *WaitError
		if !errors.As(err, &wait) || wait.Bound != MaxWaitBound || wait.Origin != "http://api.test" {
			t.Errorf("%v, want a WaitError", err)
		}
		time.Sleep(2 * time.Second)
		if status, err := get(t, rt); status != 200 || err != nil || server.sent() != 2 {
			t.Errorf("%d, %v after %d were sent", status, err, server.sent())
		}
	})
}

// TestBlockIsBounded: no answer keeps a program from asking for longer than a
// day.
func TestBlockIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &answers{answer: sequence(of(429, "Retry-After: 99999999999"), of(200, ""))}
		rt := &Transport{Base: server, random: zero}
		_, _ = get(t, rt)
		time.Sleep(24 * time.Hour)
		if status, err := get(t, rt); status != 200 || err != nil {
			t.Errorf("%d, %v", status, err)
		}
	})
}

// TestPartitions: a refusal keeps back those who share the limit, and nobody
// else.
func TestPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &answers{answer: sequence(of(429, "Retry-After: 600"), of(200, ""))}
		rt := &Transport{Base: server, random: zero, Partition: func(r *http.Request) string { return r.URL.Path }}
		send := func(url, key string) error {
			req := request(t, t.Context(), "GET", url, "")
			req.Header.Set("Authorization", key)
			_, err := do(t, rt, req)
			return err
		}
		_ = send("https://api.test/a", "alice")
		for _, c := range []struct {
			url, key string
			held     bool
		}{
			{"https://API.test:443/a", "alice", true},
			{"https://api.test/b", "alice", false},
			{"https://api.test/a", "bob", false},
			{"http://api.test/a", "alice", false},
			{"https://api.test:8443/a", "alice", false},
			{"https://other.test/a", "alice", false},
		} {
			var wait *WaitError
			if err := send(c.url, c.key); errors.As(err, &wait) != c.held {
				t.Errorf("%s of %s: %v, want held back %v", c.url, c.key, err, c.held)
			}
		}
		for i := range 5000 {
			_ = send(fmt.Sprintf("https://%d.test/", i), "alice")
		}
		if n := rt.Stats().Partitions; n != maxPartitions {
			t.Errorf("%d partitions remembered, want %d", n, maxPartitions)
		}
	})
}

// TestPartitionsByCredentials: by the value and by the field in which it stands.
func TestPartitionsByCredentials(t *testing.T) {
	var keys table
	key := func(name, value string) partitionKey {
		req := request(t, t.Context(), "GET", origin, "")
		req.Header.Set(name, value)
		return keys.keyOf(req, "")
	}
	seen := map[partitionKey]string{}
	for _, name := range []string{"Authorization", "X-Api-Key", "Api-Key"} {
		for _, value := range []string{"alice", "bob"} {
			if k := key(name, value); k != key(name, value) {
				t.Errorf("%s: %s is not the same twice", name, value)
			} else if other, known := seen[k]; known {
				t.Errorf("%s: %s is the same as %s", name, value, other)
			} else {
				seen[k] = name + ": " + value
			}
		}
	}
	if key("Accept", "a") != key("Accept", "b") {
		t.Error("divided by what is no credential")
	}
}

// TestSpellingsOfAnOrigin: a host in capitals and the port of the scheme make no other origin.
func TestSpellingsOfAnOrigin(t *testing.T) {
	for url, want := range map[string]string{
		"http://API.test:80/a": "http://api.test", "https://api.test:443/a": "https://api.test",
		"http://api.test:443/a": "http://api.test:443", "https://api.test:80/a": "https://api.test:80",
	} {
		var keys table
		k := keys.keyOf(request(t, t.Context(), "GET", url, ""), "")
		if got := k.scheme + "://" + k.host; got != want {
			t.Errorf("%s is of %s, want %s", url, got, want)
		}
	}
}

// TestNoProxyOfTheEnvironment: a Checker asks its server itself.
func TestNoProxyOfTheEnvironment(t *testing.T) {
	if newTransport().Proxy != nil {
		t.Error("a proxy may come between")
	}
}

// TestDrainIsBounded: a refusal that never ends is left.
func TestDrainIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read := &endless{}
		server := &answers{answer: func(n int, _ *http.Request) *http.Response {
			r := reply(200, "")
			if n == 0 {
				r = reply(429, "")
				r.Body = io.NopCloser(read)
			}
			return r
		}}
		if status, err := get(t, &Transport{Base: server}); status != 200 || err != nil {
			t.Fatalf("%d, %v", status, err)
		}
		if read.n > 2*maxDrain || server.open != 0 {
			t.Errorf("%d bytes read, %d open", read.n, server.open)
		}
	})
}

type endless struct{ n int }

func (e *endless) Read(p []byte) (int, error) { e.n += len(p); return len(p), nil }

func TestErrorPasses(t *testing.T) {
	server := &answers{answer: func(int, *http.Request) *http.Response { return nil }}
	if _, err := get(t, &Transport{Base: server}); !errors.Is(err, io.ErrUnexpectedEOF) || server.sent() != 1 {
		t.Errorf("%v after %d attempts", err, server.sent())
	}
}

// TestEvents: what an operator can see.
func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &answers{answer: sequence(of(429, "Retry-After: 2"), of(503, "Retry-After: 60"))}
		var got []string
		rt := &Transport{Base: server, random: zero, Observe: func(e Event) {
			got = append(got, fmt.Sprintf("%s %v attempt %d status %d", e.Kind, e.Wait, e.Attempt, e.Status))
		}}
		_, _ = get(t, rt)
		_, _ = get(t, rt)
		want := []string{"retried 2s attempt 0 status 429", "gave_up 1m0s attempt 1 status 503", "refused 1m0s attempt 0 status 0"}
		if !slices.Equal(got, want) {
			t.Errorf("events %q, want %q", got, want)
		}
	})
}
