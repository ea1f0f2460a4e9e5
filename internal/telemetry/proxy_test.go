package telemetry

import (
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestProxyMetrics(t *testing.T) {
	m := New(Build{}, Options{})
	backend := m.WatchProxy(func() Proxy {
		return Proxy{
			Answered: 1, Broken: 2, Unreachable: 3, TimedOut: 4, TooLarge: 5, BadBody: 6, NotForwarded: 7,
			Denied: 8, Unavailable: 9, Refused: 10, Left: 11, InFlight: 12, Upgraded: 13,
		}
	})
	backend(30 * time.Millisecond)
	w := httptest.NewRecorder()
	m.Handler(slog.New(slog.DiscardHandler)).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, line := range []string{
		`headgate_proxy_requests_total{outcome="answered"} 1`,
		`headgate_proxy_requests_total{outcome="backend_broken"} 2`,
		`headgate_proxy_requests_total{outcome="backend_unreachable"} 3`,
		`headgate_proxy_requests_total{outcome="backend_timeout"} 4`,
		`headgate_proxy_requests_total{outcome="body_too_large"} 5`,
		`headgate_proxy_requests_total{outcome="bad_body"} 6`,
		`headgate_proxy_requests_total{outcome="not_forwarded"} 7`,
		`headgate_proxy_requests_total{outcome="denied"} 8`,
		`headgate_proxy_requests_total{outcome="unavailable"} 9`,
		`headgate_proxy_requests_total{outcome="refused"} 10`,
		`headgate_proxy_requests_total{outcome="client_left"} 11`,
		`headgate_proxy_in_flight 12`,
		`headgate_proxy_upgraded_connections 13`,
		`headgate_proxy_backend_duration_seconds_bucket{le="0.025"} 0`,
		`headgate_proxy_backend_duration_seconds_bucket{le="0.05"} 1`,
	} {
		if !strings.Contains(w.Body.String(), line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
}
