package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/rules"
)

// maxShownNotes bounds the notes of a summary.
const maxShownNotes = 3

// summary is how a node is, in a few lines no wider than width; 0 is any.
func summary(s *snapshot, width int, paint func(sgr, text string) string) []string {
	o := s.Overview
	if o == nil {
		return []string{notShown}
	}
	state, sgr := stateOf(o.Health.Ready, o.Health.Degraded, o.Health.Draining)
	node := paint(bold, oneLine(o.Node.Name)) + "  " + oneLine(o.Node.Version)
	if o.Node.Layer != "" {
		node += "  " + oneLine(o.Node.Layer)
	}
	node += "  " + paint(sgr, state)
	if !o.Node.StartedAt.IsZero() {
		node += "  up " + age(o.At.Sub(o.Node.StartedAt))
	}
	if o.LiveNodes > 1 {
		node += "  " + rules.CountText(o.LiveNodes, "node")
	}
	lines := []string{node}
	if d := o.Drill; d != nil {
		lines = append(lines, paint(yellow, oneLine(drilled(d))))
	}
	for _, line := range switchLines(s.Switches) {
		lines = append(lines, paint(yellow, line))
	}
	if trouble := troubles(o); trouble != "" {
		lines = append(lines, paint(red, oneLine(trouble)))
	}
	if homes := o.Health.Homes; homes != nil && !homes.OK {
		lines = append(lines, paint(yellow, "regions: "+oneLine(homes.Error)))
	}
	if line := replicaLine(o.Health.Replica); line != "" {
		lines = append(lines, paint(yellow, line))
	}
	for i, note := range s.Notes {
		if i == maxShownNotes {
			lines = append(lines, paint(yellow, fmt.Sprintf("and %d more notes: headgate top --json", len(s.Notes)-i)))
			break
		}
		lines = append(lines, paint(yellow, oneLine(note)))
	}
	r := &o.Rates
	degraded := r.DegradedAllowed + r.DegradedDenied
	lines = append(lines,
		fmt.Sprintf("allowed %s/s  %s  %s  unmatched %s/s  %s",
			paint(green, amount(r.Allowed)), coloured(paint, red, "denied", r.Denied), coloured(paint, yellow, "degraded", degraded), amount(r.Unmatched), coloured(paint, yellow, "unknown domain", r.UnknownDomain)),
		fmt.Sprintf("latency p50 %s  p90 %s  p99 %s    hot keys %d", took(o.Latency.P50), took(o.Latency.P90), took(o.Latency.P99), o.HotKeys),
		fmt.Sprintf("rules %s  %s  %s", oneLine(cmp.Or(o.Health.Rules.Version, "none")), rulesState(&o.Health.Rules), events(paint, &o.Audit)))
	if m := o.Memory; m != nil && m.MaxBytes > 0 {
		lines[len(lines)-2] += fmt.Sprintf("  memory %s of %s MiB", amount(float64(m.Bytes)/(1<<20)), amount(float64(m.MaxBytes)/(1<<20)))
	}
	for i := range lines {
		lines[i] = fitted(lines[i], width)
	}
	return lines
}

// drilled says that a drill lasts.
func drilled(d *view.Drill) string {
	text := fmt.Sprintf("DRILL %s of %s  %s left  by %s", d.Fault, d.Of, age(time.Duration(d.LeftMS)*time.Millisecond), d.Actor)
	if !d.Here {
		text += "  not on this node"
	}
	if d.Reason != "" {
		text += ": " + d.Reason
	}
	return text
}

// coloured is a rate that has its colour where it is not 0.
func coloured(paint func(sgr, text string) string, sgr, name string, v float64) string {
	text := amount(v)
	if v > 0 {
		text = paint(sgr, text)
	}
	return name + " " + text + "/s"
}

// events is how many there were, and how many of them were lost or wait before a sink
// or in one.
func events(paint func(sgr, text string) string, a *view.Audit) string {
	gone, waiting := a.Dropped, a.Buffered
	for i := range a.Sinks {
		gone += a.Sinks[i].Failed
		waiting += a.Sinks[i].Buffered
	}
	lost := amount(float64(gone)) + " lost"
	if gone > 0 {
		lost = paint(red, lost)
	}
	return fmt.Sprintf("events %s  %s  %s waiting", amount(float64(a.Produced)), lost, amount(float64(waiting)))
}

// rulesState says whether the rules that are there are in force.
func rulesState(c *view.Config) string {
	switch {
	case c.OK:
		return "in force"
	case c.LastGood:
		return "the last good ones in force"
	}
	return "not in force"
}

// troubles is what does not work, "" when all does.
func troubles(o *view.Overview) string {
	h := &o.Health
	var list []string
	add := func(name string, s view.State) {
		if !s.OK {
			list = append(list, name+": "+cmp.Or(s.Error, s.Reason, "does not work"))
		}
	}
	add("store", h.Store)
	add("rules", h.Rules.State)
	if h.Tenants != nil {
		add("tenants", h.Tenants.State)
	}
	if h.Documents != nil {
		add("documents", h.Documents.State)
	}
	for i := range o.Audit.Sinks {
		add("events to "+o.Audit.Sinks[i].Name, view.State{OK: o.Audit.Sinks[i].Error == "", Error: o.Audit.Sinks[i].Error})
	}
	return strings.Join(list, "; ")
}

