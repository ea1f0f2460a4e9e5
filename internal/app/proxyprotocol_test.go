package app

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
)

// askRaw sends bytes to a listener and returns the first line of its answer, "" where it
// hangs up.
func askRaw(t *testing.T, addr, text string) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, text); err != nil {
		return ""
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil && line != "" {
		t.Fatalf("%q, %v", line, err)
	}
	return strings.TrimSpace(line)
}

// TestProxyProtocolOfServe: the listeners that are named take the header, and nothing
// without it; what it tells is the client, also to those who may ask at all.
func TestProxyProtocolOfServe(t *testing.T) {
	s := authSettings(t, "edge")
	s.AuthPeers = "198.51.100.0/24"
	s.ProxyProtocol, s.ProxyProtocolFrom = "http,auth,ops", "127.0.0.0/8"
	at := startAuth(t, s, quiet())
	const health, ok = "GET /healthcheck HTTP/1.0\r\n\r\n", "HTTP/1.0 200 OK"
	const header = "PROXY TCP4 198.51.100.7 192.0.2.1 4711 80\r\n"
	for text, want := range map[string]string{
		header + health: ok,
		"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\xc6\x33\x64\x07\xc0\x00\x02\x01\x12\x67\x00\x50" + health: ok,
		"PROXY UNKNOWN\r\n" + health:          ok,
		health:                                "",
		"PROXY TCP4 nobody\r\n" + health:      "",
		strings.Repeat("x", 5000) + health:    "",
		"\r\n\r\n\x00\r\nQUIT\n\x2f" + health: "",
	} {
		if got := askRaw(t, at["http"], text); got != want {
			t.Errorf("%.60q: %q, want %q", text, got, want)
		}
	}
	const question = "GET /auth/traefik HTTP/1.0\r\nX-Forwarded-Method: GET\r\nX-Forwarded-Uri: /\r\nX-Forwarded-For: 203.0.113.9\r\n\r\n"
	if got := askRaw(t, at["auth"], header+question); got != ok {
		t.Errorf("a gateway behind a load balancer: %q", got)
	}
	if got := askRaw(t, at["auth"], strings.Replace(header, "198.51.100.7", "203.0.113.1", 1)+question); got == ok {
		t.Errorf("a stranger behind a load balancer: %q", got)
	}
	if got := askRaw(t, at["ops"], header+"GET /healthz HTTP/1.0\r\n\r\n"); got != ok {
		t.Errorf("ops: %q", got)
	}
	// The address is of this machine, and those who come through the load balancer are not.
	const body = `{"key":"k","limit":1,"window_ms":1000}`
	if got := askRaw(t, at["http"], header+fmt.Sprintf("POST /v1/check HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)); got != "HTTP/1.0 403 Forbidden" {
		t.Errorf("a limit of a stranger: %q", got)
	}
	s = settings()
	s.ProxyProtocol, s.ProxyProtocolFrom = "htpp", "127.0.0.0/8"
	if err := Run(t.Context(), s, Options{Logger: quiet(), Out: io.Discard}); err == nil || !strings.Contains(err.Error(), `no listener "htpp"; hint: this process has http, grpc, ops`) {
		t.Errorf("a listener that is none: %v", err)
	}
}

// TestOthersThanTheBalancer: who does not come through the load balancer is served, or refused where
// that is set; and connections are counted by what became of them.
func TestOthersThanTheBalancer(t *testing.T) {
	const health = "GET /healthcheck HTTP/1.0\r\n\r\n"
	for _, tt := range []struct{ from, others, said, want, outcome string }{
		{"192.0.2.0/24", "serve", health, "HTTP/1.0 200 OK", ""},
		{"192.0.2.0/24", "refuse", health, "", "refused"},
		{"127.0.0.0/8", "refuse", "PROXY TCP4 198.51.100.7 192.0.2.1 4711 80\r\n" + health, "HTTP/1.0 200 OK", "proxied"},
		{"127.0.0.0/8", "refuse", health, "", "bad"},
	} {
		s := settings()
		s.ProxyProtocol, s.ProxyProtocolFrom, s.ProxyProtocolOthers = "http", tt.from, tt.others
		r := run(t, s, nil)
		if got := askRaw(t, r.http, tt.said); got != tt.want {
			t.Errorf("%+v: %q", tt, got)
		}
		for _, outcome := range []string{"proxied", "bad", "refused"} {
			count := 0
			if outcome == tt.outcome {
				count = 1
			}
			r.shows(t, "/metrics", fmt.Sprintf("headgate_proxy_protocol_connections_total{listener=\"http\",outcome=%q} %d\n", outcome, count))
		}
		r.end(t)
	}
}
