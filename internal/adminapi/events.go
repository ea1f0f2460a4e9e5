package adminapi

import (
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/view"
)

// events are what is remembered of decisions.
type events struct{ *Options }

func (e events) routes() []route {
	return []route{
		{
			method: http.MethodGet, path: "events", scope: Read, local: true, serve: e.list, id: "listEvents", summary: "List events of decisions of this node",
			about:   "Those that are remembered, the latest first: denials, and a sample of what was allowed. " + namesAbout,
			query:   append([]parameter{{"limit", "How many at most.", schema{"type": "integer", "minimum": 1, "maximum": maxEvents, "default": defaultPage}}, cursorParameter}, filterParameters...),
			answers: []reply{ok(view.Events{}, "A page."), notHere},
		},
		{
			method: http.MethodGet, path: "events/{event}", scope: Read, local: true, serve: e.get, id: "getEvent", summary: "Show an event of a decision",
			about:   namesAbout,
			answers: []reply{ok(view.Event{}, "The event."), errorReply(http.StatusNotFound, "No such event is remembered here, or this process keeps none.")},
		},
	}
}

// list answers with events that are remembered.
func (e events) list(c *call) (*answer, error) {
	n, f := c.number("limit", 1, maxEvents, defaultPage), c.eventFilter()
	if c.bad != nil {
		return nil, c.bad
	}
	cursor := c.request.URL.Query().Get("cursor")
	if len(cursor) > maxCursorText || !printable(cursor) {
		return nil, badCursor
	}
	log := e.Watch.Events
	if log == nil {
		return nil, errNotShown
	}
	page, err := log.Recent(f, int(n), cursor)
	if err != nil {
		return nil, badCursor
	}
	list := make([]view.Event, 0, len(page.Events))
	for i := range page.Events {
		if e, ok := c.shown(log, &f, page.Events[i]); ok {
			list = append(list, e)
		}
	}
	page.Events = list
	return jsonAnswer(http.StatusOK, page)
}

var badCursor = badField(http.StatusBadRequest, "cursor", "none of ours, or too old; hint: next_cursor of the page before")

// shown returns an event of log as who asks may see it. He who may see no names finds
// none either: what f has found by a part of a name is not for him.
func (c *call) shown(log Events, f *view.EventFilter, e view.Event) (view.Event, bool) {
	if c.who.names() {
		return e, true
	}
	e = log.Redact(e)
	return e, f.Key == "" || f.Key == e.Key
}

// get answers with one event.
func (e events) get(c *call) (*answer, error) {
	id := c.param("event")
	if len(id) > maxFilter || !printable(id) {
		return nil, badField(http.StatusBadRequest, "event", "not the id of an event")
	}
	log := e.Watch.Events
	if log == nil {
		return nil, errNotShown
	}
	one, ok := log.Event(id)
	if !ok {
		return nil, fail(http.StatusNotFound, "no such event is remembered here: its decision was not recorded, too long ago, or of another node")
	}
	one, _ = c.shown(log, &view.EventFilter{}, one)
	return jsonAnswer(http.StatusOK, one)
}

// outcomes are what a filter of events may ask for.
var outcomes = []string{view.OutcomeOver, "allowed", "denied", "degraded_allowed", "degraded_denied", "unmatched", "unknown_domain", "shadow_denied"}

// filterParameters are those of who looks for events.
var filterParameters = []parameter{
	{"domain", "Only of this domain.", schema{"type": "string"}},
	{"rule", "Only of the rule with this id.", schema{"type": "string"}},
	{"outcome", "Only with this outcome; " + view.OutcomeOver + " is all that are not allowed.", schema{"type": "string", "enum": outcomes}},
	{"key", "Only of keys that have this as a part, or as their hash. With the scope read, the hash alone.", schema{"type": "string"}},
	{"since", "Only of decisions from this instant on, in Unix milliseconds.", schema{"type": "integer", "minimum": 0}},
	{"until", "Only of decisions before this instant, in Unix milliseconds.", schema{"type": "integer", "minimum": 0}},
}

// eventFilter reads filterParameters.
func (c *call) eventFilter() view.EventFilter {
	f := view.EventFilter{
		Domain: c.filterText("domain"), Rule: c.filterText("rule"), Outcome: c.filterText("outcome"), Key: c.filterText("key"),
		Since: c.number("since", 0, math.MaxInt64, 0), Until: c.number("until", 0, math.MaxInt64, 0),
	}
	if f.Outcome != "" && !slices.Contains(outcomes, f.Outcome) {
		c.refuse(badField(http.StatusBadRequest, "outcome", "no such outcome; hint: one of %s", strings.Join(outcomes, ", ")))
	}
	if f.Key != "" && !c.who.names() && len(f.Key) != identity.HashLength {
		c.refuse(badField(http.StatusBadRequest, "key", "the scope %s finds keys by their hash, which events have in place of them", c.who.scope))
	}
	return f
}
