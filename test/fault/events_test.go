package fault

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
)

// eventCounts are what became of the events of decisions that were answered.
type eventCounts struct {
	answered, lost int
	mostOfOne      int           // lost by one death
	oldest         time.Duration // between an answer whose event was lost, and the death
	twice          int           // events that were found twice
}

// lines returns what stands in the files of events whose names end with suffix, file by file.
func (m *machine) lines(t *testing.T, suffix string) [][]byte {
	t.Helper()
	entries, err := os.ReadDir(m.files.events)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var files [][]byte
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), suffix) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(m.files.events, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, text)
	}
	return files
}

// torn returns how many bytes a last line has that was being written when the node died.
func (m *machine) torn(t *testing.T) (torn int) {
	t.Helper()
	for _, text := range m.lines(t, ".open") {
		torn += len(text) - 1 - bytes.LastIndexByte(text, '\n')
	}
	return torn
}

// traces returns the traces of all events of a machine that has ended, each with how often it is there. Each file must
// be finished, and each line of it an event.
func (m *machine) traces(t *testing.T) map[string]int {
	t.Helper()
	if n := len(m.lines(t, ".open")); n > 0 {
		t.Errorf("machine %d: %d files of events were left unfinished", m.number, n)
	}
	found := map[string]int{}
	for _, text := range m.lines(t, ".jsonl") {
		lines := bufio.NewScanner(bytes.NewReader(text))
		for lines.Scan() {
			var event struct {
				TraceID string `json:"trace_id"`
				EventID string `json:"event_id"`
			}
			if err := json.Unmarshal(lines.Bytes(), &event); err != nil || event.EventID == "" {
				t.Errorf("machine %d: a line is no event: %q, %v", m.number, lines.Bytes(), err)
				continue
			}
			if event.TraceID != "" {
				found[event.TraceID]++
			}
		}
		if err := lines.Err(); err != nil {
			t.Error(err)
		}
		if len(text) > 0 && text[len(text)-1] != '\n' {
			t.Errorf("machine %d: a finished file ends in the middle of a line", m.number)
		}
	}
	return found
}

// awaitFinished waits until what a dead node was writing is finished by the one that lives.
func (m *machine) awaitFinished(t *testing.T) {
	t.Helper()
	eventually.Nil(t, "the files of a dead node are finished", func() error {
		if n := len(m.lines(t, ".open")); n > 1 {
			return fmt.Errorf("%d files are being written", n)
		}
		return nil
	})
}

// countEvents compares what callers have heard with the events of machines that have ended: gently, but for the deaths.
// Only the latest events before a death may be lost, and none without one.
func (l *processLoad) countEvents(t *testing.T, deaths map[life]time.Time) (c eventCounts) {
	t.Helper()
	lostBy := map[life]int{}
	for _, m := range l.machines {
		found := m.traces(t)
		for _, n := range found {
			c.twice += n - 1
		}
		for _, caller := range l.callers {
			for of, heard := range caller.heard {
				if of.machine != m.number {
					continue
				}
				c.answered += len(heard)
				lost := 0
				for _, h := range heard {
					switch {
					case found[h.trace] == 0:
						lost++
						c.oldest = max(c.oldest, deaths[of].Sub(h.at))
					case lost > 0:
						t.Errorf("machine %d: an event was written after one of the same caller that is lost", m.number)
					}
				}
				lostBy[of] += lost
			}
		}
	}
	for of, lost := range lostBy {
		if _, died := deaths[of]; !died && lost > 0 {
			t.Errorf("machine %d ended gently and has lost %d events", of.machine, lost)
		}
		c.lost += lost
		c.mostOfOne = max(c.mostOfOne, lost)
	}
	if c.twice > 0 {
		t.Errorf("%d events were written twice", c.twice)
	}
	return c
}

// verify has the command verify the log of changes, and looks for each account that nodes said they had changed.
func (r *machineRig) verify(t *testing.T, a *accounts) (chain string) {
	t.Helper()
	path, err := testserver.Headgate()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(path, "quota", "log", "--verify", "--tenants", r.database).CombinedOutput()
	if err != nil {
		t.Errorf("verify the log of changes: %v\n%s", err, out)
		return "broken"
	}
	var changes int
	if _, err := fmt.Sscanf(string(out), "%d changes, each as it was made", &changes); err != nil {
		t.Errorf("verify the log of changes: %q, %v", out, err)
	}
	if changes < len(a.changed) || changes > a.asked {
		t.Errorf("the log has %d changes; nodes said that they made %d of %d", changes, len(a.changed), a.asked)
	}
	stored, err := exec.Command(path, "quota", "export", "--tenants", r.database).Output()
	if err != nil {
		t.Errorf("export the accounts: %v\n%s", err, stored)
	}
	for _, account := range a.changed {
		if !bytes.Contains(stored, []byte(`"`+account+`"`)) {
			a.lost++
		}
	}
	if a.lost > 0 {
		t.Errorf("%d accounts are lost of which a node said that it had changed them", a.lost)
	}
	return fmt.Sprintf("%d changes whole", changes)
}
