package app

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/telemetry"
	"github.com/headgate/headgate/store/memstore"
)

// TestOpsChangesNothing: every route of the operators' address is one that reads, and no
// other method is served, but for dry runs and the symbols of profiles, which change
// nothing either.
func TestOpsChangesNothing(t *testing.T) {
	buckets, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := headgate.New(headgate.Options{Store: buckets})
	if err != nil {
		t.Fatal(err)
	}
	metrics := telemetry.New(telemetry.Build{}, telemetry.Options{})
	ops := opsHandler(&health{metrics: metrics, logger: quiet()}, limiter, http.NotFoundHandler(), http.NotFound)
	for line := range strings.Lines(opsIndex) {
		path, about, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || !strings.HasPrefix(path, "/") {
			continue
		}
		if posts := strings.Contains(about, "POST"); posts != (path == "/v1/explain") {
			t.Errorf("%s says that it takes POST: %v", path, posts)
		}
		if strings.HasPrefix(path, "/debug/pprof") || path == "/v1/explain" {
			continue
		}
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			w := httptest.NewRecorder()
			ops.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader("{}")))
			if w.Code != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: %d", method, path, w.Code)
			}
		}
	}
}
