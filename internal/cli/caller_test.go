package cli

import (
	"bytes"
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/callers"
	"github.com/headgate/headgate/internal/testserver"
)

// TestCallerToken: what the command prints for the file is a file of callers.
func TestCallerToken(t *testing.T) {
	var out, errors bytes.Buffer
	if code := Run([]string{"caller", "token", "checkout", "--rights", "check,give_back", "--expires", "1h"}, nil, &out, &errors); code != exitOK {
		t.Fatalf("exit code %d: %s", code, errors.String())
	}
	token, lines, _ := strings.Cut(out.String(), "\n")
	path := filepath.Join(t.TempDir(), "callers.yaml")
	if err := os.WriteFile(path, []byte("tokens:\n"+lines), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := callers.Load(path); err != nil || !strings.HasPrefix(token, "hgct_") || strings.Contains(lines, token) || !strings.Contains(lines, "[check, give_back]") {
		t.Errorf("%v; printed %s", err, out.String())
	}
	for _, args := range [][]string{{"a b"}, {""}, {"ann", "--rights", "all"}, {"ann", "--rights", ""}, {"ann", "--expires", "-1h"}} {
		if code := Run(append([]string{"caller", "token"}, args...), nil, &out, &errors); code != exitUsage {
			t.Errorf("%q: exit code %d", args, code)
		}
	}
}

// TestCheckShowsCredentials: check reaches a server that wants a certificate and a token, by
// files or by a token in the environment, and sends none where it could be read on the way.
func TestCheckShowsCredentials(t *testing.T) {
	certs := testserver.NewCertificates(t)
	cert, key := certs.Issue(t, testserver.Leaf{CommonName: "ops"})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer hgct_right" {
			http.Error(w, `{"detail":"no token"}`, http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(`{"allowed":true}`))
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	pair, err := tls.LoadX509KeyPair(certs.CertFile, certs.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: certs.Client().RootCAs, ClientAuth: tls.RequireAndVerifyClientCert}
	server.StartTLS()
	defer server.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("hgct_right\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	withCA, withCert, withToken := "--server-ca="+certs.CAFile, []string{"--client-cert=" + cert, "--client-key=" + key}, "--token-file="+token
	for _, c := range []struct {
		inEnv string
		args  []string
		code  int
		says  string
	}{
		{"", slices.Concat(withCert, []string{withCA, withToken}), exitOK, "allowed"},
		{"hgct_right", slices.Concat(withCert, []string{withCA}), exitOK, "allowed"},
		{"hgct_wrong", slices.Concat(withCert, []string{withCA, withToken}), exitOK, "allowed"}, // the flag goes before
		{"hgct_wrong", slices.Concat(withCert, []string{withCA}), exitUsage, "no token"},
		{"", slices.Concat(withCert, []string{withCA}), exitUsage, "401"},
		{"", []string{withCA, withToken}, exitUsage, "certificate required"},
		{"", slices.Concat(withCert, []string{withToken}), exitUsage, "unknown authority"},
		{"", []string{withCA, withToken, "--client-cert=" + cert}, exitUsage, "without its key"},
		{"", slices.Concat(withCert, []string{withCA, "--token-file=" + cert}), exitUsage, "--token-file: "},
		{"two words", slices.Concat(withCert, []string{withCA}), exitUsage, "that is no token"},
		{"", []string{withCA, "--addr=http://127.0.0.1:1"}, exitUsage, "not served by TLS"},
		{"hgct_right", []string{"--addr=http://192.0.2.1:1"}, exitUsage, "could be read on the way"},
	} {
		t.Setenv("HEADGATE_TOKEN", c.inEnv)
		var out, errors bytes.Buffer
		code := Run(append([]string{"check", "--addr=" + server.URL, "--timeout=1m", "--domain=d", "user:1"}, c.args...), nil, &out, &errors)
		if said := out.String() + errors.String(); code != c.code || !strings.Contains(said, c.says) || strings.Contains(said, "hgct_") {
			t.Errorf("%q, %q in the environment: exit code %d: %s", c.args, c.inEnv, code, said)
		}
	}
}
