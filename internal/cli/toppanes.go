package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/view"
)

// snapshot is what the admin API shows of a node; what it does not have is nil.
type snapshot struct {
	Overview *view.Overview    `json:"overview,omitempty"`
	Keys     *view.BothTopKeys `json:"keys,omitempty"`
	Fleet    *view.Fleet       `json:"fleet,omitempty"`
	// Switches are those in force, and Notes what else there is to say of several nodes,
	// such as one that does not answer.
	Switches []switched `json:"switches,omitempty"`
	Notes    []string   `json:"notes,omitempty"`
}

// pane is one table of a snapshot.
type pane struct {
	name string
	// orders are those that it can be sorted by, the usual one first.
	orders []string
	// grid is the table in an order, and what is to be said below it; a table without
	// columns is none, and the note says why.
	grid func(s *snapshot, order string) (g grid, note string)
}

// panes are all of them.
var panes = []pane{
	{"rules", []string{"denied", "allowed", "rule"}, rulesGrid},
	{"keys", []string{"denied", "total"}, keysGrid},
	{"shards", []string{"store", "in flight", "failures"}, shardsGrid},
	{"fleet", []string{"name", "denied", "p99"}, fleetGrid},
}

// found keeps the rows that have text in one of their cells.
func (g *grid) found(text string) {
	if text == "" {
		return
	}
	g.rows = slices.DeleteFunc(g.rows, func(row []cell) bool {
		return !slices.ContainsFunc(row, func(c cell) bool {
			return strings.Contains(strings.ToLower(c.text), strings.ToLower(text))
		})
	})
}

// colourIf colours a cell of the last row where a number is there.
func (g *grid) colourIf(v float64, at int, sgr string) {
	if v > 0 {
		g.rows[len(g.rows)-1][at].sgr = sgr
	}
}

const notShown = "this node does not show it"

func rulesGrid(s *snapshot, order string) (g grid, note string) {
	if s.Overview == nil {
		return g, notShown
	}
	g.columns = []column{{"RULE", false, true}, {"ALLOWED/s", true, false}, {"DENIED/s", true, false}, {"DENIED", true, false}, {"SHADOW/s", true, false}, {"DEGRADED/s", true, false}}
	list := slices.Clone(s.Overview.Rules)
	slices.SortStableFunc(list, func(a, b view.Rule) int {
		byRate := 0
		switch order {
		case "denied":
			byRate = cmp.Compare(deniedOf(&b.Rates), deniedOf(&a.Rates))
		case "allowed":
			byRate = cmp.Compare(allowedOf(&b.Rates), allowedOf(&a.Rates))
		}
		return cmp.Or(byRate, strings.Compare(a.ID, b.ID))
	})
	for i := range list {
		o := &list[i].Rates
		allowed, denied := allowedOf(o), deniedOf(o)
		degraded := o.DegradedAllowed + o.DegradedDenied + o.LocalAllowed + o.LocalDenied + o.OpenDenied
		g.add(list[i].ID, amount(allowed), amount(denied), share(denied, allowed+denied), amount(o.ShadowDenied), amount(degraded))
		g.colourIf(denied, 2, red)
		g.colourIf(o.ShadowDenied, 4, violet)
		g.colourIf(degraded, 5, yellow)
	}
	if n := s.Overview.RulesMore; n > 0 {
		note = fmt.Sprintf("and %d more rules, with fewer decisions", n)
	}
	return g, note
}

// allowedOf and deniedOf are what a rule has let pass and what not, whoever decided it.
func allowedOf(o *view.Outcomes) float64 {
	return o.Allowed + o.ShadowDenied + o.DegradedAllowed + o.LocalAllowed
}

func deniedOf(o *view.Outcomes) float64 {
	return o.Denied + o.DegradedDenied + o.LocalDenied + o.OpenDenied
}

func keysGrid(s *snapshot, order string) (g grid, note string) {
	if s.Keys == nil {
		return g, notShown
	}
	g.columns = []column{{"RULE", false, true}, {"KEY", false, true}, {"DECIDED", true, false}, {"DENIED", true, false}, {"SHARE", true, false}, {"±", true, false}}
	list := s.Keys.Denied.Keys
	if order == "total" {
		list = s.Keys.Total.Keys
	}
	for _, k := range list {
		g.add(k.Rule, cmp.Or(k.Key, "#"+k.Hash), amount(k.Total), amount(k.Denied), share(k.Denied, k.Total), amount(k.Error))
		g.colourIf(k.Denied, 3, red)
	}
	switch {
	case len(list) > 0:
	case order == "total":
		note = "no request was counted in the last minutes"
	default:
		note = "no key was denied in the last minutes"
	}
	return g, note
}

