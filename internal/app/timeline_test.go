package app

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/timeline"
	"github.com/headgate/headgate/internal/view"
)

// What was answered is known again after a start with the same directory of state. A file that cannot be read
// is told of, one that is not there yet is not.
func TestAnswersAreRecalled(t *testing.T) {
	now := time.Now()
	kept := func(dir string) error {
		line := timeline.New(now.Add(-3 * time.Minute))
		line.Tell(now.Add(-2*time.Minute), view.Requests{Allowed: 7}, view.Latency{})
		return line.Keep(filepath.Join(dir, timelineFile))
	}
	for name, test := range map[string]struct {
		write   func(dir string) error
		decides bool
		known   float64
		told    bool
	}{
		"no file yet":        {func(string) error { return nil }, true, 0, false},
		"a file":             {kept, true, 7, false},
		"a damaged file":     {func(dir string) error { return os.WriteFile(filepath.Join(dir, timelineFile), []byte("x"), 0o600) }, true, 0, true},
		"it decides nothing": {kept, false, 0, false},
	} {
		var log syncBuffer
		s := shared()
		s.StateDir = t.TempDir()
		if err := test.write(s.StateDir); err != nil {
			t.Fatal(err)
		}
		w := &watching{process: &process{settings: &s, does: config.Does{Decide: test.decides}, logger: slog.New(slog.NewTextHandler(&log, nil))}}
		w.watchTimeline()
		known := 0.0
		if w.timeline != nil {
			for _, p := range w.timeline.Between(now.Add(-2*time.Hour), now, timeline.MaxPoints).Points {
				known += p.Requests.Allowed
			}
		}
		if known != test.known || (w.timeline != nil) != test.decides || len(w.process.tasks) != map[bool]int{true: 1}[test.decides] {
			t.Errorf("%s: %v requests are known, want %v; %d tasks", name, known, test.known, len(w.process.tasks))
		}
		if told := strings.Contains(log.String(), "what was answered before this start is not known"); told != test.told {
			t.Errorf("%s: told %t, want %t: %s", name, told, test.told, log.String())
		}
	}
}
