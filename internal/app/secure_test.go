package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/headgate/headgate/internal/callers"
	waits "github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
)

// secured is a process whose callers have rights, and what asks it.
type secured struct {
	t      *testing.T
	base   string
	client *http.Client
	rls    rlsv3.RateLimitServiceClient
	tokens map[string]string // by the one right that each has
}

// startSecured starts one with a token for each right, by TLS where certificates are
// given.
func startSecured(t *testing.T, certs *testserver.Certificates, logger *slog.Logger) *secured {
	t.Helper()
	s := settings()
	dir := t.TempDir()
	s.Rules = filepath.Join(dir, "rules.yaml")
	writeFile(t, s.Rules, "domain: d\ndescriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 100000, algorithm: fixed_window}}]\n")
	n := &secured{t: t, tokens: map[string]string{"nobody": "hgct_unknown"}, client: &http.Client{Timeout: waits.Patience}}
	text := "tokens:\n"
	for _, right := range callers.Rights() {
		token, lines, err := callers.NewToken(right, []string{right}, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		n.tokens[right], text = token, text+lines
	}
	s.Callers.Callers = filepath.Join(dir, "callers.yaml")
	scheme, over := "http://", insecure.NewCredentials()
	if certs != nil {
		cert, key := certs.Issue(t, testserver.Leaf{URIs: []string{"spiffe://prod/batch"}})
		text += "certificates: [{name: 'uri:spiffe://prod/batch', rights: [check]}]\n"
		s.TLSCert, s.TLSKey, s.ClientCA, s.ClientCerts = certs.CertFile, certs.KeyFile, certs.CAFile, "required"
		shown := certs.ClientWith(t, cert, key)
		n.client.Transport = &http.Transport{TLSClientConfig: shown, ForceAttemptHTTP2: true}
		scheme, over = "https://", credentials.NewTLS(shown.Clone())
	}
	writeFile(t, s.Callers.Callers, text)
	at := startAuth(t, s, logger)
	t.Cleanup(n.client.CloseIdleConnections)
	n.base = scheme + at["http"]
	conn, err := grpc.NewClient(at["grpc"], grpc.WithTransportCredentials(over))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	n.rls = rlsv3.NewRateLimitServiceClient(conn)
	return n
}

// post asks by the token of a right, "" for none, and returns the status.
func (n *secured) post(path, body, as string) int {
	n.t.Helper()
	r, err := http.NewRequestWithContext(n.t.Context(), http.MethodPost, n.base+path, strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	if as != "" {
		r.Header.Set("Authorization", "Bearer "+n.tokens[as])
	}
	resp, err := n.client.Do(r)
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// call asks over gRPC by the token of a right, and returns the status as HTTP has it.
func (n *secured) call(d *ratelimitv3.RateLimitDescriptor, as string) int {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), waits.Patience)
	defer cancel()
	if as != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+n.tokens[as])
	}
	_, err := n.rls.ShouldRateLimit(ctx, &rlsv3.RateLimitRequest{Domain: "d", Descriptors: []*ratelimitv3.RateLimitDescriptor{d}}, grpc.WaitForReady(true))
	switch status.Code(err) {
	case codes.OK:
		return 200
	case codes.Unauthenticated:
		return 401
	case codes.PermissionDenied:
		return 403
	}
	n.t.Errorf("over gRPC: %v", err)
	return 0
}

