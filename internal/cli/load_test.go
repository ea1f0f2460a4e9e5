package cli

import (
	"bytes"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/headgate/headgate/internal/loadgen"
)

// loaded runs load with a few requests.
func loaded(args ...string) (code int, out, errs string) {
	var o, e bytes.Buffer
	code = Run(append([]string{"load", "--domain", "d", "--descriptor", "user:{key}", "--rate", "100", "--for", "50ms", "--timeout", "1m"}, args...), nil, &o, &e)
	return code, o.String(), e.String()
}

// answering is a server that answers each connection by what write does, and closes it.
func answering(t *testing.T, write func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if _, err := c.Read(make([]byte, 4096)); err == nil {
					write(c)
				}
			}()
		}
	}()
	return l.Addr().String()
}

// flood writes text again and again, until the other side has had enough.
func flood(c net.Conn, text string) {
	for {
		if _, err := io.WriteString(c, text); err != nil {
			return
		}
	}
}

// A server that is asked may be anybody's: what it answers is read to a bound and told in a bounded text, and
// the run ends.
func TestLoadOfHostileServers(t *testing.T) {
	for name, test := range map[string]struct {
		write func(net.Conn)
		says  []string
	}{
		"a header without an end": {
			func(c net.Conn) {
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n")
				flood(c, "X-Filling: "+strings.Repeat("x", 1000)+"\r\n")
			},
			[]string{"no answer: 5", "headers exceeded 32768 bytes"},
		},
		"a body without an end": {
			func(c net.Conn) {
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
				flood(c, strings.Repeat(" ", 1000))
			},
			[]string{"200: 5", "allowed    0 of 0", "nothing was decided"},
		},
		"no HTTP": {
			func(c net.Conn) {
				_, _ = io.WriteString(c, "\x1b[31m"+strings.Repeat("z", 10_000)+"\r\n")
			},
			[]string{"no answer: 5", "malformed HTTP response", "zzz...\n"},
		},
		"nothing":       {func(net.Conn) {}, []string{"no answer: 5", "EOF"}},
		"half a header": {func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 200 O") }, []string{"no answer: 5"}},
		"half a body":   {func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{") }, []string{"no answer: 5"}},
	} {
		code, out, errs := loaded("--addr", "http://"+answering(t, test.write))
		for _, says := range test.says {
			if !strings.Contains(out+errs, says) {
				t.Errorf("%s: no %q in\n%s%s", name, says, out, errs)
			}
		}
		if code != exitUsage || len(out)+len(errs) > 1000 || strings.Contains(out+errs, "\x1b") {
			t.Errorf("%s: code %d, %d bytes:\n%.2000s", name, code, len(out)+len(errs), out+errs)
		}
	}
}

// A decision of 100 KiB is none, and it is not held whole.
func TestLoadOfLongAnswers(t *testing.T) {
	addr := answering(t, func(c net.Conn) {
		body := `{"allowed":true,"filling":"` + strings.Repeat("x", 100<<10) + `"}`
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"+body)
	})
	if code, out, errs := loaded("--addr", "http://"+addr); code != exitUsage || !strings.Contains(out, "allowed    0 of 0") {
		t.Errorf("code %d\n%s%s", code, out, errs)
	}
}

// Nobody is asked but the server that was named.
func TestLoadFollowsNoRedirect(t *testing.T) {
	var asked atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = io.WriteString(w, `{"allowed":true}`)
	}))
	defer other.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		named := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, status) }))
		if code, out, errs := loaded("--addr", named.URL); code != exitUsage || !strings.Contains(out, strconv.Itoa(status)+": 5\n") {
			t.Errorf("%d: code %d\n%s%s", status, code, out, errs)
		}
		named.Close()
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("%d requests went to another server", n)
	}
}

// What is wrong with a certificate is told over gRPC as it is over HTTP.
func TestLoadTellsOfCertificates(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that end
	server.StartTLS()
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, scheme := range []string{"https://", "grpcs://"} {
		if _, _, errs := loaded("--addr", scheme+server.Listener.Addr().String()); !strings.Contains(errs, "hint: --server-ca FILE") {
			t.Errorf("%s, an authority that is not known: %s", scheme, errs)
		}
		_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
		if _, _, errs := loaded("--addr", scheme+"localhost:"+port, "--server-ca", ca); !strings.Contains(errs, "hint: ask by a name") {
			t.Errorf("%s, another name: %s", scheme, errs)
		}
	}
}

