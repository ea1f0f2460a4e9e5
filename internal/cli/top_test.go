package cli

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/headgate/headgate/internal/view"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var topNow = time.Date(2026, 11, 22, 12, 0, 5, 0, time.UTC)

// nodeSnapshot is that of a node with something of everything.
func nodeSnapshot() snapshot {
	s := snapshot{
		Overview: &view.Overview{
			At:      topNow,
			Node:    view.Identity{Name: "gate-1", Version: "v1.2.3", Layer: "edge", StartedAt: topNow.Add(-50 * time.Hour)},
			Health:  view.Health{Ready: true, Degraded: true, Store: view.State{Error: "redis://10.0.0.2:6379: connection refused"}, Rules: view.Config{State: view.State{OK: true}, Version: "3f1c9a27"}},
			Rates:   view.Requests{Allowed: 12345.6, Denied: 87.25, DegradedAllowed: 3.21, Unmatched: 0.02},
			Latency: view.Latency{P50: 0.0000853, P90: 0.00042, P99: 0.0123, Count: 100},
			Shards: []view.Shard{
				{Store: "default", Addr: "10.0.0.1:6379", Connected: true, Breaker: "closed", InFlight: 3, Calls: 1234567, Failures: 12},
				{Store: "default", Addr: "10.0.0.2:6379", Breaker: "open", Calls: 765432, Failures: 4321, Refused: 99999},
			},
			Audit: view.Audit{Produced: 123456, Dropped: 5, Buffered: 40, Sinks: []view.AuditSink{{Name: "file:///events", Failed: 2, Buffered: 2}}}, LiveNodes: 3, HotKeys: 2, RulesMore: 4,
			Memory: &view.Memory{Bytes: 10 << 20, MaxBytes: 64 << 20},
		},
		Keys:  &view.BothTopKeys{Total: view.TopKeys{By: "total", Nodes: 2}, Denied: view.TopKeys{By: "denied", Nodes: 2}},
		Fleet: &view.Fleet{Live: 3, Error: "read the notices: timeout"},
	}
	for i := range 30 {
		s.Overview.Rules = append(s.Overview.Rules, view.Rule{
			ID:    fmt.Sprintf("api.rule-%02d", i),
			Rates: view.Outcomes{Allowed: float64(1000 - i), Denied: float64(i % 7), ShadowDenied: float64(i % 2), LocalAllowed: float64(i % 3)},
		})
	}
	busy := view.TopKey{Rule: "api.tenant", Hash: "9f86d081884c7d659a2fe3", Key: "tenant:acme,endpoint:GET /v1/a/very/long/path/that/never/ends/and/goes/on/and/on", Total: 54321, Denied: 1234, Error: 12}
	hidden := view.TopKey{Rule: "api.login", Hash: "2c26b46b68ffc68ff99b45", Total: 77, Denied: 77}
	evil := view.TopKey{Rule: "api.evil\x1b[2J", Hash: "x", Key: "user:\x1b]0;owned\a\r\n\u202e東京\u009b31m", Total: 5}
	s.Keys.Total.Keys = []view.TopKey{busy, hidden, evil}
	s.Keys.Denied.Keys = []view.TopKey{hidden, busy}
	s.Fleet.Nodes = []view.Node{
		{Identity: view.Identity{Name: "gate-2", Version: "v1.2.2"}, At: topNow.Add(-7 * time.Second), Ready: true, ConfigVersion: "3f1c9a27", Rates: view.Requests{Allowed: 9000, Denied: 5}, Latency: view.Latency{P99: 0.002}},
		{Identity: view.Identity{Name: "gate-1", Version: "v1.2.3"}, Self: true, At: topNow, Ready: true, Degraded: true, ConfigVersion: "3f1c9a27", BreakersOpen: 1, Rates: view.Requests{Allowed: 12345.6, Denied: 87.25}, Latency: view.Latency{P99: 0.0123}},
		{Identity: view.Identity{Name: "gate-3\x1b[31m", Version: "v1.2.3"}, At: topNow.Add(-2 * time.Second), Draining: true, ConfigVersion: "0000aaaa"},
	}
	return s
}

