package apikeys

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// What is no file is not waited for, and what is too long is not read.
func TestFilesThatAreNone(t *testing.T) {
	pipe, long := filepath.Join(t.TempDir(), "pipe"), filepath.Join(t.TempDir(), "long")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(long, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(long, 20<<30); err != nil {
		t.Fatal(err)
	}
	_, list := LoadList(pipe)
	_, key := ReadHasher(pipe)
	_, more := ReadHasher(long)
	for want, err := range map[string]error{"pipe: not a regular file": list, "pipe: not a regular file (p": key, "long: more than 65536 bytes": more} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
}
