//go:build unix

package tierfile

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// TestPipeInTheWay: a pipe in the place of a file that is followed is refused, and its writer is not
// waited for. Who reads the tiers once may have them from a pipe.
func TestPipeInTheWay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tiers.yaml")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	want := "read tiers: read " + path + ": not a regular file"
	if _, _, err := LoadChanged(path, []byte("tiers: {free: {}}")); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("LoadChanged: %v", err)
	}
	var writing sync.WaitGroup
	writing.Go(func() {
		if err := os.WriteFile(path, []byte("tiers: {free: {}}"), 0o600); err != nil {
			t.Error(err)
		}
	})
	if tiers, err := Load(path); err != nil || tiers == nil {
		t.Errorf("Load: %v, %v", tiers, err)
	}
	writing.Wait()
}