// key is a key that was pressed.
func key(name string) tea.Msg {
	codes := map[string]rune{"tab": tea.KeyTab, "esc": tea.KeyEscape, "enter": tea.KeyEnter, "backspace": tea.KeyBackspace, "left": tea.KeyLeft, "right": tea.KeyRight, "up": tea.KeyUp, "down": tea.KeyDown, "pgdown": tea.KeyPgDown, "pgup": tea.KeyPgUp, "home": tea.KeyHome}
	if code, ok := codes[name]; ok {
		return tea.KeyPressMsg{Code: code}
	}
	if name == "ctrl+c" {
		return tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl}
	}
	return tea.KeyPressMsg{Code: []rune(name)[0], Text: name}
}

// pressed is the state after keys, none of which is the end.
func pressed(t *testing.T, s topState, names ...string) topState {
	t.Helper()
	for _, name := range names {
		var end bool
		if s, end = s.update(key(name)); end {
			t.Fatalf("%s ended it", name)
		}
	}
	return s
}

// shown is a state with a snapshot.
func shown(n snapshot) topState {
	s, _ := topState{}.update(shownMsg{n})
	return s
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "top", name+".golden")
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%s\nwant, by %s,\n%s", got, path, want)
	}
}

func TestTopScreens(t *testing.T) {
	full := shown(nodeSnapshot())
	for i := range 40 {
		n := nodeSnapshot()
		n.Overview.Rates.Allowed = float64((i * 37) % 100)
		full, _ = full.update(shownMsg{n})
	}
	broken, _ := full.update(brokenMsg{"ask the admin API: connection refused; asking again in 1.5s"})
	coloured := full
	coloured.colour = true
	for name, c := range map[string]struct {
		s             topState
		width, height int
	}{
		"rules":        {full, 80, 24},
		"rules_lower":  {pressed(t, full, "s", "s", "pgdown", "pgdown", "down"), 80, 24},
		"keys":         {pressed(t, full, "tab"), 80, 24},
		"keys_total":   {pressed(t, full, "tab", "s"), 100, 24},
		"shards":       {pressed(t, full, "3"), 80, 24},
		"fleet":        {pressed(t, full, "left"), 80, 24},
		"fleet_wide":   {pressed(t, full, "4", "s"), 120, 30},
		"filter":       {pressed(t, full, "/", "R", "u", "l", "e", "-", "1"), 80, 24},
		"fleet_quiet":  {pressed(t, shown(snapshot{Fleet: &view.Fleet{Live: 5, Nodes: nodeSnapshot().Fleet.Nodes}}), "4"), 80, 24},
		"filter_none":  {pressed(t, full, "/", "x", "y", "enter"), 80, 24},
		"paused":       {pressed(t, full, "p"), 80, 24},
		"broken":       {broken, 80, 24},
		"narrow":       {pressed(t, full, "tab"), 30, 12},
		"colours":      {pressed(t, coloured, "3"), 80, 24},
		"empty":        {topState{}, 80, 24},
		"nothing_else": {shown(snapshot{Overview: &view.Overview{At: topNow, Health: view.Health{Ready: true, Store: view.State{OK: true}, Rules: view.Config{State: view.State{OK: true}}}}}), 80, 24},
	} {
		got := render(&c.s, c.width, c.height)
		lines := strings.Split(got, "\n")
		if len(lines) != c.height {
			t.Errorf("%s: %d lines", name, len(lines))
		}
		for _, line := range lines {
			if w := ansi.StringWidth(line); w > c.width {
				t.Errorf("%s: %d wide: %s", name, w, line)
			}
		}
		golden(t, name, got+"\n")
	}
	s := nodeSnapshot()
	golden(t, "once", plain(&s))
	golden(t, "once_empty", plain(&snapshot{}))
}

// Whatever the size, and whatever is shown, a screen fits it, and holds nothing that a
// terminal obeys.
func TestTopFits(t *testing.T) {
	s := shown(nodeSnapshot())
	for p := range panes {
		for _, width := range []int{0, 1, 4, 9, 19, 30, 59, 78, 79, 80, 138} {
			for _, height := range []int{0, 1, 2, 3, 8, 9, 10, 11, 24, 60} {
				s := s
				s.turn(p - s.pane)
				s.row = width
				got := render(&s, width+1, height)
				lines := strings.Split(got, "\n")
				if len(lines) != max(height, 1) {
					t.Fatalf("%s at %dx%d: %d lines", panes[p].name, width+1, height, len(lines))
				}
				for _, line := range lines {
					if ansi.StringWidth(line) > width+1 || strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
						t.Fatalf("%s at %dx%d: %q", panes[p].name, width+1, height, line)
					}
				}
			}
		}
	}
}

