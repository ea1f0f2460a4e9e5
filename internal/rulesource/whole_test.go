package rulesource

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestSweep: what a killed process had not finished goes, and nothing of anybody else.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	if err := WriteWhole(filepath.Join(dir, "timeline"), []byte("whole")); err != nil {
		t.Fatal(err)
	}
	// As WriteWhole begins it, and a kill leaves it.
	left, err := os.CreateTemp(dir, partOf+"timeline.*")
	if err != nil {
		t.Fatal(err)
	}
	left.Close()
	others := []string{"timeline.123", ".headgate-part-", ".headgate-part-x", ".headgate-part-x.y", ".headgate-try-123", "my.headgate-part-x.1", "nodes"}
	for _, name := range others {
		write(t, filepath.Join(dir, name), "mine")
	}
	if err := os.Mkdir(filepath.Join(dir, partOf+"dir.1"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "nodes"), filepath.Join(dir, partOf+"link.1")); err != nil {
		t.Fatal(err)
	}
	if removed, err := Sweep(dir); err != nil || removed != 1 {
		t.Errorf("%d removed, %v", removed, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	want := append(slices.Clone(others), "timeline", partOf+"dir.1", partOf+"link.1")
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("there is %q, want %q", names, want)
	}
	if removed, err := Sweep(filepath.Join(dir, "none")); err != nil || removed != 0 {
		t.Errorf("no directory: %d removed, %v", removed, err)
	}
}

// What could not be written leaves nothing behind, and what is there as it was.
func TestWriteWholeThatFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "timeline")
	if err := os.Mkdir(path, 0o700); err != nil { // no file takes its name
		t.Fatal(err)
	}
	if err := WriteWhole(path, []byte("whole")); err == nil {
		t.Error("a directory is replaced")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || !entries[0].IsDir() {
		t.Errorf("there is %v, %v", entries, err)
	}
}

// TestSweepFile: of what stands in a directory that others write to, only what was begun long
// ago for the very file goes.
func TestSweepFile(t *testing.T) {
	dir, now := t.TempDir(), time.Unix(1_790_000_000, 0)
	for name, age := range map[string]time.Duration{
		partOf + "accounts.jsonl.1": 2 * time.Hour, partOf + "accounts.jsonl.22": 59 * time.Minute,
		partOf + "more.accounts.jsonl.1": 2 * time.Hour, partOf + "accounts.jsonl.more.1": 2 * time.Hour,
		partOf + "accounts.jsonl.": 2 * time.Hour, "accounts.jsonl": 2 * time.Hour, "accounts.jsonl.1": 2 * time.Hour,
	} {
		path := filepath.Join(dir, name)
		write(t, path, "mine")
		if err := os.Chtimes(path, now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	if removed, err := SweepFile(filepath.Join(dir, "accounts.jsonl"), now.Add(-time.Hour)); err != nil || removed != 1 {
		t.Errorf("%d removed, %v", removed, err)
	}
	if _, err := os.Stat(filepath.Join(dir, partOf+"accounts.jsonl.1")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what a killed process left is there: %v", err)
	}
}
