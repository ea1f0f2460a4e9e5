package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/adminapi"
	"github.com/headgate/headgate/internal/callers"
)

// TestTokenOut: the entries go to a file that is made and added to, and is never spoilt; the
// token alone is printed.
func TestTokenOut(t *testing.T) {
	for _, kind := range []struct {
		args []string
		load func(string) error
		last string // a section that must not be the last one
	}{
		{[]string{"admin", "token"}, func(path string) error { _, err := adminapi.LoadTokens(path); return err }, "certificates:\n  - subject: \"CN=a\"\n    scopes: [read]\n"},
		{[]string{"caller", "token"}, func(path string) error { _, err := callers.Load(path); return err }, "anonymous: {http: [check]}\n"},
	} {
		path := filepath.Join(t.TempDir(), "tokens.yaml")
		run := func(name string) (code int, out, errs string) {
			var stdout, stderr bytes.Buffer
			code = Run(append(kind.args, name, "--out", path), nil, &stdout, &stderr)
			return code, stdout.String(), stderr.String()
		}
		for _, name := range []string{"ann", "ben"} {
			code, out, errs := run(name)
			if code != exitOK || strings.Count(out, "\n") != 1 || !strings.HasPrefix(out, "hg") {
				t.Fatalf("%s: exit code %d: %s%s", kind.args, code, out, errs)
			}
		}
		text, err := os.ReadFile(path)
		info, statErr := os.Stat(path)
		if err != nil || statErr != nil || kind.load(path) != nil || strings.Count(string(text), "name:") != 2 || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v, %v:\n%s", kind.args, err, statErr, kind.load(path), text)
		}
		spoilt := string(text) + kind.last
		if err := os.WriteFile(path, []byte(spoilt), 0o640); err != nil {
			t.Fatal(err)
		}
		code, out, errs := run("cem")
		after, err := os.ReadFile(path)
		if err != nil || code != exitUsage || out != "" || string(after) != spoilt || !strings.Contains(errs, "tokens: has to be its last section") {
			t.Errorf("%s: exit code %d: %s%s\n%s", kind.args, code, out, errs, after)
		}
		if left, err := filepath.Glob(path + ".*"); err != nil || len(left) > 0 {
			t.Errorf("%s: %v is left, %v", kind.args, left, err)
		}
	}
}

// TestAdminToken: what the command prints for the file is a file of tokens.
func TestAdminToken(t *testing.T) {
	var out, errors bytes.Buffer
	if code := Run([]string{"admin", "token", "ann", "--scope", "write", "--expires", "1h"}, nil, &out, &errors); code != exitOK {
		t.Fatalf("exit code %d: %s", code, errors.String())
	}
	token, lines, _ := strings.Cut(out.String(), "\n")
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(path, []byte("tokens:\n"+lines), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := adminapi.LoadTokens(path); err != nil || !strings.HasPrefix(token, "hgat_") || strings.Contains(lines, token) {
		t.Errorf("%v; printed %s", err, out.String())
	}
	for _, args := range [][]string{{"ann b"}, {""}, {"ann", "--scope", "all"}, {"ann", "--expires", "-1h"}} {
		if code := Run(append([]string{"admin", "token"}, args...), nil, &out, &errors); code != exitUsage {
			t.Errorf("%q: exit code %d", args, code)
		}
	}
}
