package browser

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
)

// An operator logs in at a real issuer, sees the page that was asked for, changes something under
// the own name, and logs out; who does not agree, or has no scope, is told so. The secret of the
// client and what the issuer sends are in no log.
func TestLoginByIssuer(t *testing.T) {
	t.Parallel()
	const secret = "not-a-real-secret-of-a-client"
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	port := testserver.FreePort(t)
	issuer := "http://127.0.0.1:" + strconv.Itoa(port)
	dashboard := net.JoinHostPort("127.0.0.1", strconv.Itoa(testserver.FreePort(t)))
	told, err := json.Marshal(map[string]any{"modules": modulesOf(t, "issuer", "oidc-provider"), "port": port, "redirect": "http://" + dashboard + "/login/oidc/callback", "secret": secret})
	if err != nil {
		t.Fatal(err)
	}
	s := newStage(t, withTenants(t), "--dashboard-addr", dashboard, "--dashboard-url", "http://"+dashboard+"/",
		"--dashboard-oidc-issuer", issuer, "--dashboard-oidc-client", "headgate", "--dashboard-oidc-secret", write("secret", secret+"\n"), "--dashboard-oidc-scopes", "openid,email",
		"--admin-tokens", write("tokens.yaml", `
oidc:
  - issuer: `+issuer+`
    audience: headgate
    subject_claim: email
    scopes: [{claim: groups, value: ops, scope: admin}]
`))
	// Headgate has started without it.
	cmd := exec.Command(s.node, "issuer/issuer.mjs")
	cmd.Env = append(os.Environ(), "ISSUER="+string(told))
	process, err := testserver.StartProcess(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(process.Terminate)
	if err := process.Poll(func() error {
		if !strings.Contains(process.Output(), "the issuer is ready") {
			return errors.New("the issuer does not say that it is ready")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	s.Issuer = issuer
	s.play("oidc.mjs")
	for _, never := range []string{secret, "code=", "state=", "eyJ"} {
		if strings.Contains(s.process.Output(), never) {
			t.Errorf("the log has %q:\n%s", never, s.process.Output())
		}
	}
}
