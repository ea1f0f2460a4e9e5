package httplimit_test

import (
	"net/http"
	"testing"

	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/limit"
)

func TestGuard(t *testing.T) {
	guard, err := httplimit.Guard(limit.PerHour(3), limit.PerDay(2))
	if err != nil {
		t.Fatal(err)
	}
	h := guard.Wrap(status(200))
	var last *http.Response
	for range 3 {
		last = ask(h, newRequest("GET", "/"))
	}
	if got := last.Header.Get("RateLimit-Policy"); last.StatusCode != 429 || got != `"1h";q=3;w=3600, "1d";q=2;w=86400` {
		t.Errorf("status %d, RateLimit-Policy %q", last.StatusCode, got)
	}
	for name, rates := range map[string][]limit.Spec{"none": nil, "bad": {{}}, "twice": {limit.PerHour(1), limit.PerHour(2)}} {
		if _, err := httplimit.Guard(rates...); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
