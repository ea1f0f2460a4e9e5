package cli

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Who could read a file of tokens can read it when it has one more, also where it was empty; one that is made is
// for its owner alone.
func TestAddedTokenLeavesTheFileItsMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	add := func(path, who string) {
		t.Helper()
		var told bytes.Buffer
		if code := Run([]string{"admin", "token", who, "--scope", "read", "--out", path}, nil, &told, &told); code != exitOK {
			t.Fatalf("exit code %d: %s", code, told.String())
		}
	}
	has := func(path string, mode fs.FileMode, names ...string) {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%v, %v; want %v", info.Mode(), err, mode)
		}
		for _, name := range names {
			if !strings.Contains(string(text), name) {
				t.Errorf("no %s in\n%s", name, text)
			}
		}
	}
	add(path, "ann")
	has(path, 0o600, "ann")
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	add(path, "bob")
	has(path, 0o640, "ann", "bob")
	empty := filepath.Join(t.TempDir(), "empty.yaml")
	if err := errors.Join(os.WriteFile(empty, nil, 0o600), os.Chmod(empty, 0o640)); err != nil {
		t.Fatal(err)
	}
	add(empty, "ann")
	has(empty, 0o640, "ann")
}

// TestFirstTokenBesideAnIssuer: a file that names an issuer alone gets a section of tokens by its first one.
func TestFirstTokenBesideAnIssuer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	const issuer = "oidc:\n  - {issuer: https://login.example.com, audience: headgate, scopes: [{claim: groups, value: ops, scope: admin}]}"
	if err := os.WriteFile(path, []byte(issuer), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, who := range []string{"ann", "bob"} {
		var told bytes.Buffer
		if code := Run([]string{"admin", "token", who, "--scope", "admin", "--out", path}, nil, &told, &told); code != exitOK {
			t.Fatalf("exit code %d: %s", code, told.String())
		}
	}
	text, err := os.ReadFile(path)
	if err != nil || !strings.HasPrefix(string(text), issuer+"\ntokens:\n  - name: \"ann\"\n") || strings.Count(string(text), "tokens:") != 1 || !strings.Contains(string(text), `"bob"`) {
		t.Errorf("%v\n%s", err, text)
	}
}
