//go:build unix

package yamlfile

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestPipeInTheWay: a pipe in the place of a file that is followed is told and waited for by nobody, so that the file is
// read again when it is back.
func TestPipeInTheWay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := NewFile("words", path, 100, func(data []byte) (*string, error) { text := string(data); return &text, nil })
	write("one")
	if changed, err := f.Reload(); !changed || err != nil {
		t.Fatal(changed, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	if changed, err := f.Reload(); !changed || err == nil || !strings.Contains(err.Error(), "read words: read "+path+": not a regular file") || *f.Get() != "one" {
		t.Errorf("%v, %v; in force is %q", changed, err, *f.Get())
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	write("two")
	if changed, err := f.Reload(); !changed || err != nil || *f.Get() != "two" {
		t.Errorf("%v, %v; in force is %q", changed, err, *f.Get())
	}
}
