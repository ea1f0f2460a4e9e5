package hostguard

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestNamedHosts: a page that has its name lead to an address of operators gets nothing
// there, and who asks as operators and Prometheus do is answered.
func TestNamedHosts(t *testing.T) {
	refused, asked := 0, 0
	h := Handler("gate.example.com:9090", "x.example, metrics.example.org", http.NotFoundHandler(), func(*http.Request) { refused++ })
	for host, want := range map[string]int{
		"127.0.0.1:9090": 404, "[::1]:9090": 404, "[::1]": 404, "10.2.3.4": 404, "localhost:9090": 404, "LOCALHOST": 404, "a.localhost": 404,
		"headgate:9090": 404, "headgate.monitoring:9090": 404, "headgate.monitoring.svc.cluster.local:9090": 404, "gate-0.internal": 404, "nas.lan": 404,
		"gate.example.com": 404, "GATE.example.com.:9090": 404, "metrics.example.org:1": 404, "": 404,
		"evil.example.com": 421, "evil.com:9090": 421, "127.0.0.1.evil.com": 421, "7f000001.rbndr.us:9090": 421, "x.github.io": 421, "a.co.uk": 421,
		"localhost.evil.dev": 421, "EVIL.COM.": 421, "127.0.0.1.nip.io": 421, "evil.com:9090:9090": 421, "[evil.com]": 421, "xn--bcher-kva.com": 421,
	} {
		r := httptest.NewRequest("GET", "/metrics", nil)
		r.Host = host
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != want {
			t.Errorf("%q: %d, want %d", host, w.Code, want)
		}
		if want == http.StatusMisdirectedRequest {
			asked++
		}
	}
	if refused != asked {
		t.Errorf("%d refusals were told, want %d", refused, asked)
	}
}
