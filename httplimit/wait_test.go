package httplimit_test

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store/memstore"
)

// newQueue shapes to one request per second with the time of the bubble that it
// is made in.
func newQueue(t *testing.T, o httplimit.Options) *httplimit.Middleware {
	t.Helper()
	buckets, err := memstore.New(memstore.Options{MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	o.Limits = []rules.NamedLimit{{Limit: limit.Must(limit.Spec{
		Algorithm: limit.LeakyQueue, Quota: 1, Period: time.Second, MaxDelay: 10 * time.Second,
	})}}
	o.Now = time.Now
	return newMiddleware(t, limiterOver(t, buckets, ""), o)
}

func TestShapes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newQueue(t, httplimit.Options{PassResult: true})
		start := time.Now()
		var mu sync.Mutex
		var at []time.Duration
		h := m.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			told, _ := httplimit.FromContext(r.Context())
			mu.Lock()
			defer mu.Unlock()
			at = append(at, time.Since(start).Round(time.Millisecond))
			if told.Delay.Round(time.Millisecond) != at[len(at)-1] {
				t.Errorf("told of a delay of %v after %v", told.Delay, at[len(at)-1])
			}
		}))
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() { ask(h, newRequest("GET", "/")) })
		}
		group.Wait()
		for i := range at {
			if at[i] != time.Duration(i)*time.Second {
				t.Errorf("request %d ran at %v, want %d s", i, at[i], i)
			}
		}
		if s := m.Stats(); len(at) != 4 || s.Delayed != 3 || s.Waiting != 0 {
			t.Errorf("%d ran; %+v", len(at), s)
		}
	})
}

// TestLongDelaysAreDenied: a request that would wait longer than MaxWait is told
// so, and its place is free.
func TestLongDelaysAreDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newQueue(t, httplimit.Options{MaxWait: -1})
		h := m.Wrap(status(200))
		ask(h, newRequest("GET", "/"))
		for range 3 {
			r := ask(h, newRequest("GET", "/"))
			if r.StatusCode != 429 || r.Header.Get("Retry-After") != "1" {
				t.Errorf("status %d, Retry-After %q; want 429 and 1 each time", r.StatusCode, r.Header.Get("Retry-After"))
			}
		}
		time.Sleep(time.Second)
		if got := ask(h, newRequest("GET", "/")).StatusCode; got != 200 {
			t.Errorf("a second later: status %d", got)
		}
	})
}

func TestTooManyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newQueue(t, httplimit.Options{MaxWaiting: 1})
		h := m.Wrap(status(200))
		ask(h, newRequest("GET", "/"))
		codes := map[int]int{}
		var mu sync.Mutex
		var group sync.WaitGroup
		for range 3 {
			group.Go(func() {
				code := ask(h, newRequest("GET", "/")).StatusCode
				mu.Lock()
				defer mu.Unlock()
				codes[code]++
			})
		}
		group.Wait()
		if codes[200] != 1 || codes[503] != 2 {
			t.Errorf("statuses %v, want one 200 and two 503", codes)
		}
	})
}

// TestGivingUpFreesThePlace: a client that goes away while it is held back does
// not delay the next one.
func TestGivingUpFreesThePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newQueue(t, httplimit.Options{})
		ran := 0
		h := m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { ran++ }))
		ask(h, newRequest("GET", "/"))
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if r := ask(h, newRequest("GET", "/").WithContext(ctx)); r.StatusCode != 503 || r.Header.Get("Retry-After") == "" {
			t.Errorf("status %d, header %v", r.StatusCode, r.Header)
		}
		start := time.Now()
		ask(h, newRequest("GET", "/"))
		if waited := time.Since(start).Round(time.Millisecond); waited != 500*time.Millisecond || ran != 2 {
			t.Errorf("the next one waited %v and %d ran, want 500 ms and 2; %+v", waited, ran, m.Stats())
		}
		if s := m.Stats(); s.GaveUp != 1 {
			t.Errorf("stats %+v", s)
		}
	})
}

// stuckRefunds allows all, and holds refunds until their time is over.
type stuckRefunds struct{ limit *limit.Limit }

func (c stuckRefunds) Check(ctx context.Context, requests []headgate.Request, responses []headgate.Response) error {
	if requests[0].Descriptors[0].Op != 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	responses[0].Allowed = true
	responses[0].Verdicts = append(responses[0].Verdicts[:0], headgate.Verdict{
		Limit: c.limit, Decision: limit.Decision{Allowed: true, Limit: 5, Remaining: 4},
	})
	return nil
}

func TestRefundsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.Must(limit.PerMinute(5))
		m := newMiddleware(t, stuckRefunds{l}, httplimit.Options{
			Limits: []rules.NamedLimit{{Limit: l}}, Refund: func(int) bool { return true },
			MaxRefunds: 2, RefundTimeout: 70 * time.Millisecond,
		})
		start := time.Now()
		took := map[time.Duration]int{}
		var mu sync.Mutex
		var group sync.WaitGroup
		for range 5 {
			group.Go(func() {
				ask(m.Wrap(status(200)), newRequest("GET", "/"))
				mu.Lock()
				defer mu.Unlock()
				took[time.Since(start)]++
			})
		}
		group.Wait()
		if took[0] != 3 || took[70*time.Millisecond] != 2 {
			t.Errorf("requests took %v, want three at once and two 70 ms", took)
		}
		if s := m.Stats(); s.RefundsDropped != 5 || s.Refunded != 0 {
			t.Errorf("stats %+v, want %s dropped", s, strconv.Itoa(5))
		}
	})
}
