package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/view"
)

// subject is a row that somebody wants explained: its pane, and what its first cells say.
type subject struct {
	pane          int
	first, second string
}

// detail is a row that is explained. It is never changed, but replaced.
type detail struct {
	of     subject
	asking bool // the nodes have not answered yet
	lines  []string
	from   int // the first line that is shown
}

const (
	// explainTimeout bounds the wait for what is explained.
	explainTimeout = 10 * time.Second
	// shownEvents is how many events an explanation begins with.
	shownEvents = 5
)

// explainer asks the nodes about a row.
type explainer struct{ nodes []adminAddress }

// lines explains a row of a snapshot.
func (x *explainer) lines(ctx context.Context, of subject, s *snapshot) []string {
	ctx, cancel := context.WithTimeout(ctx, explainTimeout)
	defer cancel()
	switch panes[of.pane].name {
	case "rules":
		return append(ruleLines(of.first, s), x.decisions(ctx, url.Values{"rule": {of.first}}, "")...)
	case "keys":
		key := strings.TrimPrefix(of.second, "#")
		return append(keyLines(of, s), x.decisions(ctx, url.Values{"rule": {of.first}, "key": {key}}, of.second)...)
	case "shards":
		return shardLines(of, s)
	}
	return nodeLines(of.first, s)
}

// heldEvent is an event, and which node remembers it.
type heldEvent struct {
	view.Event
	node int
}

// decisions shows the latest events that a query chooses, those that were not allowed where
// there are any, and how the last of these requests would be decided now. key is what to ask about
// where no event is remembered.
func (x *explainer) decisions(ctx context.Context, query url.Values, key string) []string {
	title := "Not allowed of late"
	query.Set("outcome", view.OutcomeOver)
	events, troubles := x.events(ctx, query)
	if len(events) == 0 {
		title = "Of late"
		query.Del("outcome")
		events, troubles = x.events(ctx, query)
	}
	lines := []string{"", title}
	for i := range events {
		lines = append(lines, eventLine(&events[i].Event, false))
	}
	if len(events) == 0 {
		lines = append(lines, "no event is remembered: what is allowed becomes one by --audit-sample")
	}
	lines = append(lines, troubles...)
	return append(append(lines, "", "Now"), x.now(ctx, events, query.Get("rule"), key)...)
}

// events returns the latest events of all nodes that a query chooses.
func (x *explainer) events(ctx context.Context, query url.Values) (events []heldEvent, troubles []string) {
	query.Set("limit", fmt.Sprint(shownEvents))
	for i := range x.nodes {
		raw, err := x.nodes[i].tryAsk(ctx, http.MethodGet, "events?"+query.Encode(), nil)
		var page view.Events
		if err == nil {
			err = json.Unmarshal(raw, &page)
		}
		if err != nil {
			troubles = append(troubles, x.nodes[i].label()+": "+whatIsWrong(err))
			continue
		}
		for _, e := range page.Events {
			events = append(events, heldEvent{e, i})
		}
	}
	slices.SortStableFunc(events, func(a, b heldEvent) int { return cmp.Compare(b.TS, a.TS) })
	return events[:min(len(events), shownEvents)], troubles
}

// explained is a request as the admin API is asked to explain one.
type explained struct {
	Domain      string                `json:"domain"`
	Descriptors []explainedDescriptor `json:"descriptors"`
}

type explainedDescriptor struct {
	Descriptor string `json:"descriptor"`
	Hits       int64  `json:"hits,omitempty"`
}

// now says how the latest request of events would be decided now.
func (x *explainer) now(ctx context.Context, events []heldEvent, rule, key string) []string {
	if len(events) == 0 {
		others, _ := x.events(ctx, url.Values{"rule": {rule}})
		if len(others) == 0 || key == "" || strings.HasPrefix(key, "#") {
			return []string{"nothing can be asked about without an event of it"}
		}
		// The domain is that of the rule, whoever else was decided by it.
		return x.ask(ctx, others[0].node, explained{others[0].Domain, []explainedDescriptor{{Descriptor: key}}})
	}
	e := &events[0]
	request := explained{Domain: e.Domain}
	for _, d := range e.Descriptors {
		if d.OwnLimit || d.Op != "" || strings.Contains(d.Entries, "sha256:") {
			return []string{"the request cannot be asked about: a limit or an operation of its caller, or a text that was too long, is in it"}
		}
		request.Descriptors = append(request.Descriptors, explainedDescriptor{d.Entries, d.Hits})
	}
	switch {
	case e.KeyHashed:
		return []string{"this token sees no keys, so that nothing can be asked about them; one with the scope write does"}
	case len(request.Descriptors) == 0:
		return []string{"the event does not say what the request was"}
	}
	return x.ask(ctx, e.node, request)
}

