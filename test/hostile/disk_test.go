package hostile

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// leaksOnDisk fails the test where a file that the nodes have written, or the store, has a
// secret in full: events, what is kept for the next start, keys and values of counters.
func (f *fleet) leaksOnDisk() {
	f.t.Helper()
	err := filepath.WalkDir(f.dir, func(path string, entry fs.DirEntry, err error) error {
		name, _ := filepath.Rel(f.dir, path)
		if err != nil || entry.IsDir() || !strings.HasPrefix(name, "events") && !strings.HasPrefix(name, "state") {
			return err
		}
		text, err := os.ReadFile(path)
		f.leaks(name, string(text))
		return err
	})
	if err != nil {
		f.t.Error(err)
	}
	f.leaks("a key of the store", fmt.Sprintf("%s", f.redis.MustDo("KEYS", "*")))
}
