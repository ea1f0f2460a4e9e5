package telemetry

import (
	"net/http/httptest"
	"strings"
	"testing"
)

// Each figure is a line of its name, its labels and a value, and nothing of the command line
// is among them.
func TestStats(t *testing.T) {
	m := everything(t, Options{EnvoyNames: true})
	recorder := httptest.NewRecorder()
	m.Stats().ServeHTTP(recorder, httptest.NewRequest("GET", "/stats", nil))
	lines := strings.Split(strings.TrimSpace(recorder.Body.String()), "\n")
	expectLines(t, lines, "headgate_store_up: 0", `ratelimit_service_total_requests{grpc_method="ShouldRateLimit"}: 128`)
	for _, line := range lines {
		if name, value, ok := strings.Cut(line, ": "); !ok || name == "" || value == "" || strings.Contains(name, "cmdline") {
			t.Errorf("%q is no figure", line)
		}
	}
}
