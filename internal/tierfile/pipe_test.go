//go:build unix

package tierfile

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestPipeInTheWay: a pipe in the place of the file is refused, and its writer is not waited for.
func TestPipeInTheWay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tiers.yaml")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	want := "read tiers: read " + path + ": not a regular file"
	if _, _, err := LoadChanged(path, []byte("tiers: {free: {}}")); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("LoadChanged: %v", err)
	}
}
