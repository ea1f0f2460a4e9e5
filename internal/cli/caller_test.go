package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/callers"
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
