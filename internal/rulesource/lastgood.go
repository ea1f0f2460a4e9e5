package rulesource

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/headgate/headgate/internal/regular"
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

// loadLastGood reads what is kept in dir. It refuses a file whose contents do
// not have the hash that is written in it.
func loadLastGood(dir string) (snapshot, time.Time, error) {
	if dir == "" {
		return snapshot{}, time.Time{}, errors.New("no last good rules: no state directory; hint: --state-dir keeps them")
	}
	data, err := regular.Read(filepath.Join(dir, lastGoodName), maxLastGood)
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
