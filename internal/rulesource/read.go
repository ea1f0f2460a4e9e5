package rulesource

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/headgate/headgate/internal/regular"
	"github.com/headgate/headgate/rules/rulefile"
)

// Bounds of what is read, so that a wrong path (/, a log directory, a device)
// ends in a message and not in all memory. Rules of a large fleet have a few
// thousand lines.
const (
	maxDepth      = 16                   // directories below the given one
	maxFiles      = 10_000               // rule files
	maxEntries    = 100_000              // names looked at
	maxFileBytes  = rulefile.MaxFileSize // one file
	maxTotalBytes = 64 << 20             // all files
	// maxAttempts bounds how often a directory that changes while it is read
	// is read again. An update of a Kubernetes volume happens once a minute at
	// most.
	maxAttempts = 20
)

// errMoved says that the files changed while they were read.
var errMoved = errors.New("rule files changed while they were read")

// snapshot is the content of all rule files at one time.
type snapshot struct {
	files []rulefile.File
	// hash is one of names and contents.
	hash  string
	watch interest
}

// interest says where a change of a snapshot would show.
type interest struct {
	// dirs are the directories to watch, sorted.
	dirs []string
	// listed are those of them in which every entry counts, as a new one may
	// be a rule file.
	listed map[string]fs.FileInfo
	// names are the paths that were looked at, links and files.
	names map[string]string
}

// touches reports whether a change of path may be one of the snapshot.
func (i *interest) touches(path string) bool {
	if _, ok := i.names[path]; ok {
		return true
	}
	_, ok := i.listed[filepath.Dir(path)]
	return ok
}

// Read returns the rule files of path, a file or a directory, in the order of
// their names; see Options for what is taken of a directory.
func Read(path string, anyName bool) ([]rulefile.File, error) {
	s, err := read(path, anyName)
	return s.files, err
}

// read reads path, a file or a directory, whole. Of a directory it takes the
// files that end in .yaml or .yml, in the order of their names, and all of them
// if anyName is set; names that begin with a dot and files of rule tests are
// left out. A file named as path is read whatever its name.
func read(path string, anyName bool) (snapshot, error) {
	for attempt := 1; ; attempt++ {
		r := reader{links: newLinks(), anyName: anyName, dirs: map[string]fs.FileInfo{}}
		err := r.root(path)
		if err == nil {
			err = r.unmoved()
		}
		if err == nil {
			return r.snapshot(path), nil
		}
		if !moved(err) {
			return snapshot{}, err
		}
		if _, gone := os.Stat(path); gone != nil {
			return snapshot{}, fmt.Errorf("read rules: %w; hint: name a file or a directory that exists", gone)
		}
		if attempt == maxAttempts && errors.Is(err, fs.ErrNotExist) {
			return snapshot{}, fmt.Errorf("read rules: %s: %w; hint: a symbolic link there may lead nowhere, and a directory of rules has nothing else in it", path, err)
		}
		if attempt == maxAttempts {
			return snapshot{}, fmt.Errorf("read rules: %s: %w", path, err)
		}
	}
}

// moved reports whether err may be gone when the files are read again.
func moved(err error) bool {
	return errors.Is(err, errMoved) || errors.Is(err, fs.ErrNotExist)
}

type reader struct {
	links   *links
	anyName bool
	files   []rulefile.File
	bytes   int
	entries int
	dirs    map[string]fs.FileInfo // every directory listed, as it was before
}

func (r *reader) root(path string) error {
	real, err := r.links.resolve(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(real)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return r.file(path, real)
	}
	if err := r.dir(path, real, 0); err != nil {
		return err
	}
	// A directory that is not mounted looks like this.
	if len(r.files) == 0 {
		which := "files that end in .yaml or .yml"
		if r.anyName {
			which = "all files but those that begin with a dot"
		}
		return fmt.Errorf("%s: no rule files; hint: of a directory, %s are read", path, which)
	}
	return nil
}

