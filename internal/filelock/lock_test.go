package filelock_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/headgate/headgate/internal/filelock"
)

// TestLock: one at a time has a file or a directory, and whoever closes it has it no more.
func TestLock(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{path, dir} {
		lock := func(want bool) *os.File {
			t.Helper()
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := filelock.Lock(f); got != want || err != nil {
				t.Errorf("%s: %t, %v, want %t", path, got, err, want)
			}
			return f
		}
		first := lock(true)
		lock(false).Close()
		first.Close()
		lock(true).Close()
	}
}

// TestLockOfNothing: what cannot be locked is an error, and not a file that is had.
func TestLockOfNothing(t *testing.T) {
	f, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if got, err := filelock.Lock(f); got || err == nil {
		t.Errorf("a file that is closed: %t, %v", got, err)
	}
}