// The chosen row is on the screen however low it is, and how many rows are below it is true.
func TestTopShowsTheChosenRow(t *testing.T) {
	for _, chosen := range []int{0, 1, 15, 28, 29} {
		for room := 3; room < 40; room++ { // a title, a row, and the note below
			s := shown(nodeSnapshot())
			s.row = chosen
			last, more := -1, 0
			marked := false
			for _, line := range paneLines(&s, painter(false), 80, room) {
				marked = marked || strings.HasPrefix(line, "> ")
				fields := strings.Fields(line)
				if len(fields) == 3 && fields[0] == "and" {
					more, _ = strconv.Atoi(fields[1])
				} else if strings.Contains(line, "api.rule-") {
					last++
				}
			}
			from := firstShown(chosen, 30, room-2)
			if !marked || more > 0 && from+last+1+more != 30 {
				t.Errorf("row %d in %d lines: marked %t, %d rows from %d on, and %d more", chosen, room, marked, last+1, from, more)
			}
		}
	}
}

func TestTopKeys(t *testing.T) {
	s := shown(nodeSnapshot())
	for _, name := range []string{"q", "ctrl+c"} {
		if _, end := s.update(key(name)); !end {
			t.Errorf("%s does not end it", name)
		}
	}
	if _, end := s.update(failedMsg{}); !end {
		t.Error("a failure does not end it")
	}
	if got := pressed(t, s, "tab", "tab", "tab", "tab", "left"); got.pane != 3 {
		t.Errorf("pane %d", got.pane)
	}
	if got := pressed(t, s, "down", "down", "up", "pgdown", "tab"); got.row != 0 {
		t.Errorf("another pane begins at row %d", got.row)
	}
	if got := pressed(t, s, "pgdown", "pgdown", "pgdown", "pgdown"); got.row != 29 {
		t.Errorf("30 rows end at %d", got.row)
	}
	// What is typed is text while the filter is, but the way out stays.
	typed := pressed(t, s, "/", "q", "p", "ä", "backspace", "s")
	if typed.filter != "qps" || typed.paused || !typed.typing {
		t.Errorf("%+v", typed.filter)
	}
	if _, end := typed.update(key("ctrl+c")); !end {
		t.Error("ctrl+c is typed")
	}
	if got := pressed(t, typed, "esc"); got.filter != "" || got.typing {
		t.Errorf("%+v", got.filter)
	}
	for range 200 {
		typed = pressed(t, typed, "x")
	}
	if len(typed.filter) != maxFilterText {
		t.Errorf("a filter of %d letters", len(typed.filter))
	}
	typed, _ = typed.update(tea.KeyPressMsg{Text: "\x1b[31m"})
	if strings.Contains(typed.filter, "\x1b") {
		t.Error("a filter holds a control character")
	}
}

// A pause holds what is seen still; what comes later is seen after it.
func TestTopPause(t *testing.T) {
	later := nodeSnapshot()
	later.Overview.At = topNow.Add(time.Minute)
	s := pressed(t, shown(nodeSnapshot()), "p")
	s, _ = s.update(shownMsg{later})
	if !s.shown.Overview.At.Equal(topNow) {
		t.Error("a pause does not hold")
	}
	s, _ = pressed(t, s, "p").update(shownMsg{later})
	if !s.shown.Overview.At.Equal(later.Overview.At) {
		t.Error("it does not go on")
	}
	for range 10 * maxRates {
		s, _ = s.update(shownMsg{later})
	}
	if len(s.rates) != maxRates {
		t.Errorf("%d rates are kept", len(s.rates))
	}
}