// dir reads the directory real, which messages call name.
func (r *reader) dir(name, real string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%s: more than %d directories deep; hint: does a link point to its own parent?", name, maxDepth)
	}
	// The entries of a Kubernetes volume are links through ..data, added and
	// removed only after ..data was swapped: its target is the whole truth.
	if data, err := r.links.resolve(filepath.Join(real, "..data")); err == nil {
		r.links.dirs[real] = struct{}{}
		real = data
	}
	before, err := os.Stat(real)
	if err != nil {
		return err
	}
	r.dirs[real] = before
	entries, err := os.ReadDir(real)
	if err != nil {
		return err
	}
	if r.entries += len(entries); r.entries > maxEntries {
		return fmt.Errorf("%s: more than %d files; hint: is this a directory of rules?", name, maxEntries)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if err := r.entry(filepath.Join(name, e.Name()), filepath.Join(real, e.Name()), depth); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) entry(name, path string, depth int) error {
	real, err := r.links.resolve(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(real)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return r.dir(name, real, depth+1)
	case !IsTestFile(name) && (r.anyName || isRuleFile(name)):
		return r.file(name, real)
	}
	return nil
}

// isRuleFile reports whether name looks like a rule file.
func isRuleFile(name string) bool {
	ext := filepath.Ext(name)
	return ext == ".yaml" || ext == ".yml"
}

// IsTestFile reports whether name is that of a file of rule tests, which stands
// beside the rules that it tests: it ends in .test.yaml or .test.yml.
func IsTestFile(name string) bool {
	return strings.HasSuffix(name, ".test.yaml") || strings.HasSuffix(name, ".test.yml")
}

func (r *reader) file(name, real string) error {
	if len(r.files) == maxFiles {
		return fmt.Errorf("%s: more than %d rule files", name, maxFiles)
	}
	data, err := readFile(name, real)
	if err != nil {
		return err
	}
	if r.bytes += len(data); r.bytes > maxTotalBytes {
		return fmt.Errorf("%s: the rule files have more than %d MiB together", name, maxTotalBytes>>20)
	}
	r.files = append(r.files, rulefile.File{Name: name, Data: data})
	r.links.dirs[filepath.Dir(real)] = struct{}{}
	return nil
}

func readFile(name, real string) ([]byte, error) {
	info, err := regular.Stat(real)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFileBytes {
		return nil, fmt.Errorf("%s: %d MiB, larger than %d MiB; hint: is this a rule file?", name, info.Size()>>20, maxFileBytes>>20)
	}
	f, err := os.Open(real)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	after, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !unchanged(info, after) || after.Size() != int64(len(data)) {
		return nil, fmt.Errorf("%s: %w", name, errMoved)
	}
	return data, nil
}

// unmoved reports whether every directory that was listed still stands where it
// stood, with the same entries, and every link points where it did.
func (r *reader) unmoved() error {
	if err := r.links.unmoved(); err != nil {
		return err
	}
	for path, before := range r.dirs {
		after, err := os.Stat(path)
		if err != nil {
			return err
		}
		if !unchanged(before, after) {
			return fmt.Errorf("%s: %w", path, errMoved)
		}
	}
	return nil
}

func unchanged(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

func (r *reader) snapshot(path string) snapshot {
	slices.SortFunc(r.files, func(a, b rulefile.File) int { return strings.Compare(a.Name, b.Name) })
	watch := maps.Clone(r.links.dirs)
	for dir := range r.dirs {
		watch[dir] = struct{}{}
	}
	if abs, err := filepath.Abs(path); err == nil {
		watch[filepath.Dir(abs)] = struct{}{}
	}
	return snapshot{
		files: r.files,
		hash:  hashOf(r.files),
		watch: interest{dirs: slices.Sorted(maps.Keys(watch)), listed: r.dirs, names: r.links.target},
	}
}

// hashOf returns a hash of the names and contents of files, each preceded by
// its length so that no two lists of files look the same.
func hashOf(files []rulefile.File) string {
	h := sha256.New()
	part := func(p []byte) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write(p)
	}
	for _, f := range files {
		part([]byte(f.Name))
		part(f.Data)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
