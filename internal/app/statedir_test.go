package app

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A state directory is of one process at a time: a second one says so, and removes nothing that the first may be
// writing. The next one after both removes what was left.
func TestStateDirOfAnother(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "at the start")
	var text bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&text, nil))
	release := holdState(dir, logger)
	part := filepath.Join(dir, ".headgate-part-timeline.123")
	if err := os.WriteFile(part, []byte("torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text.Len() > 0 {
		t.Errorf("the first says %s", text.String())
	}
	second := holdState(dir, logger)
	if _, err := os.Stat(part); err != nil || strings.Count(text.String(), "another process uses this state directory") != 1 {
		t.Errorf("the second: %v, %s", err, text.String())
	}
	second()
	third := holdState(dir, logger) // the first still has it
	third()
	if _, err := os.Stat(part); err != nil {
		t.Error(err)
	}
	release()
	text.Reset()
	holdState(dir, logger)()
	if _, err := os.Stat(part); err == nil || strings.Contains(text.String(), "another process") || !strings.Contains(text.String(), "files=1") {
		t.Errorf("the next: %v, %s", err, text.String())
	}
	text.Reset()
	holdState("", logger)()
	if text.Len() > 0 {
		t.Errorf("without a directory: %s", text.String())
	}
}
