//go:build unix

package regular_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/headgate/headgate/internal/regular"
)

// each calls all functions of the package for one path.
func each(path string) map[string]error {
	_, stat := regular.Stat(path)
	f, open := regular.Open(path)
	if open == nil {
		f.Close()
	}
	_, read := regular.Read(path, 4)
	return map[string]error{"stat": stat, "open": open, "read": read}
}

// TestWhatIsNoFile: a pipe without a writer, and a device that never ends, are refused and not
// opened.
func TestWhatIsNoFile(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, "/dev/zero", t.TempDir()} {
		for name, err := range each(path) {
			if at, ok := errors.AsType[*fs.PathError](err); !ok || at.Path != path || !strings.Contains(err.Error(), "not a regular file") || !strings.Contains(err.Error(), "hint: ") {
				t.Errorf("%s of %s: %v", name, path, err)
			}
		}
	}
	for name, err := range each(filepath.Join(t.TempDir(), "none")) {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s of none: %v", name, err)
		}
	}
}

// TestReadIsBounded: a file is read up to its bound, and one that is larger not at all.
func TestReadIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("1234"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := regular.Read(path, 4); err != nil || string(text) != "1234" {
		t.Errorf("%q, %v", text, err)
	}
	if text, err := regular.Read(path, 3); err == nil || !strings.Contains(err.Error(), "more than 3 bytes; hint: ") || text != nil {
		t.Errorf("%q, %v", text, err)
	}
	if err := os.Truncate(path, 20<<30); err != nil {
		t.Fatal(err)
	}
	if text, err := regular.Read(path, 4); err == nil || text != nil {
		t.Errorf("of 20 GiB: %q, %v", text, err)
	}
}