func shardsGrid(s *snapshot, order string) (g grid, note string) {
	if s.Overview == nil {
		return g, notShown
	}
	if len(s.Overview.Shards) == 0 {
		return g, "no store of others: this node counts in its memory"
	}
	g.columns = []column{{"STORE", false, true}, {"SERVER", false, true}, {"STATE", false, false}, {"BREAKER", false, false}, {"IN FLIGHT", true, false}, {"CALLS", true, false}, {"FAILURES", true, false}, {"REFUSED", true, false}}
	list := slices.Clone(s.Overview.Shards)
	slices.SortStableFunc(list, func(a, b view.Shard) int {
		first := 0
		switch order {
		case "in flight":
			first = cmp.Compare(b.InFlight, a.InFlight)
		case "failures":
			first = cmp.Compare(b.Failures, a.Failures)
		}
		return cmp.Or(first, strings.Compare(a.Store, b.Store), strings.Compare(a.Addr, b.Addr))
	})
	for _, sh := range list {
		state := "up"
		if !sh.Connected {
			state = "down"
		}
		g.add(sh.Store, sh.Addr, state, strings.ReplaceAll(sh.Breaker, "_", " "), fmt.Sprint(sh.InFlight), amount(float64(sh.Calls)), amount(float64(sh.Failures)), amount(float64(sh.Refused)))
		row := g.rows[len(g.rows)-1]
		if row[2].sgr = green; !sh.Connected {
			row[2].sgr = red
		}
		if sh.Breaker != "closed" {
			row[3].sgr = red
		}
	}
	return g, ""
}

// selfMark follows the name of a node that was asked.
const selfMark = " *"

func fleetGrid(s *snapshot, order string) (g grid, note string) {
	if s.Fleet == nil {
		return g, notShown
	}
	g.columns = []column{{"NODE", false, true}, {"STATE", false, false}, {"ALLOWED/s", true, false}, {"DENIED/s", true, false}, {"P99", true, false}, {"OPEN", true, false}, {"RULES", false, true}, {"VERSION", false, true}, {"SEEN", true, false}}
	list := slices.Clone(s.Fleet.Nodes)
	slices.SortStableFunc(list, func(a, b view.Node) int {
		first := 0
		switch order {
		case "denied":
			first = cmp.Compare(b.Rates.Denied, a.Rates.Denied)
		case "p99":
			first = cmp.Compare(b.Latency.P99, a.Latency.P99)
		}
		return cmp.Or(first, strings.Compare(a.Name, b.Name))
	})
	newest := time.Time{}
	for i := range list {
		if list[i].At.After(newest) {
			newest = list[i].At
		}
	}
	for i := range list {
		n := &list[i]
		name, seen := n.Name, "now"
		if n.Self {
			name += selfMark
		}
		if d := newest.Sub(n.At); d >= time.Second {
			seen = age(d)
		}
		state, sgr := stateOf(n.Ready, n.Degraded, n.Draining)
		g.add(name, state, amount(n.Rates.Allowed+n.Rates.DegradedAllowed), amount(n.Rates.Denied+n.Rates.DegradedDenied), took(n.Latency.P99), fmt.Sprint(n.BreakersOpen), n.ConfigVersion, n.Version, seen)
		g.rows[len(g.rows)-1][1].sgr = sgr
		g.colourIf(n.Rates.Denied, 3, red)
		g.colourIf(float64(n.BreakersOpen), 5, red)
	}
	switch quiet := s.Fleet.Live - len(list); {
	case s.Fleet.Error != "":
		note = s.Fleet.Error
	case quiet > 0:
		note = fmt.Sprintf("and %d more, which do not tell of themselves", quiet)
	}
	return g, oneLine(note)
}

// stateOf says in one word how a node is, and in which colour.
func stateOf(ready, degraded, draining bool) (text, sgr string) {
	switch {
	case draining:
		return "draining", yellow
	case !ready:
		return "not ready", red
	case degraded:
		return "degraded", yellow
	}
	return "ready", green
}