// ask has a node explain a request.
func (x *explainer) ask(ctx context.Context, node int, request explained) []string {
	raw, err := x.nodes[node].tryAsk(ctx, http.MethodPost, "explain", request)
	var e view.Explanation
	if err == nil {
		err = json.Unmarshal(raw, &e)
	}
	if err != nil {
		return []string{whatIsWrong(err)}
	}
	return strings.Split(strings.TrimRight(e.Text, "\n"), "\n")
}

// whatIsWrong is an error in one line, without its hint.
func whatIsWrong(err error) string {
	text, _, _ := strings.Cut(err.Error(), hintMark)
	return oneLine(text)
}

// ruleLines are what a snapshot has of a rule.
func ruleLines(id string, s *snapshot) []string {
	lines := []string{"rule " + id}
	if s.Overview == nil {
		return lines
	}
	at := slices.IndexFunc(s.Overview.Rules, func(r view.Rule) bool { return r.ID == id })
	if at < 0 {
		return lines
	}
	r := &s.Overview.Rules[at]
	return append(lines, "limits per second: "+outcomesText(&r.Rates)+"/s", "limits since the start: "+outcomesText(&r.Outcomes))
}

// outcomesText is what limits said, without what none did.
func outcomesText(o *view.Outcomes) string {
	var parts []string
	for _, one := range []struct {
		name string
		n    float64
	}{
		{"allowed", o.Allowed}, {"denied", o.Denied}, {"shadow denied", o.ShadowDenied}, {"replaced by a tenant's", o.Replaced},
		{"degraded allowed", o.DegradedAllowed}, {"degraded denied", o.DegradedDenied}, {"local allowed", o.LocalAllowed}, {"local denied", o.LocalDenied},
		{"open denied", o.OpenDenied}, {"skipped, as another limit denies", o.Skipped},
	} {
		if one.n > 0 || one.name == "allowed" || one.name == "denied" {
			parts = append(parts, one.name+" "+amount(one.n))
		}
	}
	return strings.Join(parts, ", ")
}

// keyLines are what a snapshot has of a key.
func keyLines(of subject, s *snapshot) []string {
	lines := []string{"key " + of.second, "rule " + of.first}
	if s.Keys == nil {
		return lines
	}
	for _, list := range [][]view.TopKey{s.Keys.Denied.Keys, s.Keys.Total.Keys} {
		for _, k := range list {
			if oneLine(k.Rule) == of.first && oneLine(cmp.Or(k.Key, "#"+k.Hash)) == of.second {
				return append(lines, fmt.Sprintf("decided %s, denied %s, each give or take %s", amount(k.Total), amount(k.Denied), amount(k.Error)), "hash "+k.Hash)
			}
		}
	}
	return lines
}

// shardLines are what a snapshot has of a server.
func shardLines(of subject, s *snapshot) []string {
	lines := []string{"server " + of.second + " of the store " + of.first}
	if s.Overview == nil {
		return lines
	}
	for i := range s.Overview.Shards {
		sh := &s.Overview.Shards[i]
		if oneLine(sh.Store) != of.first || oneLine(sh.Addr) != of.second {
			continue
		}
		state := "connected"
		if !sh.Connected {
			state = "not connected"
		}
		lines = append(lines, state+", breaker "+strings.ReplaceAll(sh.Breaker, "_", " "),
			fmt.Sprintf("%d calls, %d of them failed, %d under way, %d not made because the breaker was open", sh.Calls, sh.Failures, sh.InFlight, sh.Refused))
	}
	if why := s.Overview.Health.Store; !why.OK {
		lines = append(lines, cmp.Or(why.Error, why.Reason))
	}
	return lines
}

// nodeLines are what a snapshot has of a node.
func nodeLines(name string, s *snapshot) []string {
	name = strings.TrimSuffix(name, selfMark)
	lines := []string{"node " + name}
	if s.Fleet == nil {
		return lines
	}
	for i := range s.Fleet.Nodes {
		n := &s.Fleet.Nodes[i]
		if oneLine(n.Name) != name {
			continue
		}
		state, _ := stateOf(n.Ready, n.Degraded, n.Draining)
		r := &n.Rates
		lines = append(lines,
			fmt.Sprintf("%s  version %s %s  %s", state, n.Version, n.Commit, n.Go),
			fmt.Sprintf("started %s  told %s", n.StartedAt.UTC().Format(time.RFC3339), n.At.UTC().Format(time.RFC3339)),
			fmt.Sprintf("rules %s of %s", cmp.Or(n.ConfigVersion, "none"), n.ConfigAt.UTC().Format(time.RFC3339)),
			fmt.Sprintf("requests per second: allowed %s, denied %s, degraded allowed %s, degraded denied %s, unmatched %s, unknown domain %s",
				amount(r.Allowed), amount(r.Denied), amount(r.DegradedAllowed), amount(r.DegradedDenied), amount(r.Unmatched), amount(r.UnknownDomain)),
			fmt.Sprintf("latency p50 %s  p90 %s  p99 %s  breakers open %d", took(n.Latency.P50), took(n.Latency.P90), took(n.Latency.P99), n.BreakersOpen))
	}
	return lines
}
