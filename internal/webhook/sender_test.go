package webhook

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/eventually"
)

// TestReceiverIsDown: what is due is sent when the receiver is back, and the counts
// add up.
func TestReceiverIsDown(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.network.set(true)
		for i := range 20 {
			hit(t, w.Limiter, 10, fmt.Sprintf("tenant:t%d", i))
		}
		synctest.Wait()
		if s := w.notifier.Stats(); s != (Stats{Told: 40, Queued: 40}) {
			t.Errorf("while it is down: %+v", s)
		}
		time.Sleep(10 * time.Second) // bubble
		synctest.Wait()
		w.network.set(false)
		time.Sleep(time.Minute) // bubble
		synctest.Wait()
		s := w.notifier.Stats()
		if s.Retried < 4*3 {
			t.Errorf("%d retries of four events in ten seconds", s.Retried)
		}
		if s.Retried = 0; s != (Stats{Told: 40, Sent: 40}) || len(w.inbox.brief()) != 40 {
			t.Errorf("when it is back: %+v, %d events", s, len(w.inbox.brief()))
		}
	})
}

// TestGivenUp: an event is tried so often and no more, and the operator is told.
func TestGivenUp(t *testing.T) {
	inWorld(t, []int{80}, func(t *testing.T, w *world) {
		w.inbox.answer = func(_ int, rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusBadGateway) }
		hit(t, w.Limiter, 8, "tenant:acme")
		time.Sleep(time.Hour) // bubble
		synctest.Wait()
		if s := w.notifier.Stats(); s != (Stats{Told: 1, Failed: 1, Retried: maxTries - 1}) || w.inbox.requests != maxTries {
			t.Errorf("%+v, %d requests", s, w.inbox.requests)
		}
		if len(w.errors) != 1 || !strings.HasPrefix(w.errors[0], "webhook out[0] (localhost): event ") || !strings.HasSuffix(w.errors[0], "was given up after try 10: status 502") {
			t.Errorf("%q", w.errors)
		}
	})
}

// TestRefusedForGood: what the receiver will not take later either is not sent again;
// a redirect is one of these, and is not followed.
func TestRefusedForGood(t *testing.T) {
	for _, status := range []int{301, 302, 307, 308, 400, 401, 404, 410, 413} {
		inWorld(t, []int{80}, func(t *testing.T, w *world) {
			w.inbox.answer = func(_ int, rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("Location", "/elsewhere")
				rw.WriteHeader(status)
			}
			hit(t, w.Limiter, 8, "tenant:acme")
			time.Sleep(time.Hour) // bubble
			synctest.Wait()
			if s := w.notifier.Stats(); s != (Stats{Told: 1, Failed: 1}) || w.inbox.requests != 1 {
				t.Errorf("status %d: %+v, %d requests", status, s, w.inbox.requests)
			}
		})
	}
}

// TestRetryAfter: a receiver that asks for time gets it.
func TestRetryAfter(t *testing.T) {
	inWorld(t, []int{80}, func(t *testing.T, w *world) {
		var at []time.Time
		w.inbox.answer = func(n int, rw http.ResponseWriter, r *http.Request) {
			at = append(at, time.Now())
			switch n {
			case 1:
				rw.Header().Set("Retry-After", "100")
				rw.WriteHeader(http.StatusTooManyRequests)
			case 2:
				rw.Header().Set("Retry-After", time.Now().Add(200*time.Second).UTC().Format(http.TimeFormat))
				rw.WriteHeader(http.StatusServiceUnavailable)
			}
		}
		hit(t, w.Limiter, 8, "tenant:acme")
		time.Sleep(time.Hour) // bubble
		synctest.Wait()
		if s := w.notifier.Stats(); s != (Stats{Told: 1, Sent: 1, Retried: 2}) || len(at) != 3 {
			t.Fatalf("%+v, %v", s, at)
		}
		if first, second := at[1].Sub(at[0]), at[2].Sub(at[1]); first != 100*time.Second || second < 199*time.Second || second > 201*time.Second {
			t.Errorf("pauses %v and %v", first, second)
		}
	})
}

