package problems

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestMux: what a mux has no route for is a problem, and what it has one for is its own.
func TestMux(t *testing.T) {
	routes := http.NewServeMux()
	routes.HandleFunc("GET /a/{$}", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "mine", http.StatusNotFound) })
	h := Mux(routes)
	for _, c := range []struct {
		method, path       string
		status             int
		media, allow, kind string
	}{
		{"GET", "/a/", 404, "text/plain; charset=utf-8", "", ""},
		{"POST", "/a/", 405, MediaType, "GET, HEAD", Type(405)},
		{"GET", "/b", 404, MediaType, "", NoPath},
		{"GET", "/x/../a/", 307, "text/html; charset=utf-8", "", ""},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(c.method, c.path, nil))
		if w.Code != c.status || w.Header().Get("Content-Type") != c.media || w.Header().Get("Allow") != c.allow {
			t.Errorf("%s %s: %d %v", c.method, c.path, w.Code, w.Header())
		}
		if c.kind != "" && !strings.Contains(w.Body.String(), `"type":"`+c.kind+`"`) {
			t.Errorf("%s %s: %s", c.method, c.path, w.Body)
		}
	}
}
