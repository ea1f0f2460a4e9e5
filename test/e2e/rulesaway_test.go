package e2e

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
)

// shelf is a server of HTTPS that has rule files for who shows the right token, or a signature of
// the right key. Who shows no certificate is not let in.
type shelf struct {
	*httptest.Server
	mu    sync.Mutex
	texts map[string]string // by path
}

func newShelf(t *testing.T, c *testserver.Certificates) *shelf {
	t.Helper()
	s := &shelf{texts: map[string]string{}}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		by := r.Header.Get("Authorization")
		s.mu.Lock()
		text, ok := s.texts[r.URL.Path]
		s.mu.Unlock()
		switch {
		case by != "Bearer hush-token" && !strings.HasPrefix(by, "AWS4-HMAC-SHA256 Credential=hush-id/"):
			w.WriteHeader(http.StatusForbidden)
		case !ok:
			w.WriteHeader(http.StatusNotFound)
		default:
			w.Header().Set("ETag", fmt.Sprintf("%q", fmt.Sprint(len(text))))
			http.ServeContent(w, r, "rules.yaml", time.Time{}, strings.NewReader(text))
		}
	}))
	pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: c.Client().RootCAs, ClientAuth: tls.RequireAndVerifyClientCert}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func (s *shelf) put(path, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.texts[path] = text
}

// TestB5RulesOfAddresses: rules of HTTPS and of S3 are in force, changed, kept through trouble
// and through a restart, by what files say; and no secret is in what the process writes.
func TestB5RulesOfAddresses(t *testing.T) {
	c := testserver.NewCertificates(t)
	s := newShelf(t, c)
	rule := "domain: %s\ndescriptors:\n  - {key: user, rate_limit: {unit: year, requests_per_unit: %d}}\n"
	s.put("/rules.yaml", fmt.Sprintf(rule, "web", 5))
	s.put("/bucket/rules.yaml", fmt.Sprintf(rule, "objects", 7))
	dir := t.TempDir()
	secrets := map[string]string{"token": "hush-token\n", "keys": "[default]\naws_access_key_id = hush-id\naws_secret_access_key = hush-secret\n"}
	for name, text := range secrets {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{
		"--rules-url", s.URL + "/rules.yaml?sig=hush-query,s3://bucket/rules.yaml", "--rules-url-token", filepath.Join(dir, "token"),
		"--rules-url-ca", c.CAFile, "--rules-url-cert", c.CertFile, "--rules-url-key", c.KeyFile,
		"--rules-s3-endpoint", s.URL, "--rules-s3-credentials", filepath.Join(dir, "keys"), "--rules-poll", "1h", "--state-dir", filepath.Join(dir, "state"),
	}
	quiet := func(n *node) {
		t.Helper()
		if strings.Contains(n.process.Output(), "hush") {
			t.Errorf("a secret was written: %s", n.process.Output())
		}
	}
	limits := func(n *node, domain string) int {
		a, err := n.check(fmt.Sprintf(`{"domain":%q,"descriptors":[{"descriptor":"user:a","hits":0}]}`, domain))
		if err != nil {
			t.Fatal(err)
		}
		return a.Limit
	}
	n := startNode(t, args...)
	if web, objects := limits(n, "web"), limits(n, "objects"); web != 5 || objects != 7 {
		t.Fatalf("limits %d and %d\n%s", web, objects, n.process.Output())
	}
	again := func(what string, holds func() bool) {
		t.Helper()
		if err := n.process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		eventually.True(t, what, holds)
	}
	s.put("/bucket/rules.yaml", fmt.Sprintf(rule, "objects", 11))
	again("the change is in force", func() bool { return limits(n, "objects") == 11 })
	s.put("/rules.yaml", "<html>not found</html>")
	again("what is no rule file is refused", func() bool {
		return strings.Contains(n.shown(t, n.at(t, "ops"), "/readyz", ""), `"degraded": true`)
	})
	if web := limits(n, "web"); web != 5 {
		t.Errorf("the limit is %d by what was refused", web)
	}
	s.put("/rules.yaml", fmt.Sprintf(rule, "web", 6))
	again("and a good one counts", func() bool {
		return limits(n, "web") == 6 && strings.Contains(n.shown(t, n.at(t, "ops"), "/readyz", ""), `"degraded": false`)
	})
	shown := n.scrape(t)
	if !strings.Contains(shown, "headgate_rules_url_reached 1") || !strings.Contains(shown, `headgate_rules_url_rounds_total{outcome="accepted"}`) || strings.Contains(shown, "hush") {
		t.Errorf("metrics: %.500s", shown)
	}
	s.Close()
	again("that nobody answers is seen", func() bool { return strings.Contains(n.scrape(t), "headgate_rules_url_reached 0") })
	if web := limits(n, "web"); web != 6 {
		t.Errorf("the limit is %d while nobody answers", web)
	}
	n.process.Terminate()
	quiet(n)

	n = startNode(t, args...)
	if web := limits(n, "web"); web != 6 || !strings.Contains(n.process.Output(), "the last good rules are in force") {
		t.Errorf("after a restart without the server: %d\n%s", web, n.process.Output())
	}
	n.process.Terminate()
	quiet(n)

	n = launch(t, args[:len(args)-2]...)
	<-n.process.Ended()
	if out := n.process.Output(); !strings.Contains(out, "read rules: "+s.URL+"/rules.yaml: ") {
		t.Errorf("a start without rules: %s", out)
	}
	quiet(n)
}
