package app

import (
	"compress/gzip"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/config"
	waits "github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/telemetry"
)

// TestMetricsAreSent: what is decided is in the metrics that a collector gets, which the setting or
// the environment names, and which is told the secrets of its header alone.
func TestMetricsAreSent(t *testing.T) {
	var decided, authorized atomic.Bool
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := gzip.NewReader(r.Body)
		if err != nil {
			return
		}
		text, _ := io.ReadAll(body)
		authorized.Store(r.Header.Get("Api-Key") == "hunter2secret")
		if strings.Contains(string(text), "headgate_requests_total") && strings.Contains(string(text), "gate-7") && r.URL.Path == "/v1/metrics" {
			decided.Store(true)
		}
	}))
	defer collector.Close()
	for name, tt := range map[string]struct {
		setting string
		env     map[string]string
	}{
		"by the setting":     {collector.URL, map[string]string{"OTEL_SDK_DISABLED": "true"}},
		"by the environment": {"", map[string]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": collector.URL + "/v1/metrics"}},
		"by that of all":     {"", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL, "OTEL_METRICS_EXPORTER": "otlp"}},
	} {
		t.Run(name, func(t *testing.T) {
			decided.Store(false)
			authorized.Store(false)
			s := settings()
			s.NodeName, s.MetricsInterval = "gate-7", time.Second
			if tt.setting != "" {
				s.MetricsEndpoint = config.NewStoreURL(tt.setting)
			}
			tt.env["OTEL_EXPORTER_OTLP_HEADERS"] = "api-key=hunter2secret"
			var log syncBuffer
			r := runWith(t, s, Options{Build: telemetry.Build{Version: "test"}, Logger: slog.New(slog.NewTextHandler(&log, nil)), Getenv: func(name string) string { return tt.env[name] }})
			r.ask(t, `{"key":"k","limit":5,"window_ms":60000}`)
			waits.True(t, "metrics at the collector", func() bool { return decided.Load() && authorized.Load() })
			r.shows(t, "/metrics", `headgate_metric_exports_total{outcome="sent"}`)
			if strings.Contains(log.String(), "hunter2") {
				t.Error("the log tells a secret")
			}
		})
	}
}

// TestMetricsThatAreNotSent: a collector of all signals asks for none, and what is wrong with the
// environment ends the start only where a setting asks.
func TestMetricsThatAreNotSent(t *testing.T) {
	for name, tt := range map[string]struct {
		setting  string
		interval time.Duration
		env      map[string]string
		refused  string
		logged   string
	}{
		"that of traces":         {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}},
		"bad, and not asked":     {env: map[string]string{"OTEL_EXPORTER_OTLP_HEADERS": "nothing"}},
		"bad, by itself":         {env: map[string]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, logged: "in a way that cannot be heeded"},
		"bad, and asked for":     {setting: "http://127.0.0.1:1", env: map[string]string{"OTEL_EXPORTER_OTLP_HEADERS": "nothing"}, refused: "--metrics-endpoint: OTEL_EXPORTER_OTLP_HEADERS: pair 1"},
		"a query":                {setting: "http://127.0.0.1:1/?a", refused: "--metrics-endpoint: a query or a fragment"},
		"an interval of nothing": {interval: time.Minute, refused: "--metrics-interval: no collector is named"},
	} {
		t.Run(name, func(t *testing.T) {
			s := settings()
			s.MetricsInterval = tt.interval
			if tt.setting != "" {
				s.MetricsEndpoint = config.NewStoreURL(tt.setting)
			}
			var log syncBuffer
			o := Options{Build: telemetry.Build{Version: "test"}, Logger: slog.New(slog.NewTextHandler(&log, nil)), Out: io.Discard, Getenv: func(name string) string { return tt.env[name] }}
			if tt.refused != "" {
				if err := Run(t.Context(), s, o); err == nil || !strings.Contains(err.Error(), tt.refused) {
					t.Errorf("%v, want %q", err, tt.refused)
				}
				return
			}
			r := runWith(t, s, o)
			if _, metrics := get(t, "http://"+r.ops+"/metrics"); strings.Contains(metrics, "headgate_metric_exports_total") {
				t.Error("metrics are sent")
			}
			if tt.logged == "" && strings.Contains(log.String(), "OTEL_") || !strings.Contains(log.String(), tt.logged) {
				t.Errorf("the log, which should say %q:\n%s", tt.logged, log.String())
			}
		})
	}
}
