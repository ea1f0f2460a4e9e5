package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	waits "github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
)

// TestCertificateUnderLoad: while callers ask over connections of their own, the
// certificate changes, to a broken one and to a good one. No call fails; in the end the new
// one is shown, and the log has the broken one.
func TestCertificateUnderLoad(t *testing.T) {
	certs := testserver.NewCertificates(t)
	dir := t.TempDir()
	s := settings()
	s.TLSCert, s.TLSKey = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	install := func(cert, key string) {
		t.Helper()
		for from, to := range map[string]string{cert: s.TLSCert, key: s.TLSKey} {
			text, err := os.ReadFile(from)
			if err != nil {
				t.Fatal(err)
			}
			writeFile(t, to, string(text))
		}
	}
	install(certs.CertFile, certs.KeyFile)
	var log syncBuffer
	at := startAuth(t, s, slog.New(slog.NewTextHandler(&log, nil)))
	ask := func() (serial string, err error) {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: certs.Client(), DisableKeepAlives: true}, Timeout: waits.Patience}
		resp, err := client.Get("https://" + at["http"] + "/healthcheck")
		if err != nil {
			return "", err
		}
		resp.Body.Close()
		return resp.TLS.PeerCertificates[0].SerialNumber.String(), nil
	}
	before, err := ask()
	if err != nil {
		t.Fatal(err)
	}
	until := func(what string, done func(serial string) bool) {
		t.Helper()
		waits.True(t, what, func() bool {
			serial, err := ask()
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			return done(serial)
		})
	}
	writeFile(t, s.TLSKey, "broken")
	until("the broken one is told of", func(string) bool { return strings.Contains(log.String(), "cannot be used") })
	install(certs.Issue(t, testserver.Leaf{}))
	until("the new one is shown", func(serial string) bool { return serial != before })
}

// TestStrangersAtTLS: who speaks plain text, an old version or has no certificate gets
// nothing, is counted, and costs the others nothing.
func TestStrangersAtTLS(t *testing.T) {
	certs := testserver.NewCertificates(t)
	n := startSecured(t, certs, quiet(), "grpc-go")
	if resp, err := http.Get("http" + strings.TrimPrefix(n.base, "https") + "/healthcheck"); err != nil || resp.StatusCode != http.StatusBadRequest {
		t.Errorf("plain text: %v, %v", resp, err)
	} else {
		resp.Body.Close()
	}
	for name, config := range map[string]*tls.Config{
		"no certificate": certs.Client(),
		"TLS 1.1":        {RootCAs: certs.Client().RootCAs, ServerName: "localhost", MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11},
	} {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}, Timeout: waits.Patience}
		if resp, err := client.Get(n.base + "/healthcheck"); err == nil {
			resp.Body.Close()
			t.Errorf("%s: %s", name, resp.Status)
		}
	}
	if got := n.post("/v1/check", `{"domain":"d","descriptors":[{"descriptor":"user:u"}]}`, ""); got != 200 {
		t.Errorf("another: %d", got)
	}
}

// TestOpenPortsAreTold: at the start, in one line, and not of those of this machine.
func TestOpenPortsAreTold(t *testing.T) {
	for addr, want := range map[string]int{"127.0.0.1:0": 0, "0.0.0.0:0": 1} {
		s := settings()
		s.HTTPAddr, s.GRPCAddr = addr, addr
		var log syncBuffer
		startAuth(t, s, slog.New(slog.NewTextHandler(&log, nil)))
		line := fmt.Sprintf("http=%s grpc=%s", addr, addr)
		if got := strings.Count(log.String(), "neither TLS nor a token"); got != want || want > 0 && !strings.Contains(log.String(), line) {
			t.Errorf("%s: %d lines\n%s", addr, got, log.String())
		}
	}
}

