package rulesource

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// partOf begins the names of files that are not whole yet; what follows is the name that
// they are for and, after a dot, digits.
const partOf = ".headgate-part-"

// partName are the names of those files, and of no others.
var partName = regexp.MustCompile("^" + regexp.QuoteMeta(partOf) + `.+\.[0-9]+$`)

// maxSwept bounds the entries of a directory that Sweep looks at, so that one with anything
// else in it does not hold up a start.
const maxSwept = 10_000

// Sweep removes from dir what Replace had not finished when a process was killed. Nobody
// may write to dir meanwhile. A directory that is not there has nothing to remove. The
// count is how many files are gone.
func Sweep(dir string) (removed int, err error) {
	return sweep(dir, func(e fs.DirEntry) bool { return partName.MatchString(e.Name()) })
}

// SweepFile removes what Replace had not finished for the file at path when a process was killed
// before an instant. Others may write to the directory, and that very file, meanwhile.
func SweepFile(path string, before time.Time) (removed int, err error) {
	return sweep(filepath.Dir(path), func(e fs.DirEntry) bool {
		if !partName.MatchString(e.Name()) || strings.TrimRight(e.Name(), "0123456789") != partOf+filepath.Base(path)+"." {
			return false
		}
		info, err := e.Info()
		return err == nil && info.ModTime().Before(before)
	})
}

// sweep removes the regular files of dir that are left over.
func sweep(dir string, left func(fs.DirEntry) bool) (removed int, err error) {
	d, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer d.Close()
	entries, err := d.ReadDir(maxSwept)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || !left(e) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return removed, err
		}
		removed++
	}
	return removed, nil
}

// WriteWhole is Replace with data, and makes the directory if need be.
func WriteWhole(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	return Replace(path, func(f *os.File) error {
		_, err := f.Write(data)
		return err
	})
}

// Replace puts a new file in the place of the one at path, if write, which fills it, has no error. It is readable by
// its owner alone unless write says otherwise. After a crash at any point the file is the old one or the new one,
// whole. The order is what makes it safe: contents to disk, then the name, then the directory.
func Replace(path string, write func(*os.File) error) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, partOf+filepath.Base(path)+".*")
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("write %s: %w", path, at.Err) // and not the name that was drawn
	}
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails once the file has its name, as it should
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	err = cmp.Or(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return err
	}
	return syncDir(dir)
}

// Renew is Replace for a file that is there and that somebody else may keep and read: links to it stay links, and the
// new file has the mode of the old one, and its owner and group where the process may give it away.
func Renew(path string, write func(*os.File) error) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	was, err := os.Stat(path)
	if err != nil {
		return err
	}
	return Replace(path, func(next *os.File) error {
		if err := write(next); err != nil {
			return err
		}
		give(next, was)
		return next.Chmod(was.Mode().Perm())
	})
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