// TestSlowReceiver: a receiver that does not answer holds up no decision; what finds
// no room is dropped and counted.
func TestSlowReceiver(t *testing.T) {
	inWorld(t, []int{80}, func(t *testing.T, w *world) {
		w.inbox.answer = func(_ int, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
		for i := range workers {
			hit(t, w.Limiter, 8, fmt.Sprintf("tenant:busy%d", i))
		}
		synctest.Wait()
		begun := time.Now()
		for i := range maxQueue + 500 {
			hit(t, w.Limiter, 8, fmt.Sprintf("tenant:t%d", i))
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("decisions have waited %v", took)
		}
		synctest.Wait()
		if s := w.notifier.Stats(); s != (Stats{Told: workers + maxQueue + 500, Dropped: 500, Queued: workers + maxQueue}) {
			t.Errorf("%+v", s)
		}
		time.Sleep(sendTimeout) // bubble: each request is given up in time
		synctest.Wait()
		if w.inbox.requests != workers {
			t.Errorf("%d requests", w.inbox.requests)
		}
	})
}

// TestSeveralReceivers: each is told by its own thresholds and types.
func TestSeveralReceivers(t *testing.T) {
	var boxes [3]*inbox
	var out []Receiver
	for i, r := range []Receiver{receiverOf("http://x", 50, 80), receiverOf("http://x", 80, 100), receiverOf("http://x", 100)} {
		boxes[i] = &inbox{t: t}
		server := httptest.NewServer(boxes[i])
		t.Cleanup(server.Close)
		address, err := parseURL(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		r.URL = address
		out = append(out, r)
	}
	out[1].Events = []Type{NearExhaustion}
	n := New(Options{Out: out})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { n.Run(ctx) })
	defer running.Wait()
	defer cancel()
	hit(t, newLimiter(t, n), 10, "tenant:acme,endpoint:a")
	eventually.True(t, "all is sent", func() bool { return n.Stats().Queued == 0 })
	const near, all = "quota.near_exhaustion tenant:acme default/minute ", "quota.exhausted tenant:acme default/minute 100% 10/10"
	boxes[0].want(t, near+"50% 5/10", near+"80% 8/10")
	boxes[1].want(t, near+"80% 8/10")
	boxes[2].want(t, all)
}

func TestFinal(t *testing.T) {
	for status, want := range map[int]bool{
		302: true, 308: true, 400: true, 401: true, 404: true, 410: true, 422: true,
		408: false, 409: false, 425: false, 429: false, 500: false, 502: false, 503: false, 504: false, 599: false,
	} {
		if final(status) != want {
			t.Errorf("status %d: %v", status, !want)
		}
	}
}

func TestPause(t *testing.T) {
	for _, c := range []struct {
		try     int
		refused *refusal
		spread  float64
		want    time.Duration
	}{
		{1, nil, 0, 500 * time.Millisecond},
		{1, nil, 0.5, 750 * time.Millisecond},
		{4, nil, 0, 4 * time.Second},
		{9, nil, 0, 128 * time.Second},
		{10, nil, 0, 150 * time.Second},
		{1 << 40, nil, 1, 300 * time.Second},
		{2, &refusal{}, 0, time.Second},
		{2, &refusal{after: time.Minute}, 0, time.Minute},
	} {
		if got := pause(c.try, c.refused, c.spread); got != c.want {
			t.Errorf("after try %d: %v, want %v", c.try, got, c.want)
		}
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "x": 0, "-1": 0, "1.5": 0, "7": 7 * time.Second, "999999999": time.Hour, "99999999999999999999": 0,
		"Thu, 01 Jan 2026 00:01:00 GMT": time.Minute, "Wed, 31 Dec 2025 00:00:00 GMT": 0, "Thu, 01 Jan 2099 00:00:00 GMT": time.Hour,
	} {
		if got := retryAfter(text, now); got != want {
			t.Errorf("Retry-After %q: %v, want %v", text, got, want)
		}
	}
}
