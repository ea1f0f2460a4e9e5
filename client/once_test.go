package client_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/client"
	"github.com/headgate/headgate/internal/httpcheck"
	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/repeat"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
)

// A call whose answer is lost on the way is sent again, and charged once: alone, in a batch
// with two checks that are equal, and by ids that the caller gives.
func TestF2LostAnswers(t *testing.T) {
	url := serve(t, newLimiter(t), httpcheck.Options{})
	straight := remote(t, client.CheckerOptions{URL: url})
	left := func(user string) int64 {
		responses := make([]headgate.Response, 1)
		if err := straight.Check(t.Context(), []headgate.Request{ask(0, "user", user)}, responses); err != nil {
			t.Fatal(err)
		}
		return responses[0].Speaker().Decision.Remaining
	}
	for name, c := range map[string]struct {
		requests []headgate.Request
		ids      []string
		charged  int64
	}{
		"one":   {[]headgate.Request{ask(1, "user", "one")}, nil, 1},
		"batch": {[]headgate.Request{ask(1, "user", "batch"), ask(1, "user", "batch")}, nil, 2},
		"ids":   {[]headgate.Request{ask(1, "user", "ids"), ask(1, "user", "ids")}, []string{"a", "a"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			lossy := remote(t, client.CheckerOptions{URL: "http://" + testserver.Forgetful(t, strings.TrimPrefix(url, "http://")), Retries: 1})
			responses := make([]headgate.Response, len(c.requests))
			var err error
			if c.ids == nil {
				err = lossy.Check(t.Context(), c.requests, responses)
			} else {
				err = lossy.CheckOnce(t.Context(), c.requests, c.ids, responses)
			}
			if err != nil {
				t.Fatal(err)
			}
			for i := range responses {
				if r := &responses[i]; !r.Allowed || r.Degraded() != store.NoReason {
					t.Errorf("response %d: %+v", i, r)
				}
			}
			if got := left(name); got != 5-c.charged {
				t.Errorf("%d of 5 are left, want %d", got, 5-c.charged)
			}
			if s := lossy.Stats(); s.Calls != 1 || s.Retried != 1 || s.Degraded != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
	// Without retries nothing is drawn and nothing is sent again.
	once := remote(t, client.CheckerOptions{URL: "http://" + testserver.Forgetful(t, strings.TrimPrefix(url, "http://"))})
	responses := make([]headgate.Response, 1)
	if err := once.Check(t.Context(), []headgate.Request{ask(1, "user", "lost")}, responses); err != nil || responses[0].Degraded() != store.Unavailable {
		t.Errorf("%v, %+v", err, responses[0])
	}
	if got := left("lost"); got != 4 {
		t.Errorf("%d of 5 are left: the server has decided", got)
	}
}

// TestF2SharesOfTheBudget: a server that does not answer at first leaves time for another try,
// and what was answered is not asked again.
func TestF2SharesOfTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, status := 0, 200
		far := remote(t, client.CheckerOptions{URL: "http://headgate.test", Retries: 1, Budget: time.Second, Transport: transportFunc(func(req *http.Request) (*http.Response, error) {
			if asked++; asked == 1 {
				return silent{}.RoundTrip(req)
			}
			return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"allowed":true}`))}, nil
		})})
		want := func(reason store.Reason, calls int) {
			t.Helper()
			responses := make([]headgate.Response, 1)
			if err := far.Check(t.Context(), []headgate.Request{ask(1, "user", "1")}, responses); err != nil || responses[0].Degraded() != reason || asked != calls {
				t.Errorf("%v, %+v after %d calls; want %q after %d", err, responses[0], asked, reason, calls)
			}
		}
		want(store.NoReason, 2)
		status = 401
		want(store.Misconfigured, 3)
	})
}

// TestF2StoreWithoutAnswers: a server whose store remembers no answers refuses ids. That is an
// error, and no outage of which three would let everything pass.
func TestF2StoreWithoutAnswers(t *testing.T) {
	buckets, err := memstore.New(memstore.Options{MaxBytes: memstore.MinMaxBytes})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { buckets.Close() })
	limiter, err := headgate.New(headgate.Options{Store: struct{ store.Store }{buckets}, Rules: testrules.Load(t, testRules)})
	if err != nil {
		t.Fatal(err)
	}
	c := remote(t, client.CheckerOptions{URL: serve(t, limiter, httpcheck.Options{}), Retries: 1})
	for range 4 {
		responses := []headgate.Response{{Allowed: true}}
		if err := c.Check(t.Context(), []headgate.Request{ask(1, "user", "1")}, responses); !errors.Is(err, repeat.ErrNoStore) || responses[0].Allowed {
			t.Errorf("%v, %+v", err, responses[0])
		}
	}
	if s := c.Stats(); s.Refused != 4 || s.Retried != 0 || s.Degraded != 0 {
		t.Errorf("%+v", s)
	}
}

func TestF2CheckOnceOverTheWire(t *testing.T) {
	c := remote(t, client.CheckerOptions{URL: serve(t, newLimiter(t), httpcheck.Options{})})
	check := func(id string, hits int64) (*headgate.Response, error) {
		responses := make([]headgate.Response, 1)
		err := c.CheckOnce(t.Context(), []headgate.Request{ask(hits, "user", "u")}, []string{id}, responses)
		return &responses[0], err
	}
	for _, id := range []string{"1", "1", "é \x00\"", "é \x00\""} {
		if r, err := check(id, 1); err != nil || !r.Allowed {
			t.Fatalf("%q: %v", id, err)
		}
	}
	if r, err := check("1", 1); err != nil || r.Speaker().Decision.Remaining != 4 {
		t.Errorf("%v, %+v", err, r.Speaker())
	}
	if r, err := check("", 1); err != nil || r.Speaker().Decision.Remaining != 2 {
		t.Errorf("no id: %v, %+v", err, r.Speaker())
	}
	if _, err := check("1", 2); !errors.Is(err, repeat.ErrConflict) {
		t.Errorf("other hits: %v", err)
	}
	for _, id := range []string{strings.Repeat("x", 257), "\xff"} {
		if _, err := check(id, 1); !errors.Is(err, repeat.ErrID) {
			t.Errorf("%.9q: %v", id, err)
		}
	}
	if err := c.CheckOnce(t.Context(), []headgate.Request{ask(1, "user", "u")}, nil, make([]headgate.Response, 1)); err == nil {
		t.Error("fewer ids than requests")
	}
	if _, err := client.NewChecker(client.CheckerOptions{URL: "http://h", Retries: client.MaxRetries + 1}); err == nil {
		t.Error("too many retries")
	}
}
