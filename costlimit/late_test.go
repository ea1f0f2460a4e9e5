package costlimit_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/answercost"
	"github.com/headgate/headgate/costlimit"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/reservation"
)

// troubled is a limiter of which the first commits come to nothing.
type troubled struct {
	*headgate.Limiter
	failures int
	err      error
}

func (l *troubled) Commit(ctx context.Context, r reservation.Reservation, a reservation.Actual, resp *headgate.Response) (reservation.Outcome, error) {
	if l.failures > 0 {
		l.failures--
		return reservation.Undecided, l.err
	}
	return l.Limiter.Commit(ctx, r, a, resp)
}

// askTroubled asks once, for an answer of 450 tokens of output of which 100 were estimated.
func askTroubled(t *testing.T, l *troubled) (*chain, *costlimit.Middleware) {
	t.Helper()
	m, err := costlimit.New(l, costlimit.Options{Limits: httplimit.Options{Domain: "llm", Identify: byUser}, Shape: newShape(t, answercost.OpenAI())})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("POST", "/", strings.NewReader(question))
	r.Header.Set("X-User", "alice")
	w := httptest.NewRecorder()
	m.Wrap(answering("application/json", `{"usage":{"prompt_tokens":7,"completion_tokens":450}}`)).ServeHTTP(w, r)
	if w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return &chain{t: t, limiter: l.Limiter, costs: m}, m
}

// TestLateCommits: what the store did not answer is tried again, and given up in the end.
func TestLateCommits(t *testing.T) {
	for _, tt := range []struct {
		failures   int
		left, lost int64
	}{{2, 1000 - 457, 0}, {99, 1000 - 109, 1}} {
		synctest.Test(t, func(t *testing.T) {
			c, m := askTroubled(t, &troubled{Limiter: newLimiter(t, budgets), failures: tt.failures})
			if got := c.left(aliceTotal); got != 1000-109 {
				t.Errorf("at first %d left", got)
			}
			_ = sleep.For(t.Context(), time.Minute)
			synctest.Wait()
			if got, s := c.left(aliceTotal), m.Stats(); got != tt.left || s.Late != 1 || s.Lost != uint64(tt.lost) {
				t.Errorf("%d failures: %d left, want %d; %+v", tt.failures, got, tt.left, s)
			}
		})
	}
}

// TestExpired: an answer that took longer than its reservation is charged what was beyond.
func TestExpired(t *testing.T) {
	c, m := askTroubled(t, &troubled{Limiter: newLimiter(t, budgets), failures: 1, err: reservation.ErrExpired})
	if got, s := c.left(aliceTotal), m.Stats(); got != 1000-457 || s.Lost+s.Late != 0 {
		t.Errorf("%d left, want %d; %+v", got, 1000-457, s)
	}
}

// TestDeniedChargesOfEnvoy: hits that do not fit are charged where denied ones count.
func TestDeniedChargesOfEnvoy(t *testing.T) {
	for rule, want := range map[string]bool{"": true, ", count_denied: true": false} {
		l := newLimiter(t, "domain: llm\nmatch: path\ndescriptors:\n  - key: user\n    rate_limit: {algorithm: fixed_window, unit: day, requests_per_unit: 100"+rule+"}")
		hits := func(n int64) bool {
			requests := []headgate.Request{{Domain: "llm", Descriptors: []headgate.Descriptor{{Entries: []descriptor.Entry{{Key: "user", Value: "a"}}, Hits: n}}}}
			responses := make([]headgate.Response, 1)
			if err := l.Check(t.Context(), requests, responses); err != nil {
				t.Fatal(err)
			}
			return responses[0].Allowed
		}
		hits(90)
		hits(500)
		if got := hits(1); got != want {
			t.Errorf("%q: after too many hits one passes: %v, want %v", rule, got, want)
		}
	}
}
