package e2e

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/accesslog"
	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
)

// odd are what a client sends that logs must escape, or that could end a field.
const (
	oddTarget = "/v1/orders/7?q=%22x%22&p=a'b"
	oddAgent  = `agent "quoted" \ and more`
)

// askOddly sends a request with odd parts, and two plain ones.
func askOddly(t *testing.T, addr string) {
	t.Helper()
	for _, agent := range []string{oddAgent, "plain/1.0", "plain/1.0"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+oddTarget, strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("User-Agent", agent)
		r.Header.Set("Referer", `https://a.example/"`)
		r.Header.Set("X-Forwarded-For", "203.0.113.7")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}

// logLines waits until a log has n lines, and returns them.
func logLines(t *testing.T, path string, n int) (lines []string) {
	t.Helper()
	eventually.True(t, fmt.Sprintf("%s has %d lines", path, n), func() bool {
		text, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		lines = strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
		return len(lines) == n && strings.HasSuffix(string(text), "\n")
	})
	return lines
}

// recent reports whether a line is of the time of the test. nginx has whole seconds.
func recent(l *accesslog.Line, since time.Time) bool {
	return !l.At.Before(since.Truncate(time.Second)) && !l.At.After(time.Now())
}

// What nginx writes in its default format, combined, is read as it was sent.
func TestAccessLogOfNginx(t *testing.T) {
	log, began := filepath.Join(t.TempDir(), "access.log"), time.Now()
	server := testserver.Nginx(t, testserver.GatewayConfig{Port: "8088", Text: `events {}
http {
  server {
    listen 127.0.0.1:8088;
    access_log ` + log + `;
    location / { return 429; }
  }
}
`})
	askOddly(t, server.Addr)
	for i, line := range logLines(t, log, 3) {
		var l accesslog.Line
		if err := accesslog.ParseCombined(line, &l); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		agent := []string{oddAgent, "plain/1.0", "plain/1.0"}[i]
		if l.Method != http.MethodPost || l.Target != oddTarget || l.Peer != "127.0.0.1" || l.UserAgent != agent || l.Referer != `https://a.example/"` || l.Status != 429 || !recent(&l, began) {
			t.Errorf("%s: %+v", line, l)
		}
	}
}

// What Envoy writes in its default format is read as it was sent, and what its rate limit has
// denied is known.
func TestAccessLogOfEnvoy(t *testing.T) {
	log, began := filepath.Join(t.TempDir(), "access.log"), time.Now()
	server := testserver.Envoy(t, `
admin: {address: {socket_address: {address: 127.0.0.1, port_value: 0}}}
static_resources:
  listeners:
  - name: edge
    address: {socket_address: {address: 127.0.0.1, port_value: 0}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: edge
          use_remote_address: true
          access_log:
          - name: file
            typed_config: {"@type": type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog, path: "`+log+`"}
          http_filters:
          - name: envoy.filters.http.local_ratelimit
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit
              stat_prefix: local
              token_bucket: {max_tokens: 1, tokens_per_fill: 1, fill_interval: 86400s}
              filter_enabled: {default_value: {numerator: 100}}
              filter_enforced: {default_value: {numerator: 100}}
              status: {code: 403}
          - name: envoy.filters.http.router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes: [{match: {prefix: /}, direct_response: {status: 200}}]
`)
	askOddly(t, server.Listener("edge"))
	for i, line := range logLines(t, log, 3) {
		var l accesslog.Line
		if err := accesslog.ParseEnvoy(line, &l); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		agent := []string{oddAgent, "plain/1.0", "plain/1.0"}[i]
		if l.Method != http.MethodPost || l.Target != oddTarget || !strings.HasPrefix(l.ForwardedFor, "203.0.113.7,") || l.UserAgent != agent || l.Host != server.Listener("edge") || !recent(&l, began) {
			t.Errorf("%s: %+v", line, l)
		}
		if want := i > 0; l.Limited != want || (l.Status == 403) != want {
			t.Errorf("request %d: %s", i+1, line)
		}
	}
}