// plain is all of a snapshot, for a pipe.
func plain(s *snapshot) string {
	paint := painter(false)
	lines := summary(s, 0, paint)
	for _, p := range panes {
		lines = append(lines, "", strings.ToUpper(p.name[:1])+p.name[1:])
		var g grid
		var note string
		for _, order := range p.orders { // where nobody is denied, who asks the most is news
			if g, note = p.grid(s, order); len(g.rows) > 0 {
				break
			}
		}
		if g.columns != nil {
			lines = append(lines, g.lines(0, paint)...)
		}
		if note != "" {
			lines = append(lines, note)
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// render is the screen of a state: height lines, none wider than width.
func render(s *topState, width, height int) string {
	paint := painter(s.colour)
	lines := summary(&s.shown, width, paint)
	head := s.statusText()
	if room := width - textWidth(head) - 2; room > 10 && len(s.rates) > 1 {
		head += "  " + paint(dim, spark(s.rates, min(room, len(s.rates))))
	}
	lines = append([]string{fitted(head, width)}, append(lines, "", tabs(s, paint, width))...)
	foot := s.footText(paint)
	room := max(height-len(lines)-1, 0)
	lines = append(lines, paneLines(s, paint, width, room)...)
	for len(lines) < height-1 {
		lines = append(lines, "")
	}
	lines = append(lines[:max(min(len(lines), height-1), 0)], fitted(foot, width))
	return strings.Join(lines, "\n")
}

// tabs names the panes, with the one that is shown.
func tabs(s *topState, paint func(sgr, text string) string, width int) string {
	list := make([]string, len(panes))
	for i, p := range panes {
		text := " " + p.name + " "
		if list[i] = text; i == s.pane {
			list[i] = paint(reverse, "["+p.name+"]")
		}
	}
	text := strings.Join(list, " ") + "   by " + s.order()
	if s.filter != "" {
		text += "   with " + oneLine(s.filter)
	}
	return fitted(text, width)
}

// detailLines is a row that is explained, room lines at most.
func detailLines(d *detail, paint func(sgr, text string) string, width, room int) []string {
	from := min(d.from, max(len(d.lines)-room, 0))
	var lines []string
	for i, line := range d.lines[from:min(from+room, len(d.lines))] {
		line = fitted(oneLine(line), width)
		if from+i == 0 {
			line = paint(bold, line)
		}
		lines = append(lines, line)
	}
	return lines
}

// paneLines is the pane that is shown, room lines at most.
func paneLines(s *topState, paint func(sgr, text string) string, width, room int) []string {
	if s.detail != nil {
		return detailLines(s.detail, paint, width, room)
	}
	g, note := panes[s.pane].grid(&s.shown, s.order())
	if g.columns == nil {
		return []string{fitted(note, width)}[:min(room, 1)]
	}
	g.found(s.filter)
	chosen := min(s.row, max(len(g.rows)-1, 0))
	lines := g.lines(max(width-len(noMark), 1), paint)
	for i := range lines {
		mark := noMark
		if i == chosen+1 {
			mark = paint(reverse, ">") + " "
		}
		lines[i] = fitted(mark+lines[i], width)
	}
	title, rows := lines[0], lines[1:]
	if note != "" {
		room--
	}
	room = max(room-1, 0) // for the title
	from := firstShown(chosen, len(rows), room)
	rows = rows[from:min(from+room, len(rows))]
	if hidden := len(g.rows) - from - len(rows); hidden > 0 && room > 1 {
		rows[room-1] = paint(dim, fitted(fmt.Sprintf("and %d more", hidden+1), width))
	}
	lines = append([]string{title}, rows...)
	if note != "" {
		lines = append(lines, paint(dim, fitted(note, width)))
	}
	return lines
}

// noMark stands before a row that is not chosen.
const noMark = "  "

// firstShown is the first of n rows that is shown where room is for fewer, so that the chosen one
// is: below it one line may say how many more there are, unless there is room for one row alone.
func firstShown(chosen, n, room int) int {
	if room == 1 {
		return chosen
	}
	return max(min(chosen-room+2, n-room), 0)
}

// statusText says of when the screen is, and whether more comes.
func (s *topState) statusText() string {
	text := "headgate top"
	if s.shown.Overview != nil {
		text += "  " + s.shown.Overview.At.UTC().Format(time.TimeOnly) + "Z"
	}
	switch {
	case s.trouble != "":
		text += "  " + oneLine(s.trouble)
	case s.paused:
		text += "  paused"
	}
	return text
}

// footText says what keys do.
func (s *topState) footText(paint func(sgr, text string) string) string {
	if s.typing {
		return "filter: " + oneLine(s.filter) + "_   enter: keep   esc: none"
	}
	if s.detail != nil {
		return paint(dim, "q quit   esc back   tab pane   up/down scroll")
	}
	keys := []string{"q quit", "tab pane", "enter explain", "s sort", "/ filter", "p pause", "up/down choose"}
	if s.paused {
		keys[5] = "p go on"
	}
	return paint(dim, strings.Join(slices.Clip(keys), "   "))
}
