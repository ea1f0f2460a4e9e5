package rulesource

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// maxHops bounds the symbolic links followed on the way to one file; the kernel
// stops at 40.
const maxHops = 40

// links resolves paths and reads every symbolic link at most once. That is half
// of what makes a snapshot whole: a Kubernetes volume is updated by swapping one
// link (..data), and all files reached through it are read from the directory
// that it named when it was first read, though it may be swapped in between. The
// other half is unmoved: the old directory is removed file by file after the
// swap, so that what was listed in it counts only if there was no swap.
type links struct {
	target map[string]string // path of a link -> where it points; "" for no link
	// dirs are the directories that held a link which was followed or a file
	// that was read: a change of either shows there.
	dirs map[string]struct{}
}

func newLinks() *links {
	return &links{target: map[string]string{}, dirs: map[string]struct{}{}}
}

// resolve returns the path of what path leads to, free of links. It is an error
// if that does not exist.
func (l *links) resolve(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	done, rest := "/", split(abs)
	for hops := 0; len(rest) > 0; {
		next := filepath.Join(done, rest[0])
		rest = rest[1:]
		target, err := l.readlink(next)
		if err != nil {
			return "", err
		}
		if target == "" {
			done = next
			continue
		}
		if hops++; hops > maxHops {
			return "", fmt.Errorf("%s: more than %d symbolic links; hint: does one point to itself?", path, maxHops)
		}
		l.dirs[done] = struct{}{}
		if filepath.IsAbs(target) {
			done = "/"
		}
		rest = append(split(target), rest...)
	}
	return done, nil
}

// unmoved reports whether every link that was read still points where it did.
func (l *links) unmoved() error {
	for path, before := range l.target {
		if before == "" {
			continue
		}
		if after, err := os.Readlink(path); err != nil || after != before {
			return fmt.Errorf("%s: %w", path, errMoved)
		}
	}
	return nil
}

// split returns the elements of a path; ".." is one of them, because it means the
// parent of where a link led and cannot be cut out beforehand.
func split(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == filepath.Separator })
}

func (l *links) readlink(path string) (string, error) {
	if target, ok := l.target[path]; ok {
		return target, nil
	}
	info, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	target := ""
	if info.Mode()&os.ModeSymlink != 0 {
		if target, err = os.Readlink(path); err != nil {
			return "", err
		}
		if target == "" {
			return "", errors.New(path + ": empty symbolic link")
		}
	}
	l.target[path] = target
	return target, nil
}
