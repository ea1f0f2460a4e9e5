package forwardauth_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// BenchmarkSubRequest is one sub-request of nginx, without its connection.
func BenchmarkSubRequest(b *testing.B) {
	h := setup{rules: "domain: edge\ndescriptors: [{key: remote_address, rate_limit: {unit: second, requests_per_unit: 1000000}}]\n"}.make(b)
	base := recorded(b, "nginx")
	b.ReportAllocs()
	for b.Loop() {
		r := *base
		r.Header = http.Header{}
		for name, values := range base.Header {
			r.Header[name] = values
		}
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, &r); w.Code != http.StatusOK {
			b.Fatal(w.Code)
		}
	}
}
