package app

import (
	"net/http"
	"strings"
	"testing"
)

// TestOpsAnswersItsNames: nobody's web page reads metrics or explains decisions by a name
// of its own, and the setting lets a name in. Who was turned away is counted.
func TestOpsAnswersItsNames(t *testing.T) {
	s := settings()
	s.AllowedHosts = "metrics.example.com"
	r := run(t, s, nil)
	for host, want := range map[string]int{"": 200, "headgate.monitoring:6070": 200, "metrics.example.com": 200, "rebound.example.net:6070": 421} {
		for _, path := range []string{"/metrics", "/rules", "/debug/pprof/heap"} {
			req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+r.ops+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Host = host
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("%s of %q: %d, want %d", path, host, resp.StatusCode, want)
			}
		}
	}
	_, metrics := get(t, "http://"+r.ops+"/metrics")
	if want := `headgate_auth_refused_total{door="ops",reason="other_host"} 3`; !strings.Contains(metrics, want+"\n") {
		t.Errorf("metrics do not have %s", want)
	}
}

// TestHTTPAnswersItsNames: where whoever is on this machine may give back hits, no web page
// does so by a name of its own. Elsewhere rights are by credentials, and names do not matter.
func TestHTTPAnswersItsNames(t *testing.T) {
	const refund = `{"domain":"d","descriptors":[{"descriptor":"user:ann","op":"reset"}]}`
	open, closed := true, false
	for name, tt := range map[string]struct {
		limits         *bool
		rebound, local int
	}{
		"by the address": {nil, http.StatusMisdirectedRequest, http.StatusOK},
		"for all":        {&open, http.StatusOK, http.StatusOK},
		"for nobody":     {&closed, http.StatusForbidden, http.StatusForbidden},
	} {
		s := settings()
		s.HTTPAddr, s.CallerLimits = "127.0.0.1:0", tt.limits
		r := run(t, s, nil)
		for host, want := range map[string]int{"rebound.example.net:8080": tt.rebound, "localhost:8080": tt.local} {
			req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+r.http+"/v1/check", strings.NewReader(refund))
			if err != nil {
				t.Fatal(err)
			}
			req.Host = host
			req.Header.Set("Content-Type", "application/json")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("%s, host %q: %d, want %d", name, host, resp.StatusCode, want)
			}
		}
	}
}
