package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Who could read a file of tokens can read it when it has one more.
func TestAddedTokenLeavesTheFileItsMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	for _, who := range []string{"ann", "bob"} {
		var told bytes.Buffer
		if code := Run([]string{"admin", "token", who, "--scope", "read", "--out", path}, nil, &told, &told); code != exitOK {
			t.Fatalf("exit code %d: %s", code, told.String())
		}
		if who == "ann" {
			if err := os.Chmod(path, 0o640); err != nil {
				t.Fatal(err)
			}
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o640 || !strings.Contains(string(text), "ann") || !strings.Contains(string(text), "bob") {
		t.Errorf("%v, %v:\n%s", info.Mode(), err, text)
	}
}
