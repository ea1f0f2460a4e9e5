//go:build unix

package rulesource

import (
	"io/fs"
	"os"
	"syscall"
)

// give makes a file that of the owner and the group of another one. Only root may name another owner, but members may
// name their group; who may do neither keeps the file, as when an editor saves it.
func give(f *os.File, was fs.FileInfo) {
	of, ok := was.Sys().(*syscall.Stat_t)
	if !ok {
		return
	}
	if f.Chown(int(of.Uid), int(of.Gid)) != nil {
		_ = f.Chown(-1, int(of.Gid))
	}
}