// A state is a value: what came before stays as it was.
func TestTopStatesAreValues(t *testing.T) {
	a := shown(nodeSnapshot())
	before := render(&a, 80, 24)
	b, _ := pressed(t, a, "s", "/", "x", "enter").update(shownMsg{snapshot{Overview: &view.Overview{}}})
	c, _ := a.update(shownMsg{nodeSnapshot()})
	if render(&a, 80, 24) != before || render(&b, 80, 24) == before || len(c.rates) != 2 || len(a.rates) != 1 {
		t.Error("a state has changed")
	}
}

func TestFewLetters(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.01: "<0.1", 0.44: "0.4", 1: "1", 9.94: "9.9", 9.96: "10", 87.25: "87", 9999: "9999", 12345: "12.3k", 999499: "999k", 999600: "1M", 1.5e9: "1.5G", 1e15: "1.0e+15", -3: "-3"} {
		if got := amount(v); got != want {
			t.Errorf("amount(%v) = %s, want %s", v, got, want)
		}
	}
	for v, want := range map[float64]string{0: "-", 0.0000853: "85µs", 0.0012: "1.2ms", 0.25: "250ms", 3.4: "3.4s", -1: "-"} {
		if got := took(v); got != want {
			t.Errorf("took(%v) = %s, want %s", v, got, want)
		}
	}
	for d, want := range map[time.Duration]string{-time.Second: "0s", 59 * time.Second: "59s", time.Hour - 1: "59m", 47 * time.Hour: "47h", 50 * time.Hour: "2d"} {
		if got := age(d); got != want {
			t.Errorf("age(%v) = %s, want %s", d, got, want)
		}
	}
	if got := spark([]float64{9, 0, 1, 2, 4}, 4); got != "▁▃▅█" {
		t.Error(got)
	}
	if got := spark([]float64{0, 0}, 4); got != "▁▁" {
		t.Error(got)
	}
}

// FuzzTopSnapshot: whatever a server says is shown, or refused; and nothing of it reaches
// the terminal that it obeys.
func FuzzTopSnapshot(f *testing.F) {
	n := nodeSnapshot()
	for name, v := range map[string]any{"overview": n.Overview, "keys": n.Keys, "fleet": n.Fleet} {
		text, err := json.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(name, string(text))
		f.Add(name, "null")
	}
	f.Add("overview", `{"latency":{"p99":1e308},"rates":{"allowed":-1},"rules":null,"shards":[{}],"at":"0001-01-01T00:00:00Z"}`)
	f.Fuzz(func(t *testing.T, name, text string) {
		n, err := shownBy(serverEvent{name: name, data: []byte(text)})
		if err != nil {
			return
		}
		for _, s := range []topState{shown(n), pressed(t, shown(n), "tab", "s"), pressed(t, shown(n), "3"), pressed(t, shown(n), "4", "s", "s")} {
			for line := range strings.SplitSeq(render(&s, 80, 24), "\n") {
				if ansi.StringWidth(line) > 80 || strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
					t.Fatalf("%q", line)
				}
			}
		}
	})
}

// What is printed once shows who asks the most where nobody is denied, says so
// where nobody asks, and is no wider for one key that is very long.
func TestTopOnce(t *testing.T) {
	s := nodeSnapshot()
	long := "user:" + strings.Repeat("x", 600)
	s.Keys.Total.Keys = []view.TopKey{{Rule: "api.user", Key: long, Total: 3}, {Rule: "api.user", Key: "user:ann", Total: 2}}
	s.Keys.Denied.Keys = nil
	text := plain(&s)
	if !strings.Contains(text, "user:ann") {
		t.Errorf("who asks the most is not shown:\n%s", text)
	}
	for line := range strings.Lines(text) {
		if w := ansi.StringWidth(line); strings.Contains(line, "user:") && w > 200 {
			t.Errorf("%d wide: %s", w, line)
		}
	}
	s.Keys.Total.Keys = nil
	if text := plain(&s); !strings.Contains(text, "no request was counted in the last minutes") {
		t.Errorf("nothing is said of keys:\n%s", text)
	}
	s.Overview.Audit.Sinks[0].Error = "no space left"
	if text := plain(&s); !strings.Contains(text, "events to file:///events: no space left") {
		t.Errorf("nothing is said of events:\n%s", text)
	}
	if _, note := keysGrid(&s, "denied"); note != "no key was denied in the last minutes" {
		t.Errorf("by denied: %q", note)
	}
}