// TestRightsMatrix: every operation of every way in, by who shows nothing, a token that is
// not known, and one token for each right, in plain text and by mutual TLS. Each works by
// the right that it takes, and by that one alone. By TLS the certificate adds check.
func TestRightsMatrix(t *testing.T) {
	entries := func(more ...string) *ratelimitv3.RateLimitDescriptor {
		d := &ratelimitv3.RateLimitDescriptor{Entries: []*ratelimitv3.RateLimitDescriptor_Entry{{Key: "user", Value: "u"}}}
		for i := 0; i < len(more); i += 2 {
			d.Entries = append(d.Entries, &ratelimitv3.RateLimitDescriptor_Entry{Key: more[i], Value: more[i+1]})
		}
		return d
	}
	back, named := entries(), entries()
	back.HitsAddend, back.IsNegativeHits = wrapperspb.UInt64(1), true
	named.Limit = &ratelimitv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 1000, Unit: 1}
	const user = `"domain":"d","descriptors":[{"descriptor":"user:u"`
	for _, certs := range []*testserver.Certificates{nil, testserver.NewCertificates(t)} {
		n := startSecured(t, certs, quiet())
		over := func(path, body string) func(string) int {
			return func(as string) int { return n.post(path, body, as) }
		}
		grpcCall := func(d *ratelimitv3.RateLimitDescriptor) func(string) int {
			return func(as string) int { return n.call(d, as) }
		}
		for name, op := range map[string]struct {
			needs string // beside check, where that is not what it takes
			ask   func(as string) int
		}{
			"check":               {"check", over("/v1/check", "{"+user+"}]}")},
			"charge":              {"check", over("/v1/check", "{"+user+`,"op":"charge"}]}`)},
			"release":             {"check", over("/v1/release", "{"+user+`}],"hold":"h"}`)},
			"limit":               {"name_limits", over("/v1/check", `{"key":"k","limit":3000,"window_ms":60000}`)},
			"plain limit":         {"name_limits", over("/ratelimit/check", `{"key":"k","limit":3000,"window_ms":60000}`)},
			"limit with an id":    {"name_limits", over("/v1/check", `{"key":"k","limit":3000,"window_ms":60000,"id":"one"}`)},
			"refund":              {"give_back", over("/v1/check", "{"+user+`,"hits":-1}]}`)},
			"reset":               {"give_back", over("/v1/check", "{"+user+`,"op":"reset"}]}`)},
			"reset in a batch":    {"give_back", over("/v1/check", "{\"checks\":[{"+user+"}]},{"+user+`,"op":"reset"}]}]}`)},
			"reserve":             {"reserve", over("/v1/reserve", "{"+user+"}]}")},
			"explain":             {"explain", over("/v1/explain", `{"domain":"d","descriptors":[{"entries":[{"key":"user","value":"u"}]}]}`)},
			"json check":          {"check", over("/json", `{"domain":"d","descriptors":[{"entries":[{"key":"user","value":"u"}]}]}`)},
			"json limit":          {"name_limits", over("/json", `{"domain":"d","descriptors":[{"entries":[{"key":"user","value":"u"}],"limit":{"requestsPerUnit":1000,"unit":"SECOND"}}]}`)},
			"json refund":         {"give_back", over("/json", `{"domain":"d","descriptors":[{"entries":[{"key":"user","value":"u"}],"hitsAddend":"1","isNegativeHits":true}]}`)},
			"json reserve":        {"reserve", over("/json", `{"domain":"d","descriptors":[{"entries":[{"key":"user","value":"u"},{"key":"headgate_op","value":"reserve"},{"key":"headgate_id","value":"j"},{"key":"headgate_estimate","value":"1"}]}]}`)},
			"gRPC check":          {"check", grpcCall(entries())},
			"gRPC limit":          {"name_limits", grpcCall(named)},
			"gRPC negative hits":  {"give_back", grpcCall(back)},
			"gRPC reserve":        {"reserve", grpcCall(entries("headgate_op", "reserve", "headgate_id", "g", "headgate_estimate", "1"))},
			"gRPC cancel":         {"reserve", grpcCall(entries("headgate_op", "cancel", "headgate_id", "g", "headgate_estimate", "1"))},
			"gRPC charge by name": {"check", grpcCall(entries("headgate_op", "charge"))},
		} {
			for _, as := range append([]string{"", "nobody"}, callers.Rights()...) {
				want := 403
				switch {
				case as == "nobody", as == "" && certs == nil:
					want = 401
				case as == op.needs && (op.needs == "check" || op.needs == "reserve" || op.needs == "explain"):
					want = 200
				case certs != nil && as == "" && op.needs == "check":
					want = 200 // by the certificate
				}
				if got := op.ask(as); got != want {
					t.Errorf("TLS %v: %s as %q: %d, want %d", certs != nil, name, as, got, want)
				}
			}
		}
	}
}

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
	n := startSecured(t, certs, quiet())
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

// TestProbesReachHealthAlone: at their address there is nothing else.
func TestProbesReachHealthAlone(t *testing.T) {
	s := settings()
	s.HealthAddr = "127.0.0.1:0"
	at := startAuth(t, s, quiet())
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 404, "/debug/pprof/": 404, "/rules": 404, "/switches": 404, "/v1/explain": 404, "/": 404} {
		if status, _ := get(t, "http://"+at["health"]+path); status != want {
			t.Errorf("%s: %d", path, status)
		}
	}
}
