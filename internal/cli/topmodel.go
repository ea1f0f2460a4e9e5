package cli

import (
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
)

const (
	// maxRates bounds the rates that are drawn: those of four minutes.
	maxRates = 240
	// maxFilterText bounds a filter in letters.
	maxFilterText = 80
)

// topState is what the screen shows, and how. It changes by update alone.
type topState struct {
	shown snapshot
	rates []float64 // of requests, the latest last
	// trouble says why nothing comes, "" while it does.
	trouble string
	pane    int
	orders  [4]int  // of each pane
	row     int     // that is chosen
	detail  *detail // of a row that is explained, in place of the pane; nil: none is
	filter  string
	typing  bool // the filter
	paused  bool
	colour  bool
}

// What comes of the node: what it shows, and why it does not. failedMsg ends the screen.
type (
	shownMsg  struct{ snapshot }
	brokenMsg struct{ why string }
	failedMsg struct{ err error }
	// explainedMsg has what was asked about a row.
	explainedMsg struct {
		of    subject
		lines []string
	}
)

// update returns the state after a message, and whether that is the end.
func (s topState) update(msg tea.Msg) (next topState, end bool) {
	switch m := msg.(type) {
	case shownMsg:
		s.show(&m.snapshot)
	case brokenMsg:
		s.trouble = m.why
	case failedMsg:
		return s, true
	case explainedMsg:
		if s.detail != nil && s.detail.of == m.of {
			s.detail = &detail{of: m.of, lines: m.lines}
		}
	case tea.KeyPressMsg:
		if s.typing {
			s.edit(m)
			return s, m.String() == "ctrl+c"
		}
		return s, s.press(m.String())
	}
	return s, false
}

// show takes what has come; the rest stays as it was.
func (s *topState) show(n *snapshot) {
	s.trouble = ""
	if s.paused {
		return
	}
	if n.Overview != nil {
		s.shown.Overview = n.Overview
		r := &n.Overview.Rates
		rates := append(s.rates[max(len(s.rates)-maxRates+1, 0):len(s.rates):len(s.rates)], r.Allowed+r.Denied+r.DegradedAllowed+r.DegradedDenied+r.Unmatched+r.UnknownDomain)
		s.rates = rates
	}
	if n.Keys != nil {
		s.shown.Keys = n.Keys
	}
	if n.Fleet != nil {
		s.shown.Fleet = n.Fleet
	}
	if n.Switches != nil {
		s.shown.Switches = n.Switches
	}
	s.shown.Notes = n.Notes
}

// press obeys a key, and reports whether it is the last.
func (s *topState) press(key string) (end bool) {
	const page = 10
	switch key {
	case "q", "ctrl+c":
		return true
	case "enter":
		s.choose()
	case "tab", "right", "l":
		s.turn(1)
	case "shift+tab", "left", "h":
		s.turn(-1)
	case "1", "2", "3", "4":
		s.turn(int(key[0]-'1') - s.pane)
	case "s":
		s.orders[s.pane] = (s.orders[s.pane] + 1) % len(panes[s.pane].orders)
	case "p", "space", " ":
		s.paused = !s.paused
	case "/":
		s.typing = true
	case "esc":
		if s.detail == nil {
			s.filter, s.row = "", 0
		}
		s.detail = nil
	case "down", "j":
		s.scroll(1)
	case "up", "k":
		s.scroll(-1)
	case "pgdown":
		s.scroll(page)
	case "pgup":
		s.scroll(-page)
	case "home":
		s.scroll(math.MinInt32)
	}
	return false
}

// turn goes to another pane.
func (s *topState) turn(by int) {
	s.pane, s.row, s.detail = (s.pane+by+len(panes))%len(panes), 0, nil
}

// scroll chooses another row, not beyond those that there are; or moves the lines of a
// detail.
func (s *topState) scroll(by int) {
	if d := s.detail; d != nil {
		moved := *d
		moved.from = max(min(d.from+by, len(d.lines)-1), 0)
		s.detail = &moved
		return
	}
	s.row = max(min(s.row+by, len(s.rows())-1), 0)
}

// rows are those of the pane that is shown, but for what the filter leaves out.
func (s *topState) rows() [][]cell {
	g, _ := panes[s.pane].grid(&s.shown, s.order())
	g.found(s.filter)
	return g.rows
}

// choose has the row that is chosen explained, or ends that.
func (s *topState) choose() {
	if s.detail != nil {
		s.detail = nil
		return
	}
	if rows := s.rows(); len(rows) > 0 {
		row := rows[min(s.row, len(rows)-1)]
		s.detail = &detail{of: subject{s.pane, row[0].text, row[1].text}, asking: true, lines: []string{"asking..."}}
	}
}

// edit changes the filter.
func (s *topState) edit(key tea.KeyPressMsg) {
	s.row = 0
	switch key.String() {
	case "enter":
		s.typing = false
	case "esc":
		s.typing, s.filter = false, ""
	case "backspace":
		_, n := utf8.DecodeLastRuneInString(s.filter)
		s.filter = s.filter[:len(s.filter)-n]
	case "ctrl+u":
		s.filter = ""
	default:
		if utf8.RuneCountInString(s.filter+key.Text) <= maxFilterText && !strings.ContainsFunc(key.Text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			s.filter += key.Text
		}
	}
}

// order is that of the pane that is shown.
func (s *topState) order() string { return panes[s.pane].orders[s.orders[s.pane]] }

func textWidth(text string) int { return ansi.StringWidth(text) }

// topScreen shows a topState on a terminal.
type topScreen struct {
	state         topState
	width, height int
	// explain explains a row of a snapshot; it may take long.
	explain func(of subject, s *snapshot) []string
	err     error // why it has ended
}

// Init implements tea.Model.
func (t *topScreen) Init() tea.Cmd { return nil }

// Update implements tea.Model.
func (t *topScreen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch m := msg.(type) {
	case tea.WindowSizeMsg:
		t.width, t.height = m.Width, m.Height
	case failedMsg:
		t.err = m.err
	}
	before := t.state.detail
	var end bool
	if t.state, end = t.state.update(msg); end {
		return t, tea.Quit
	}
	if d := t.state.detail; d != nil && d.asking && (before == nil || before.of != d.of) {
		shown := t.state.shown
		return t, func() tea.Msg { return explainedMsg{d.of, t.explain(d.of, &shown)} }
	}
	return t, nil
}

// View implements tea.Model.
func (t *topScreen) View() tea.View {
	v := tea.NewView("")
	if t.width > 0 {
		v.SetContent(render(&t.state, t.width, t.height))
	}
	v.AltScreen, v.WindowTitle = true, "headgate top"
	return v
}
