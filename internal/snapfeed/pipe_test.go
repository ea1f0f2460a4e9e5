package snapfeed

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// What stands in the place of a file and is none is not waited for, neither to read nor to write it.
func TestPipesAreNotWaitedFor(t *testing.T) {
	dir := t.TempDir()
	f := NewFollower(FollowerOptions{Dir: dir})
	if err := syscall.Mkfifo(f.keptPath(), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, sum := sumOf(f.keptPath())
	for what, err := range map[string]error{"read": f.restore(), "write": f.keep(&reply{}, false), "add up": sum} {
		if err == nil || !strings.Contains(err.Error(), filepath.Base(f.keptPath())+": not a regular file") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
