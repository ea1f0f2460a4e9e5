package script

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/headgate/headgate/internal/eventually"
)

// secret is what stands in everything that the test shows at doors. No log may have it.
const secret = "Zm9yZ2VkLXRva2Vu"

// TestAttacksLeaveATrace: whoever is refused at a door because of who asks is counted by door and
// reason, and in the log once for each of the two, with how many there were; neither has
// anything of what they have shown.
func TestAttacksLeaveATrace(t *testing.T) {
	s, good := doors(t)
	admin, pages := "http://"+s.addrs["admin"]+"/admin/v1/", "http://"+s.addrs["dashboard"]
	usage := "http://" + s.addrs["usage"] + "/v1/usage"
	bearer := func(token string) []string { return []string{"Authorization", "Bearer " + token} }
	signed := func(issuer string) []string {
		part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
		return bearer(part(`{"alg":"EdDSA","kid":"one"}`) + "." + part(`{"iss":"`+issuer+`"}`) + "." + secret)
	}
	json := []string{"Content-Type", "application/json"}
	for _, tt := range []struct {
		series      string // door and reason
		times       int
		status      int
		method, url string
		body        string
		header      []string
	}{
		{"admin no_token", 1, 401, "GET", admin + "me", "", nil},
		{"admin malformed", 1, 401, "GET", admin + "me", "", []string{"Authorization", "Basic " + secret}},
		{"admin unknown_token", 300, 401, "GET", admin + "me", "", bearer("hgat_" + secret)},
		{"admin unknown_signer", 2, 401, "GET", admin + "me", "", signed("https://other.example.com")},
		{"admin no_keys", 1, 503, "GET", admin + "me", "", signed("http://127.0.0.1:1")},
		{"admin wrong_scope", 3, 403, "PUT", admin + "quotas/tenant:acme", "{}", append(bearer(good), json...)},
		{"billing no_token", 1, 401, "POST", admin + "hooks/billing", "{}", json},
		{"billing bad_signature", 4, 401, "POST", admin + "hooks/billing", "{}", append([]string{"Headgate-Signature", "t=1767225600,v1=" + strings.Repeat("0", 64)}, json...)},
		{"dashboard unknown_token", 5, 401, "POST", pages + "/login", `{"token":"hgat_` + secret + `"}`, json},
		{"dashboard malformed", 1, 400, "POST", pages + "/login", secret, json},
		{"dashboard no_session", 1, 401, "GET", pages + "/api/me", "", nil},
		{"dashboard unknown_session", 2, 401, "GET", pages + "/api/me", "", []string{"Cookie", "headgate_session_" + portOf(t, s.addrs["dashboard"]) + "=" + secret}},
		{"dashboard origin", 2, 403, "POST", pages + "/login", "{}", append([]string{"Origin", "https://evil.example.com"}, json...)},
		{"usage no_token", 1, 401, "GET", usage, "", nil},
		{"usage bad_signature", 2, 401, "GET", usage, "", bearer("hgut_" + secret)},
		{"gateway bad_signature", 2, 401, "GET", "http://" + s.addrs["auth"] + "/auth/traefik", "", append(signed("https://issuer.example.com"),
			"X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/", "X-Forwarded-For", "203.0.113.9")},
	} {
		for i := range tt.times {
			if got := from(t, i, tt.method, tt.url, tt.body, tt.header); got != tt.status {
				t.Errorf("%s: %d, want %d", tt.series, got, tt.status)
			}
		}
		door, reason, _ := strings.Cut(tt.series, " ")
		if got := refused(t, s, door, reason); got != tt.times {
			t.Errorf("%s: counted %d times, want %d", tt.series, got, tt.times)
		}
		first := regexp.MustCompile(`msg="requests were refused because of who asks" door=` + door + ` reason=` + reason + ` count=1 networks=1 last_from=(127\.1\.0|203\.0\.113)\.0/24`)
		eventually.True(t, "a line in the log of "+tt.series, func() bool { return first.MatchString(s.log.text()) })
	}
	if !strings.Contains(s.log.text(), "actor=reader") {
		t.Error("the log does not say whose token lacks a right")
	}
	if code, err := s.stop(syscall.SIGTERM); code != 0 || err != nil {
		t.Errorf("exit code %d, %v", code, err)
	}
	rest := regexp.MustCompile(`door=admin reason=unknown_token count=(\d+) networks=(\d+)`).FindAllStringSubmatch(s.log.text(), -1)
	told := 0
	for _, line := range rest {
		n, err := strconv.Atoi(line[1])
		if err != nil {
			t.Fatal(err)
		}
		told += n
	}
	// A notice in a minute, and this has taken few of them.
	if told != 300 || len(rest) > 10 || rest[len(rest)-1][2] == "1" {
		t.Errorf("%d lines tell of %d refusals of many networks: %v", len(rest), told, rest)
	}
	for _, shown := range []string{secret, good, "evil.example.com"} {
		if strings.Contains(s.log.text(), shown) {
			t.Errorf("the log has %q", shown)
		}
	}
}

// doors starts a server with all its doors, and returns a good token, which may read.
func doors(t *testing.T) (s *server, token string) {
	t.Helper()
	dir := t.TempDir()
	out, err := exec.Command("headgate", "admin", "token", "reader", "--scope", "read").Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfterN(string(out), "\n", 4)
	key := strings.Repeat("k", 44) + "\n"
	public, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"tokens.yaml": "oidc: [{issuer: 'http://127.0.0.1:1', audience: headgate, scopes: [{claim: groups, value: a, scope: read}]}]\ntokens:\n" + lines[3],
		"billing.key": key, "usage.key": key, "hooks.yaml": "in: {secret_file: billing.key}\n",
		"keys.json": `{"keys":[{"kty":"OKP","crv":"Ed25519","alg":"EdDSA","kid":"one","use":"sig","x":"` + base64.RawURLEncoding.EncodeToString(public) + `"}]}`,
		"identity.yaml": "client_ip: {source: x_forwarded_for, hops: 1}\ntoken: {issuer: 'https://issuer.example.com', audiences: [api], algorithms: [EdDSA], jwks_file: keys.json, bad: refuse, bearer: true}\n" +
			"descriptors: [{entries: [remote_address]}]\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	s = start(t, "--rules", writeRules(t, userRules), "--admin-addr=127.0.0.1:0", "--admin-tokens", in("tokens.yaml"), "--dashboard-addr=127.0.0.1:0",
		"--hooks", in("hooks.yaml"), "--usage-key", in("usage.key"), "--usage-addr=127.0.0.1:0", "--auth-addr=127.0.0.1:0", "--identity", in("identity.yaml"))
	return s, strings.TrimSpace(lines[0])
}

// from asks from an address of its own for each n, and returns the status of the answer.
func from(t *testing.T, n int, method, url, body string, header []string) int {
	t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1, byte(n/100), byte(n%100+1))}}
	client := &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}}
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode
}

// refused returns how often a door has refused for a reason.
func refused(t *testing.T, s *server, door, reason string) int {
	t.Helper()
	n, _ := metric(t, s, fmt.Sprintf(`headgate_auth_refused_total{door="%s",reason="%s"}`, door, reason))
	return n
}

func portOf(t *testing.T, addr string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	return port
}