// What cannot be is refused before anything is sent, and no password is repeated.
func TestLoadFlags(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	for args, says := range map[string]string{
		"--timeout 0s":                          "--timeout 0s\nheadgate: hint: from 1ms to 10m0s",
		"--timeout=-1s":                         "--timeout -1s",
		"--timeout 11m":                         "--timeout 11m0s",
		"--slow 0.1 --slow-by=-1s":              "--slow-by -1s",
		"--slow 0.1 --slow-by 1m":               "less than --timeout 1m0s",
		"--max-undecided x":                     `--max-undecided: "x"`,
		"--slow NaN":                            "--slow NaN",
		"--slow 1.5":                            "--slow 1.5",
		"--hits 0":                              "--hits 0",
		"--under-way 9000000000":                "9000000000 under way\nheadgate: hint: from 1 to 100000",
		"--rate NaN":                            "a rate of NaN",
		"--rate 1e12 --unguarded":               "a rate of 1e+12",
		"--for 87600h --unguarded":              "87600h0m0s long",
		"--keys 1000000000":                     "1000000000 keys",
		"--addr http://ann:geheim@" + host:      "--addr: it has a name or a password",
		"--addr http://" + host + "/?a=b":       "what is behind ? or #",
		"--addr http://" + host + "/?":          "what is behind ? or #",
		"--addr http://" + host + "/#a":         "what is behind ? or #",
		"--addr grpc://" + host + "/v1":         "a host and a port alone",
		"--addr grpc://127.0.0.1":               "a host and a port alone",
		"--addr grpcs://127.0.0.1":              "hint: grpcs://127.0.0.1:8081",
		"--addr unix:///run/headgate.sock":      "is not an address",
		"--addr 127.0.0.1:8080":                 "is not an address",
		"--addr grpc://" + host + " --slow 0.5": "over gRPC a request is sent whole",
	} {
		code, out, errs := loaded(append([]string{"--addr", server.URL}, strings.Fields(args)...)...)
		if code != exitUsage || out != "" || !strings.Contains(errs, says) || strings.Contains(errs, "geheim") {
			t.Errorf("%s: code %d, %q %q; want %q", args, code, out, errs, says)
		}
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("%d requests were sent", n)
	}
}

// A check that runs by itself goes by the exit code: it may not pass by requests about which nothing was found out.
func TestLoadExitCode(t *testing.T) {
	const decided, degraded = `{"allowed":true,"matched":true,"degraded":""}`, `{"allowed":true,"matched":true,"degraded":"store_timeout"}`
	rules := func(consistency string) string {
		path := filepath.Join(t.TempDir(), "rules.yaml")
		text := "domain: d\ndescriptors: [{key: user, consistency: " + consistency + ", rate_limit: {unit: hour, requests_per_unit: 100}}]\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	exact, synced := rules("exact"), rules("synced")
	for name, test := range map[string]struct {
		answer string // to one of five; the others are decided
		args   []string
		code   int
		says   string
	}{
		"all decided":               {decided, []string{"--rules", exact, "--max-undecided", "0"}, 0, "0 of 5 buckets broken"},
		"without the store":         {degraded, nil, 0, "for 1 of them the store did not decide"},
		"without the store, judged": {degraded, []string{"--rules", exact}, exitUsage, "bounds are not judged, because the store did not decide 1 of 5\nheadgate: hint: "},
		"none may be":               {degraded, []string{"--max-undecided", "0"}, exitNo, "1 of 5 requests are undecided, more than --max-undecided 0: 0 were not sent, 0 had no answer that decides, 1 were decided without the store"},
		"a share may be":            {degraded, []string{"--max-undecided", "20%"}, 0, "allowed    5 of 5"},
		"less may be":               {degraded, []string{"--max-undecided", "19%"}, exitNo, "more than --max-undecided 19%"},
		"no decision":               {"", []string{"--max-undecided", "0"}, exitNo, "1 had no answer that decides"},
		"one may be":                {"", []string{"--max-undecided", "1"}, 0, "allowed    4 of 4"},
		"no limit is judged":        {decided, []string{"--rules", synced}, exitUsage, "can be judged\nheadgate: hint: "},
	} {
		var asked atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if asked.Add(1) == 1 {
				_, _ = io.WriteString(w, test.answer)
			} else {
				_, _ = io.WriteString(w, decided)
			}
		}))
		code, out, errs := loaded(append([]string{"--addr", server.URL, "--keys", "100000"}, test.args...)...)
		if code != test.code || !strings.Contains(out+errs, test.says) {
			t.Errorf("%s: code %d, want %d with %q:\n%s%s", name, code, test.code, test.says, out, errs)
		}
		server.Close()
	}
}

// What was not sent counts as the others do, and a run that let nothing pass broke no limit.
func TestLoadJudged(t *testing.T) {
	const share = "20%"
	most, err := parseAllowance("--max-undecided", share)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		report loadgen.Report
		code   int
	}{
		"one of five not sent": {loadgen.Report{Sent: 4, Unsent: 1, Decided: 4, Allowed: map[int]int{1: 4}}, 0},
		"two of five not sent": {loadgen.Report{Sent: 3, Unsent: 2, Decided: 3, Allowed: map[int]int{1: 3}}, exitNo},
		"all denied":           {loadgen.Report{Sent: 4, Decided: 4}, 0},
	} {
		c := &loadCmd{MaxUndecided: share}
		if test.report.TotalAllowed() == 0 {
			c.Rules = "rules.yaml"
		}
		err, code := c.judged(&test.report, most, nil), (*codeError)(nil)
		if (err == nil) != (test.code == 0) || err != nil && (!errors.As(err, &code) || code.code != test.code) {
			t.Errorf("%s: %v, want exit code %d", name, err, test.code)
		}
	}
}
