package app

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/telemetry"
)

// keepingEvents runs a process with a state directory, whose limit is one hit.
func keepingEvents(t *testing.T, state, files string, log *syncBuffer) *runner {
	t.Helper()
	s := settings()
	s.StateDir, s.AuditKeys = state, "plain"
	s.AuditFiles = config.NewStoreURL(files)
	s.Rules = filepath.Join(t.TempDir(), "rules.yaml")
	writeFile(t, s.Rules, "domain: d\ndescriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 1, algorithm: fixed_window, time_zone: UTC}}]\n")
	return runWith(t, s, Options{Build: telemetry.Build{Version: "test"}, Logger: slog.New(slog.NewTextHandler(log, nil))})
}

// keptEvents returns the events of all files of a directory, finished or not. A file that gets its last name
// meanwhile is left out.
func keptEvents(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	for _, pattern := range []string{"*.jsonl.gz", "*.jsonl", "*.open"} {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if os.IsNotExist(err) {
				continue
			}
			if err == nil && strings.HasSuffix(path, ".gz") {
				var unpacked *gzip.Reader
				if unpacked, err = gzip.NewReader(bytes.NewReader(data)); err == nil {
					data, err = io.ReadAll(unpacked)
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			all.Write(data)
		}
	}
	return all.String()
}

// Events last without a setting of their own, where there is a directory of state: what was
// denied is in a file of it, and another start adds to that.
func TestL1EventsLastByDefault(t *testing.T) {
	state := t.TempDir()
	events := filepath.Join(state, eventsDir)
	for start := 1; start <= 2; start++ {
		var log syncBuffer
		r := keepingEvents(t, state, "", &log)
		r.answers(t, 2, "d", "user", "ann", `"allowed":false`)
		r.eventually(t, func() string { // it is written behind
			if text := keptEvents(t, events); strings.Count(text, `"outcome":"denied"`) < start {
				return fmt.Sprintf("start %d: %q", start, text)
			}
			return ""
		})
		r.end(t)
	}
}

// Whoever wants no files gets none, and a directory that cannot be written by default keeps
// no process from starting: it says so.
func TestEventsByDefaultAreNoDuty(t *testing.T) {
	state := t.TempDir()
	var log syncBuffer
	r := keepingEvents(t, state, "none", &log)
	r.answers(t, 2, "d", "user", "ann", `"allowed":false`)
	r.end(t)
	if _, err := os.Lstat(filepath.Join(state, eventsDir)); !os.IsNotExist(err) {
		t.Errorf("none: %v", err)
	}
	writeFile(t, filepath.Join(state, eventsDir), "a file stands in the way")
	r = keepingEvents(t, state, "", &log)
	r.answers(t, 2, "d", "user", "ann", `"allowed":false`)
	r.eventually(t, func() string {
		if text := log.String(); !strings.Contains(text, "events of decisions are kept in memory alone") || !strings.Contains(text, "hint: --state-dir names a directory that can be written") {
			return text
		}
		return ""
	})
	r.end(t)
}

// Events are kept by default where nothing else is said of them, by a process that decides.
func TestWhoKeepsEventsByDefault(t *testing.T) {
	for name, test := range map[string]struct {
		files, kafka  string
		decides, kept bool
		sinks         int
	}{
		"nothing is said":    {"", "", true, true, 1},
		"none shall be kept": {"none", "", true, false, 0},
		"they go elsewhere":  {"", "kafka://127.0.0.1:1/events", true, false, 1},
		"it decides nothing": {"", "", false, false, 0},
	} {
		s := shared()
		s.StateDir, s.AuditFiles, s.AuditKafka = t.TempDir(), config.NewStoreURL(test.files), config.NewStoreURL(test.kafka)
		w := &watching{process: &process{settings: &s, does: config.Does{Decide: test.decides}, logger: quiet()}}
		sinks, err := w.openEventSinks()
		if err != nil || len(sinks) != test.sinks {
			t.Errorf("%s: %d sinks, want %d: %v", name, len(sinks), test.sinks, err)
		}
		if _, err := os.Stat(filepath.Join(s.StateDir, eventsDir)); (err == nil) != test.kept {
			t.Errorf("%s: kept %t, want %t: %v", name, err == nil, test.kept, err)
		}
		closeSinks(sinks)
	}
}

// Events that are kept by default have 256 MiB at most: the oldest go.
func TestEventsByDefaultAreBounded(t *testing.T) {
	state := t.TempDir()
	old, young := filepath.Join(state, eventsDir, "events-1.jsonl.gz"), filepath.Join(state, eventsDir, "events-2.jsonl.gz")
	if err := os.Mkdir(filepath.Dir(old), 0o700); err != nil {
		t.Fatal(err)
	}
	for path, age := range map[string]time.Duration{old: 2 * time.Hour, young: time.Hour} {
		writeFile(t, path, "")
		at := time.Now().Add(-age)
		if err := errors.Join(os.Truncate(path, 200<<20), os.Chtimes(path, at, at)); err != nil { // without a byte on the disk
			t.Fatal(err)
		}
	}
	var log syncBuffer
	r := keepingEvents(t, state, "", &log)
	r.eventually(t, func() string {
		if _, err := os.Stat(old); err == nil {
			return "the oldest events are still there"
		}
		return ""
	})
	if _, err := os.Stat(young); err != nil {
		t.Error(err)
	}
	r.end(t)
}
