package nodes

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestNodesAreRemembered(t *testing.T) {
	var text bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&text, nil))
	dir := t.TempDir()
	path := filepath.Join(dir, countFile)
	m := Remember(0, dir)
	m.Logger = logger
	if m.Tell(); m.Initial != 0 || !strings.Contains(text.String(), "nodes=1") || !strings.Contains(text.String(), "alone") {
		t.Errorf("a first start knows of %d nodes and says %q", m.Initial, text.String())
	}
	now := time.Unix(1_780_000_000, 0)
	for i, step := range []struct {
		after time.Duration
		said  int
		kept  string
	}{
		{0, 1, "1\n"}, {time.Second, 3, "3\n"}, {time.Second, 2, "3\n"}, {nodesFallAfter - time.Second, 1, "3\n"},
		{time.Second, 1, "2\n"}, {time.Second, 1, "2\n"}, {time.Hour, 2, "2\n"}, {time.Second, 1, "2\n"}, {nodesFallAfter, 1, "1\n"}, {0, 20_000, "10000\n"},
	} {
		now = now.Add(step.after)
		m.Beat(now, step.said, nil)
		if kept, err := os.ReadFile(path); err != nil || string(kept) != step.kept {
			t.Errorf("step %d: %q is kept, want %q: %v", i, kept, step.kept, err)
		}
	}
	if got := Remember(0, dir); got.Initial != 10_000 || got.problem != nil {
		t.Errorf("the next start knows of %d nodes: %v", got.Initial, got.problem)
	}
	if got := Remember(7, dir); got.Initial != 7 || got.path != "" {
		t.Errorf("--nodes 7 is %d, kept in %q", got.Initial, got.path)
	}
}

func TestNodesFileOfGarbage(t *testing.T) {
	for name, data := range map[string]string{
		"empty": "", "words": "three", "none": "0", "negative": "-3", "too many": "10001", "more": "3 4",
		"long": strings.Repeat("1", 1<<20), "overflow": "99999999999999999999", "zeros": "\x00\x00\x00",
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, countFile)
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		m := Remember(0, dir)
		if m.Initial != 0 || m.problem == nil {
			t.Errorf("%s: %d nodes, %v", name, m.Initial, m.problem)
		}
		var text bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&text, nil))
		m.Logger = logger
		m.Tell()
		m.Beat(time.Time{}, 0, errors.New("away"))
		m.Beat(time.Time{}, 0, errors.New("away"))
		if got := strings.Count(text.String(), "takes itself to be alone"); got != 1 || !strings.Contains(text.String(), "cannot be used") {
			t.Errorf("%s: the log says %d times that the node is alone: %s", name, got, text.String())
		}
		if m.Beat(time.Time{}, 4, nil); Remember(0, dir).Initial != 4 {
			t.Errorf("%s: the file is not written anew", name)
		}
	}
}

// What is no file is not waited for.
func TestPipeInPlaceOfTheFile(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, countFile), 0o600); err != nil {
		t.Fatal(err)
	}
	if m := Remember(0, dir); m.Initial != 0 || m.problem == nil || !strings.Contains(m.problem.Error(), "not a regular file") {
		t.Errorf("%d nodes, %v", m.Initial, m.problem)
	}
}

// A directory that cannot be written is no reason not to serve, nor to fill the log.
func TestNodesThatCannotBeKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&text, nil))
	m := Remember(0, file)
	m.Logger = logger
	for range 3 {
		m.Beat(time.Time{}, 3, nil)
	}
	if got := strings.Count(text.String(), "was not kept"); got != 1 {
		t.Errorf("%d lines: %s", got, text.String())
	}
}