// TestOpenPortOfOperatorsIsTold: whatever is served for others, with a hint that is of use there.
func TestOpenPortOfOperatorsIsTold(t *testing.T) {
	backend := httptest.NewServer(http.NotFoundHandler())
	defer backend.Close()
	for addr, want := range map[string]int{"127.0.0.1:0": 0, "0.0.0.0:0": 1} {
		serve, proxy := settings(), proxyBefore(t, backend.URL, twoADay)
		serve.OpsAddr, proxy.OpsAddr, proxy.HTTPAddr = addr, addr, addr
		for name, run := range map[string]func(context.Context, Options) error{
			"serve": func(ctx context.Context, o Options) error { return Run(ctx, serve, o) },
			"proxy": func(ctx context.Context, o Options) error { return RunProxy(ctx, proxy, o) },
		} {
			var log syncBuffer
			startRun(t, run, slog.New(slog.NewTextHandler(&log, nil)))
			line := "neither TLS nor a token; hint: --ops-tls-cert and --ops-client-ca, or an address of 127.0.0.1; see docs/security.md\" ports=\"ops=" + addr + "\""
			if got := strings.Count(log.String(), "neither TLS"); got != want || want > 0 && !strings.Contains(log.String(), line) {
				t.Errorf("%s at %s: %d lines\n%s", name, addr, got, log.String())
			}
		}
	}
}

// TestOperatorsOverTLS: who shows a certificate reads metrics, and has the rights of the
// certificate; the others get nothing. The name in Host is then the certificate's business.
func TestOperatorsOverTLS(t *testing.T) {
	certs := testserver.NewCertificates(t)
	cert, key := certs.Issue(t, testserver.Leaf{URIs: []string{"spiffe://prod/prometheus"}})
	s := settings()
	s.OpsTLSCert, s.OpsTLSKey, s.OpsClientCA, s.MetricsAddr, s.MetricsPath = certs.CertFile, certs.KeyFile, certs.CAFile, "127.0.0.1:0", "/metrics"
	s.Callers.Callers = filepath.Join(t.TempDir(), "callers.yaml")
	writeFile(t, s.Callers.Callers, "anonymous: {ops: []}\ncertificates: [{name: 'uri:spiffe://prod/prometheus', rights: [explain], listeners: [ops]}]\n")
	at := startAuth(t, s, quiet())
	shown := &http.Client{Transport: &http.Transport{TLSClientConfig: certs.ClientWith(t, cert, key), ForceAttemptHTTP2: true}, Timeout: waits.Patience}
	t.Cleanup(shown.CloseIdleConnections)
	status := func(client *http.Client, method, url, body string) int {
		r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Host = "headgate.example"
		resp, err := client.Do(r)
		if err != nil {
			return 0
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	for _, name := range []string{"ops", "metrics"} {
		url := at[name] + "/metrics"
		if got := status(shown, http.MethodGet, "https://"+url, ""); got != http.StatusOK {
			t.Errorf("%s with a certificate: %d", name, got)
		}
		if got := status(&http.Client{Transport: &http.Transport{TLSClientConfig: certs.Client(), DisableKeepAlives: true}, Timeout: waits.Patience}, http.MethodGet, "https://"+url, ""); got != 0 {
			t.Errorf("%s without a certificate: %d", name, got)
		}
		if got := status(http.DefaultClient, http.MethodGet, "http://"+url, ""); got != http.StatusBadRequest {
			t.Errorf("%s in plain text: %d", name, got)
		}
	}
	const explain = `{"domain":"d","descriptors":[{"entries":[{"key":"user","value":"u"}]}]}`
	if got := status(shown, http.MethodPost, "https://"+at["ops"]+"/v1/explain", explain); got != http.StatusOK {
		t.Errorf("explain by a certificate: %d", got)
	}
}

// TestProbesReachHealthAlone: at their address there is nothing else, and of the rules and
// the store nothing is said there.
func TestProbesReachHealthAlone(t *testing.T) {
	s := settings()
	s.HealthAddr = "127.0.0.1:0"
	at := startAuth(t, s, quiet())
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 404, "/debug/pprof/": 404, "/rules": 404, "/switches": 404, "/v1/explain": 404, "/": 404} {
		if status, _ := get(t, "http://"+at["health"]+path); status != want {
			t.Errorf("%s: %d", path, status)
		}
	}
	if _, body := get(t, "http://"+at["health"]+"/readyz"); body != "{\n  \"ready\": true\n}\n" {
		t.Errorf("probes hear %s", body)
	}
}
