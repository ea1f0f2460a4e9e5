package prometheus

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/internal/view"
)

// A node that is told of a Prometheus which scrapes another one under load shows what that one has
// answered, with the classic and with the native histograms, and names none that Prometheus does not know.
func TestHistoryFromPrometheus(t *testing.T) {
	t.Parallel()
	w := watch(t)
	for name, features := range map[string][]string{"classic": nil, "native": {"native-histograms"}} {
		t.Run(name, func(t *testing.T) {
			p := w.scrape(t, features...)
			get := historian(t, p)
			host, _, _ := strings.Cut(w.node.ops, ":")
			for _, query := range []string{"", "&node=" + host, "&node=" + w.node.ops} {
				var line view.PrometheusTimeline
				await(t, p, "the history "+query+" has requests", func() bool {
					status, body := get("prometheus/timeline?points=10" + query)
					if status == http.StatusNotFound { // not scraped twice yet
						return false
					}
					if status != http.StatusOK {
						t.Fatalf("%d %s", status, body)
					}
					if err := json.Unmarshal(body, &line); err != nil {
						t.Fatal(err)
					}
					n := len(line.Points)
					return n > 0 && line.Points[n-1].Rates.Allowed > 0 && line.Points[n-1].Rates.Denied > 0 && line.Points[n-1].P99 > 0
				})
				last := line.Points[len(line.Points)-1]
				if line.Step != 360 || last.P50 <= 0 || last.P50 > last.P99 || last.Rates.UnknownDomain != 0 {
					t.Errorf("%s: %+v", query, line)
				}
			}
			if status, body := get("prometheus/timeline?node=nobody"); status != http.StatusNotFound || !strings.Contains(string(body), "nobody") {
				t.Errorf("%d %s", status, body)
			}
			var there view.Prometheus
			if status, body := get("prometheus"); status != http.StatusOK || json.Unmarshal(body, &there) != nil || !there.Configured {
				t.Errorf("%d %s", status, body)
			}
		})
	}
}

// historian starts a headgate that asks p, and returns how its admin API is asked.
func historian(t *testing.T, p *testserver.PrometheusServer) func(path string) (int, []byte) {
	t.Helper()
	dir, token := t.TempDir(), "hga_test"
	for name, text := range map[string]string{
		"rules.yaml": proxyRules, "token": "any\n",
		"tokens.yaml": fmt.Sprintf("tokens:\n  - name: test\n    sha256: \"%x\"\n    scopes: [read]\n", sha256.Sum256([]byte(token))),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	address := fmt.Sprintf("127.0.0.1:%d", testserver.FreePort(t))
	start(t, "serve", "--grpc-addr", "127.0.0.1:0", "--rules", filepath.Join(dir, "rules.yaml"), "--layer", "backend",
		"--admin-addr", address, "--admin-tokens", filepath.Join(dir, "tokens.yaml"),
		"--prometheus-url", "http://"+p.Addr, "--prometheus-token-file", filepath.Join(dir, "token"))
	return func(path string) (int, []byte) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/admin/v1/"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, body
	}
}
