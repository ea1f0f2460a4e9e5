package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store/memstore"
)

// orders returns a service as a program would write it, with two limits in its code, and the
// clock of its store; nil is that of the machine.
func orders(t *testing.T, now func() limit.Micros) http.Handler {
	t.Helper()
	buckets, err := memstore.New(memstore.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := headgate.New(headgate.Options{Store: buckets})
	if err != nil {
		t.Fatal(err)
	}
	limits, err := httplimit.New(limiter, httplimit.Options{
		Limits: []rules.NamedLimit{
			{Name: "burst", Limit: limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 1, Period: time.Second})},
			{Name: "hourly", Limit: limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 2, Period: time.Hour})},
		},
		Answer: httplimit.Answer{Jitter: httplimit.ExactRetry},
	})
	if err != nil {
		t.Fatal(err)
	}
	return limits.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
}

// wantOrders asks a service of orders at instants that wait moves to.
func wantOrders(t *testing.T, service http.Handler, wait func(time.Duration)) {
	t.Helper()
	for i, step := range []struct {
		wait   time.Duration
		status int
		retry  string
	}{
		{0, 200, ""}, {0, 429, "1"}, {time.Second, 200, ""}, {time.Second, 429, "3598"}, {3598 * time.Second, 200, ""},
	} {
		wait(step.wait)
		w := httptest.NewRecorder()
		service.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/orders", nil))
		if w.Code != step.status || w.Header().Get("Retry-After") != step.retry {
			t.Errorf("step %d: status %d, retry after %q; want %+v", i, w.Code, w.Header().Get("Retry-After"), step)
		}
	}
}

// A program may test its limits in a bubble of testing/synctest: everything goes by its clock.
func TestProgramsTestInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { wantOrders(t, orders(t, nil), time.Sleep) })
}

// Or it may give the store a clock that it sets.
func TestProgramsTestWithTheirOwnClock(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	service := orders(t, func() limit.Micros { return limit.MicrosOf(now) })
	wantOrders(t, service, func(d time.Duration) { now = now.Add(d) })
}
