package nodes

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/regular"
	"github.com/headgate/headgate/internal/rulesource"
)

// countFile is the name of the file in the state directory that has the last known
// number of nodes, as a decimal number on a line.
const countFile = "nodes"

const (
	// maxNodesKept is the most that the file may say; --nodes takes no more either.
	maxNodesKept = 10_000
	// maxNodesFile bounds the file, in bytes.
	maxNodesFile = 32
	// nodesFallAfter is for how long fewer nodes must be there before the file says so.
	// A whole fleet that stops, one node after the other, is no smaller fleet: when it
	// starts again without a store, each must still know of all.
	nodesFallAfter = 10 * time.Minute
)

// Count is how many nodes this one reckons with until the store tells, and what
// the next start will. It is used by one goroutine at a time.
type Count struct {
	// Logger is told; it may be set until the first Tell.
	Logger *slog.Logger
	// Initial is the number to begin with; 0: nothing is known.
	Initial int
	// Static says that Initial is --nodes.
	Static bool

	path    string // "": nothing is kept
	problem error  // why the file could not be read

	kept  int // what the file says
	fewer int // the most that was said since the instant since, all of it below kept; 0 for none
	since time.Time
	// answered says that the store has told, asked that it was asked.
	answered, asked bool
	failing         bool // the file could not be written the last time
}

// Remember reads what there is to know before the store has told: static is --nodes, 0
// when it is not given, and dir the directory of states, "" for none.
func Remember(static int, dir string) *Count {
	m := new(Count)
	if static > 0 {
		m.Initial, m.Static = static, true
		return m
	}
	if dir == "" {
		return m
	}
	m.path = filepath.Join(dir, countFile)
	n, err := readNodes(m.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.problem = err
	}
	m.Initial, m.kept = n, n
	return m
}

// readNodes reads a number of nodes; 0 with an error.
func readNodes(path string) (int, error) {
	data, err := regular.Read(path, maxNodesFile)
	if err != nil {
		return 0, fmt.Errorf("last known number of nodes: %w", err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || n < 1 || n > maxNodesKept {
		return 0, fmt.Errorf("last known number of nodes in %s: not a number from 1 to %d; it is written anew when the store answers", path, maxNodesKept)
	}
	return n, nil
}

// Tell logs by which number the node goes at first, and why.
func (m *Count) Tell() {
	if m.problem != nil {
		m.Logger.Warn("what was kept of the number of nodes cannot be used", "error", m.problem)
	}
	why := "nobody has said how many there are: this one is taken to be alone until the store tells"
	switch {
	case m.Static:
		why = "--nodes"
	case m.Initial > 0:
		why = "the last known number, from --state-dir, until the store tells"
	}
	m.Logger.Info("this node reckons with so many nodes, by which rules that are local divide their limits", "nodes", cmp.Or(m.Initial, 1), "why", why)
}

// Beat is told of each answer of the store to the question how many nodes there are, or
// of why there was none.
func (m *Count) Beat(now time.Time, nodes int, err error) {
	if err == nil {
		m.answered = true
		m.note(now, nodes)
		return
	}
	if m.answered || m.asked {
		return
	}
	m.asked = true
	if m.Initial > 0 {
		m.Logger.Warn("the store does not tell how many nodes there are; this node goes by the last known number", "nodes", m.Initial)
		return
	}
	m.Logger.Warn("the store does not tell how many nodes there are; this node takes itself to be alone, so that rules with failure_mode local let the whole limit pass here; hint: --state-dir keeps the last known number, --nodes says it")
}

// note keeps a number, a larger one at once.
func (m *Count) note(now time.Time, nodes int) {
	if nodes = min(nodes, maxNodesKept); m.path == "" || nodes < 1 {
		return
	}
	if nodes == m.kept {
		m.fewer = 0
		return
	}
	if nodes < m.kept {
		if m.fewer == 0 {
			m.since = now
		}
		if m.fewer = max(m.fewer, nodes); now.Sub(m.since) < nodesFallAfter {
			return
		}
		nodes = m.fewer
	}
	if err := rulesource.WriteWhole(m.path, fmt.Appendln(nil, nodes)); err != nil {
		if !m.failing {
			m.Logger.Warn("the number of nodes was not kept; hint: --state-dir names a directory that can be written", "error", err)
		}
		m.failing = true
		return
	}
	m.kept, m.fewer, m.failing = nodes, 0, false
}
