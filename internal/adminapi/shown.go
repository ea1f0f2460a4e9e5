package adminapi

import (
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/view"
)

const (
	// maxKeys bounds the keys of one answer, defaultKeys are those that are not asked for.
	maxKeys, defaultKeys = 1000, 20
	// maxEvents bounds the events of one answer.
	maxEvents = 1000
	// maxFilter bounds each part of a filter in bytes, and maxCursorText a cursor.
	maxFilter, maxCursorText = 1024, 256
)

var errNotShown = fail(http.StatusNotFound, "this process does not have what the route shows")

// meView is who asks.
type meView struct {
	Actor string `json:"actor"`
	Scope string `json:"scope"`
	// Names says that keys are named, and clients; else there are hashes.
	Names bool `json:"names"`
}

// me answers who asks.
func (c *call) me() (*answer, error) {
	return jsonAnswer(http.StatusOK, meView{c.actor, c.who.scope.String(), c.who.names()})
}

// names reports whether its bearer may see whose a key is.
func (c *credential) names() bool { return c.scope >= Write }

// overview answers how the node is.
func (c *call) overview() (*answer, error) {
	if c.options.Watch.Overview == nil {
		return nil, errNotShown
	}
	return jsonAnswer(http.StatusOK, c.options.Watch.Overview())
}

// fleet answers what is known of all nodes.
func (c *call) fleet() (*answer, error) {
	if c.options.Watch.Fleet == nil {
		return nil, errNotShown
	}
	return jsonAnswer(http.StatusOK, unnamedFleet(c.options.Watch.Fleet()))
}

// accuracy answers how exact decisions were.
func (c *call) accuracy() (*answer, error) {
	if c.options.Watch.Accuracy == nil {
		return nil, errNotShown
	}
	return jsonAnswer(http.StatusOK, c.options.Watch.Accuracy())
}

// Orders of keys.
const byTotal, byDenied = "total", "denied"

// keys answers with the keys that have the most requests of late.
func (c *call) keys() (*answer, error) {
	n, bad := c.number("limit", 1, maxKeys, defaultKeys)
	if bad != nil {
		return nil, bad
	}
	by := byTotal
	if query := c.request.URL.Query(); query.Has("by") {
		by = query.Get("by")
	}
	if by != byTotal && by != byDenied {
		return nil, badField(http.StatusBadRequest, "by", "neither %s nor %s", byTotal, byDenied)
	}
	rule, bad := c.filterText("rule")
	if bad != nil {
		return nil, bad
	}
	fleet, bad := c.flag("fleet")
	if bad != nil {
		return nil, bad
	}
	if c.options.Watch.TopKeys == nil {
		return nil, errNotShown
	}
	return jsonAnswer(http.StatusOK, unnamedKeys(c.options.Watch.TopKeys(by, rule, int(n), fleet), c.who.names()))
}

// unnamedKeys returns keys as those see them who may see names, or not.
func unnamedKeys(list view.TopKeys, names bool) view.TopKeys {
	if !names {
		list.Keys = unnamed(list.Keys)
	}
	return list
}

// unnamedFleet returns what nodes tell each other: that names no key, and this makes
// sure of it.
func unnamedFleet(f view.Fleet) view.Fleet {
	f.Nodes = slices.Clone(f.Nodes)
	for i := range f.Nodes {
		n := &f.Nodes[i]
		n.TopTotal, n.TopDenied = unnamed(n.TopTotal), unnamed(n.TopDenied)
	}
	return f
}

func unnamed(list []view.TopKey) []view.TopKey {
	list = append(make([]view.TopKey, 0, len(list)), list...)
	for i := range list {
		list[i].Key = ""
	}
	return list
}

// events answers with events that are remembered.
func (c *call) events() (*answer, error) {
	n, bad := c.number("limit", 1, maxEvents, defaultPage)
	if bad != nil {
		return nil, bad
	}
	f, bad := c.eventFilter()
	if bad != nil {
		return nil, bad
	}
	cursor := c.request.URL.Query().Get("cursor")
	if len(cursor) > maxCursorText || !printable(cursor) {
		return nil, badCursor
	}
	if c.options.Watch.Events == nil {
		return nil, errNotShown
	}
	page, err := c.options.Watch.Events.Recent(f, int(n), cursor)
	if err != nil {
		return nil, badCursor
	}
	list := make([]view.Event, 0, len(page.Events))
	for i := range page.Events {
		if e, ok := c.shownEvent(&f, page.Events[i]); ok {
			list = append(list, e)
		}
	}
	page.Events = list
	return jsonAnswer(http.StatusOK, page)
}

var badCursor = badField(http.StatusBadRequest, "cursor", "none of ours, or too old; hint: next_cursor of the page before")

// shownEvent returns e as who asks may see it. He who may see no names finds none either:
// what f has found by a part of a name is not for him.
func (c *call) shownEvent(f *view.EventFilter, e view.Event) (view.Event, bool) {
	if c.who.names() {
		return e, true
	}
	e = c.options.Watch.Events.Redact(e)
	return e, f.Key == "" || f.Key == e.Key
}

// event answers with one event.
func (c *call) event() (*answer, error) {
	id := c.path["event"]
	if len(id) > maxFilter || !printable(id) {
		return nil, badField(http.StatusBadRequest, "event", "not the id of an event")
	}
	if c.options.Watch.Events == nil {
		return nil, errNotShown
	}
	e, ok := c.options.Watch.Events.Event(id)
	if !ok {
		return nil, fail(http.StatusNotFound, "no such event is remembered here: its decision was not recorded, too long ago, or of another node")
	}
	e, _ = c.shownEvent(&view.EventFilter{}, e)
	return jsonAnswer(http.StatusOK, e)
}

// outcomes are what a filter of events may ask for.
var outcomes = []string{view.OutcomeOver, "allowed", "denied", "degraded_allowed", "degraded_denied", "unmatched", "unknown_domain", "shadow_denied"}

// filterParameters are those of who looks for events.
var filterParameters = []parameter{
	{"domain", "Only of this domain.", schema{"type": "string"}},
	{"rule", "Only of the rule with this id.", schema{"type": "string"}},
	{"outcome", "Only with this outcome; " + view.OutcomeOver + " is all that are not allowed.", schema{"type": "string", "enum": texts(outcomes)}},
	{"key", "Only of keys that have this as a part, or as their hash. With the scope read, the hash alone.", schema{"type": "string"}},
}

// eventFilter reads filterParameters.
func (c *call) eventFilter() (f view.EventFilter, bad *problem) {
	for _, part := range []struct {
		name string
		into *string
	}{{"domain", &f.Domain}, {"rule", &f.Rule}, {"outcome", &f.Outcome}, {"key", &f.Key}} {
		if *part.into, bad = c.filterText(part.name); bad != nil {
			return f, bad
		}
	}
	switch {
	case f.Outcome != "" && !slices.Contains(outcomes, f.Outcome):
		return f, badField(http.StatusBadRequest, "outcome", "no such outcome; hint: one of %s", strings.Join(outcomes, ", "))
	case f.Key != "" && !c.who.names() && len(f.Key) != identity.HashLength:
		return f, badField(http.StatusBadRequest, "key", "the scope %s finds keys by their hash, which events have in place of them", c.who.scope)
	}
	return f, nil
}

// filterText reads a parameter that is the text of something.
func (c *call) filterText(name string) (string, *problem) {
	text := c.request.URL.Query().Get(name)
	if len(text) > maxFilter || !utf8.ValidString(text) {
		return "", badField(http.StatusBadRequest, name, "more than %d bytes, or not UTF-8", maxFilter)
	}
	return text, nil
}
