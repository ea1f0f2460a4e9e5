package middleware

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/headgate/headgate/httplimit"
)

func TestExamples(t *testing.T) {
	for name, wire := range map[string]func(*httplimit.Middleware) http.Handler{
		"net/http": netHTTP, "chi": withChi, "gin": withGin, "echo": withEcho,
	} {
		t.Run(name, func(t *testing.T) {
			limits, err := newLimits()
			if err != nil {
				t.Fatal(err)
			}
			server := httptest.NewServer(wire(limits))
			defer server.Close()
			for range 3 {
				r, err := http.Get(server.URL + "/broken")
				if err != nil {
					t.Fatal(err)
				}
				r.Body.Close()
				if r.StatusCode != 500 {
					t.Errorf("a broken handler: status %d, want 500, which does not count", r.StatusCode)
				}
			}
			for i, want := range []struct {
				status    int
				remaining string
			}{{200, "1"}, {200, "0"}, {429, "0"}} {
				r, err := http.Get(server.URL + "/orders/7")
				if err != nil {
					t.Fatal(err)
				}
				body, _ := io.ReadAll(r.Body)
				r.Body.Close()
				if r.StatusCode != want.status || r.Header.Get("X-RateLimit-Remaining") != want.remaining {
					t.Errorf("request %d: status %d, %q remain; want %+v", i, r.StatusCode, r.Header.Get("X-RateLimit-Remaining"), want)
				}
				if ran := string(body) == "order 7"; ran != (want.status == 200) {
					t.Errorf("request %d: body %q", i, body)
				}
			}
			r, err := http.Get(server.URL + "/healthz")
			if err != nil {
				t.Fatal(err)
			}
			r.Body.Close()
			if r.StatusCode != 200 || r.Header.Get("RateLimit") != "" {
				t.Errorf("health: status %d, header %v", r.StatusCode, r.Header)
			}
		})
	}
}
