//go:build unix

package identity

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Keys are read from a file alone: a pipe without a writer would hold who reads for ever.
func TestKeySetOfWhatIsNoFile(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, "/dev/zero", t.TempDir()} {
		k, err := NewKeySet(KeySetOptions{File: path})
		if err != nil {
			t.Fatal(err)
		}
		if err := k.Refresh(t.Context()); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
