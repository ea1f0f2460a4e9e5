package rulesource

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/headgate/headgate/rules/rulefile"
)

// lastGoodName is the name of the file in the state directory, and maxLastGood bounds it in bytes: the
// files and the documents of rules, in base64, and their names.
const (
	lastGoodName = "last-good-rules.json"
	maxLastGood  = 4 * maxTotalBytes
)

// lastGood is the content of the rule files that were in force most recently.
type lastGood struct {
	SavedAt time.Time      `json:"saved_at"`
	Hash    string         `json:"hash"`
	Files   []lastGoodFile `json:"files"`
}

type lastGoodFile struct {
	Name string `json:"name"`
	Data []byte `json:"data"` // base64 in JSON: rule files hold any bytes until they are parsed
}

// saveLastGood replaces what is kept in dir. After a crash at any point the
// file is the old one or the new one, whole.
func saveLastGood(dir string, s snapshot, now time.Time) error {
	kept := lastGood{SavedAt: now.UTC(), Hash: s.hash}
	for _, f := range s.files {
		kept.Files = append(kept.Files, lastGoodFile(f))
	}
	data, err := json.Marshal(kept)
	if err != nil {
		return fmt.Errorf("keep the rules: %w", err)
	}
	if err := WriteWhole(filepath.Join(dir, lastGoodName), data); err != nil {
		return fmt.Errorf("keep the rules: %w; hint: --state-dir names a directory that can be written", err)
	}
	return nil
}

// WriteWhole writes data to path by way of a new file beside it, and makes the
// directory if need be. After a crash at any point the file is the old one or the new
// one, whole. The order is what makes it safe: contents to disk, then the name, then
// the directory.
func WriteWhole(path string, data []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails once the file has its name, as it should
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return err
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// loadLastGood reads what is kept in dir. It refuses a file whose contents do
// not have the hash that is written in it.
func loadLastGood(dir string) (snapshot, time.Time, error) {
	if dir == "" {
		return snapshot{}, time.Time{}, errors.New("no last good rules: no state directory; hint: --state-dir keeps them")
	}
	data, err := readLastGood(filepath.Join(dir, lastGoodName))
	if errors.Is(err, fs.ErrNotExist) {
		return snapshot{}, time.Time{}, fmt.Errorf("no last good rules in %s", dir)
	}
	if err != nil {
		return snapshot{}, time.Time{}, fmt.Errorf("last good rules: %w", err)
	}
	var kept lastGood
	if err := json.Unmarshal(data, &kept); err != nil {
		return snapshot{}, time.Time{}, fmt.Errorf("last good rules in %s: %w", dir, err)
	}
	s := snapshot{}
	for _, f := range kept.Files {
		s.files = append(s.files, rulefile.File(f))
	}
	s.hash = hashOf(s.files)
	if s.hash != kept.Hash {
		return snapshot{}, time.Time{}, fmt.Errorf("last good rules in %s: damaged: contents have hash %s, not %s", dir, s.hash, kept.Hash)
	}
	return s, kept.SavedAt, nil
}

func readLastGood(path string) ([]byte, error) {
	// A named pipe would block the open, so that the kind is asked first.
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: not a regular file (%s)", path, info.Mode().Type())
	case info.Size() > maxLastGood:
		return nil, fmt.Errorf("%s: %d MiB, larger than %d MiB", path, info.Size()>>20, maxLastGood>>20)
	}
	return os.ReadFile(path)
}
