package httpshed_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/headgate/headgate/internal/alloctest"
	"github.com/headgate/headgate/overload"
	"github.com/headgate/headgate/overload/httpshed"
)

// discard is a ResponseWriter that keeps its header map, with what that of a
// server has beyond.
type discard struct {
	http.ResponseWriter
	http.Hijacker
	header http.Header
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(int)             {}
func (d *discard) Flush()                      {}

// TestAllocations: an admitted request takes one allocation, for the
// ResponseWriter around that of the server.
func TestAllocations(t *testing.T) {
	h, r := admitting(t)
	for name, w := range map[string]http.ResponseWriter{"plain": plain{httptest.NewRecorder()}, "server": &discard{header: http.Header{}}} {
		if got := alloctest.PerRun(1000, func() { h.ServeHTTP(w, r) }); got != 1 {
			t.Errorf("%s: %v allocations, want 1", name, got)
		}
	}
}

type plain struct{ http.ResponseWriter }

func admitting(t testing.TB) (http.Handler, *http.Request) {
	t.Helper()
	classifier, err := overload.NewClassifier(overload.ClassifierOptions{
		Paths: []overload.PathPriority{{Method: "POST", Pattern: "/v1/charges", Priority: overload.P0}},
	})
	if err != nil {
		t.Fatal(err)
	}
	m := newMiddleware(t, httpshed.Options{Gate: overload.NewGate(nil, newWorker(t, overload.Options{})), Classifier: classifier, Header: "X-Priority"})
	r := httptest.NewRequest("GET", "/v1/orders/42", nil)
	r.Header.Set("X-Priority", "p2")
	return m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })), r
}

func BenchmarkAdmitted(b *testing.B) {
	h, r := admitting(b)
	w := &discard{header: http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(w, r)
	}
}

func BenchmarkRefused(b *testing.B) {
	m := newMiddleware(b, httpshed.Options{Gate: overload.NewGate(nil, full(b))})
	h, r := m.Wrap(http.NotFoundHandler()), httptest.NewRequest("GET", "/v1/orders/42", nil)
	w := &discard{header: http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(w, r)
	}
}
