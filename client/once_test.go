package client_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/client"
	"github.com/headgate/headgate/internal/httpcheck"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/repeat"
	"github.com/headgate/headgate/store"
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
