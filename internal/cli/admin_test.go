package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/adminapi"
)

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
