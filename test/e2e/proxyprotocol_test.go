package e2e

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
)

// TestProxyProtocolComesBeforeTLS, in `headgate proxy` behind a real HAProxy that speaks
// both versions: clients have a count each, though all connections are HAProxy's.
func TestProxyProtocolComesBeforeTLS(t *testing.T) {
	certs := testserver.NewCertificates(t)
	p := startProxy(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
		"domain: a\nmatch: path\ndescriptors:\n  - {key: remote_address, rate_limit: {window: 365d, requests_per_unit: 2, algorithm: fixed_window}}\n",
		"--tls-cert", certs.CertFile, "--tls-key", certs.KeyFile,
		"--proxy-protocol", "http", "--proxy-protocol-from", "127.0.0.1", "--proxy-protocol-others", "refuse")
	edge := testserver.HAProxy(t, testserver.GatewayConfig{Port: "8088", Text: fmt.Sprintf(`
defaults
  mode http
  timeout connect 30s
  timeout client 30s
  timeout server 30s
frontend edge
  bind 127.0.0.1:8088
  use_backend first if { path_beg /v1 }
  default_backend second
backend first
  server headgate %[1]s ssl verify none send-proxy
backend second
  server headgate %[1]s ssl verify none send-proxy-v2
`, p.addr)})
	from := func(client, path string) (int, error) {
		dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(client)}}
		transport := &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}
		resp, err := (&http.Client{Transport: transport}).Get("http://" + edge.Addr + path)
		if err != nil {
			return 0, err
		}
		return resp.StatusCode, resp.Body.Close()
	}
	for _, test := range []struct {
		client, path string
		want         int
	}{
		{"127.0.0.2", "/v1", 200}, {"127.0.0.2", "/v2", 200}, {"127.0.0.2", "/v1", 429}, {"127.0.0.2", "/v2", 429},
		{"127.0.0.3", "/v1", 200}, {"127.0.0.4", "/v2", 200},
	} {
		if got, err := from(test.client, test.path); got != test.want || err != nil {
			t.Errorf("%s %s: %d, %v, want %d\n%s", test.client, test.path, got, err, test.want, edge.Output())
		}
	}
	direct := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.5")}}
	if conn, err := tls.DialWithDialer(direct, "tcp", p.addr, certs.Client()); err == nil {
		conn.Close()
		t.Error("who is no load balancer is served")
	}
	if body := p.metrics(); !strings.Contains(body, `headgate_proxy_protocol_connections_total{listener="http",outcome="proxied"} 6`) || !strings.Contains(body, `outcome="refused"} 1`) {
		t.Errorf("connections are not counted: %s", body)
	}
}
