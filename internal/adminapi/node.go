package adminapi

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/explain"
	"github.com/headgate/headgate/internal/timeline"
	"github.com/headgate/headgate/internal/view"
)

// What is said of routes that name keys.
const namesAbout = "Keys and addresses of clients are named to the scopes write and admin; read has a keyed hash in their place."

// node is how this node is, and how it would decide.
type node struct {
	*Options
	lookups turns
	// asking are the questions to other nodes.
	asking turns
}

func (n node) routes() []route {
	return []route{
		{
			method: http.MethodGet, path: "overview", scope: Read, local: true, serve: shown(n.Watch.Overview), id: "getOverview", summary: "Show how this node is",
			answers: []reply{ok(view.Overview{}, "How it is."), notHere},
		},
		{
			method: http.MethodGet, path: "timeline", scope: Read, local: true, serve: n.timeline, id: "getTimeline", summary: "Show what this node has answered over time",
			about:   "Of the last hour by the second, of the last week by the minute. Steps are as short as the points allow.",
			query:   spanParameters(timeline.MaxPoints),
			answers: []reply{ok(view.Timeline{}, "The steps of which something is known."), notHere},
		},
		{
			method: http.MethodGet, path: "fleet/timeline", scope: Read, local: true, serve: n.fleetTimeline, id: "getFleetTimeline", summary: "Show what all nodes have answered over time",
			about: "The nodes are asked through the store, and have five seconds to answer. The sum says which of them it is of, " +
				"and of which steps it is not whole, because a node has not answered, is gone, or does not know of them.",
			query:   append([]parameter{{"node", "Only of the node of this name; left out, of all.", schema{"type": "string"}}}, spanParameters(timeline.MaxSummed)...),
			answers: []reply{ok(view.FleetTimeline{}, "The steps of which something is known."), notHere},
		},
		{
			method: http.MethodGet, path: "keys", scope: Read, local: true, serve: n.keys, id: "listTopKeys", summary: "List the keys with the most requests of late",
			about: namesAbout,
			query: []parameter{
				{"by", "By what they are ordered.", schema{"type": "string", "enum": []any{view.ByTotal, view.ByDenied}, "default": view.ByTotal}},
				{"rule", "Only of the rule with this id.", schema{"type": "string"}},
				{"limit", "How many at most.", schema{"type": "integer", "minimum": 1, "maximum": maxKeys, "default": defaultKeys}},
				{"fleet", "Those of all nodes.", schema{"type": "boolean", "default": false}},
				{"node", "Those that the node of this name tells the others of; not with fleet.", schema{"type": "string"}},
			},
			answers: []reply{ok(view.TopKeys{}, "The keys."), notHere},
		},
		{
			method: http.MethodGet, path: "fleet", scope: Read, local: true, serve: n.fleet, id: "getFleet", summary: "Show what this node knows of all nodes",
			answers: []reply{ok(view.Fleet{}, "The nodes."), notHere},
		},
		{
			method: http.MethodGet, path: "hot-raises", scope: Read, local: true, serve: shown(n.Watch.HotRaises), id: "listHotRaises", summary: "List the hot keys whose limits their rules raise now",
			about:   "Raises of operators are switches.",
			answers: []reply{ok(view.HotRaises{}, "The raises, at most 256, the oldest first."), notHere},
		},
		{
			method: http.MethodGet, path: "accuracy", scope: Read, local: true, serve: shown(n.Watch.Accuracy), id: "getAccuracy", summary: "Show how exact decisions were",
			about:   "Measured on a sample of keys, against an exact count.",
			answers: []reply{ok(view.Accuracy{}, "By rule."), notHere},
		},
		{
			method: http.MethodGet, path: "dual-run", scope: Read, local: true, serve: shown(n.Watch.DualRun), id: "getDualRun", summary: "Show what a dual run has found",
			about:   "Of a process without one it says that there is none.",
			answers: []reply{ok(view.DualRun{}, "What differs, and a verdict."), notHere},
		},
		{
			method: http.MethodGet, path: "regions", scope: Read, local: true, serve: shown(n.Watch.Regions), id: "getRegions", summary: "Show how limits over several regions are doing",
			about:   "Of a process without regions it says so: region is empty.",
			answers: []reply{ok(view.Regions{}, "The homes, and at most 500 rules."), notHere},
		},
		{
			method: http.MethodGet, path: "settings", scope: Admin, local: true, serve: shown(n.Watch.Settings), id: "getSettings", summary: "Show the settings that this process was started with",
			about:   "Passwords in addresses are hidden. What stands in files that settings name is not shown.",
			answers: []reply{ok(view.Settings{}, "All of them, and where each comes from."), notHere},
		},
		{
			method: http.MethodPost, path: "explain", scope: Read, local: true, serve: n.explain, id: "explainRequest", summary: "Say how a request would be decided now, and why",
			about:   "Nothing is charged.",
			body:    &payload{kinds: jsonOnly, most: explain.MaxBody, of: explain.Body{}, about: "The request, as /v1/check takes it."},
			answers: []reply{ok(view.Explanation{}, "How, and why."), notHere},
		},
	}
}

const (
	// maxKeys bounds the keys of one answer, defaultKeys are those that are not asked for.
	maxKeys, defaultKeys = 1000, 20
	// defaultPoints are the steps of a timeline that are not asked for.
	defaultPoints = 300
	// maxEvents bounds the events of one answer.
	maxEvents = 1000
	// maxFilter bounds each part of a filter in bytes, and maxCursorText a cursor.
	maxFilter, maxCursorText = 1024, 256
)

var errNotShown = fail(http.StatusNotFound, "this process does not have what the route shows")

// shown answers with a part of Watch.
func shown[T any](part func() T) func(*call) (*answer, error) {
	return func(*call) (*answer, error) {
		if part == nil {
			return nil, errNotShown
		}
		return jsonAnswer(http.StatusOK, part())
	}
}

// timeline answers what the node has answered over time.
func (n node) timeline(c *call) (*answer, error) {
	q := c.span(timeline.MaxPoints)
	if c.bad != nil {
		return nil, c.bad
	}
	if n.Watch.Timeline == nil {
		return nil, errNotShown
	}
	return jsonAnswer(http.StatusOK, n.Watch.Timeline(q.From, q.To, q.Most))
}

// spanParameters are those of span, but for the node.
func spanParameters(most int) []parameter {
	return []parameter{
		{"from", "The first instant; left out, an hour before the last.", schema{"type": "string", "format": "date-time"}},
		{"to", "The last instant; left out, now.", schema{"type": "string", "format": "date-time"}},
		{"points", "How many steps at most.", schema{"type": "integer", "minimum": 1, "maximum": most, "default": defaultPoints}},
	}
}

// span reads which time is asked for, in how many steps, and of which node where one may be named.
func (c *call) span(most int64) (q FleetQuestion) {
	q.To = c.instant("to", time.Now())
	q.From = c.instant("from", q.To.Add(-time.Hour))
	if q.From.After(q.To) {
		c.refuse(badField(http.StatusBadRequest, "from", "later than to"))
	}
	q.Most = int(c.number("points", 1, most, defaultPoints))
	q.Node = c.filterText("node")
	return q
}

// maxAsking bounds the questions to other nodes at one time. turnTimeout is how long one waits for its turn, and
// askTimeout for that and its answers, which have five seconds, and the store. A connection is given up some 15
// seconds after the request, so who had no turn must be told of it well before.
const (
	maxAsking   = 4
	turnTimeout = 5 * time.Second
	askTimeout  = 12 * time.Second
)

// fleetTimeline answers what all nodes have answered over time.
func (n node) fleetTimeline(c *call) (*answer, error) {
	q := c.span(timeline.MaxSummed)
	if c.bad != nil {
		return nil, c.bad
	}
	if n.Watch.FleetTimeline == nil {
		return nil, errNotShown
	}
	ctx := c.within(askTimeout)
	done, bad := n.asking.ask(ctx)
	if bad != nil {
		return nil, bad
	}
	defer done()
	return jsonAnswer(http.StatusOK, n.Watch.FleetTimeline(ctx, q))
}

// fleet answers what is known of all nodes.
func (n node) fleet(c *call) (*answer, error) {
	if n.Watch.Fleet == nil {
		return nil, errNotShown
	}
	return jsonAnswer(http.StatusOK, unnamedFleet(n.Watch.Fleet()))
}

// keys answers with the keys that have the most requests of late.
func (n node) keys(c *call) (*answer, error) {
	q := KeyQuestion{By: view.ByTotal, Most: int(c.number("limit", 1, maxKeys, defaultKeys))}
	if query := c.request.URL.Query(); query.Has("by") {
		q.By = query.Get("by")
	}
	if q.By != view.ByTotal && q.By != view.ByDenied {
		c.refuse(badField(http.StatusBadRequest, "by", "neither %s nor %s", view.ByTotal, view.ByDenied))
	}
	q.Rule, q.Fleet, q.Node = c.filterText("rule"), c.flag("fleet"), c.filterText("node")
	if q.Node != "" && q.Fleet {
		c.refuse(badField(http.StatusBadRequest, "node", "there is one node or all of them, not both"))
	}
	if c.bad != nil {
		return nil, c.bad
	}
	if n.Watch.TopKeys == nil {
		return nil, errNotShown
	}
	return jsonAnswer(http.StatusOK, unnamedKeys(n.Watch.TopKeys(q), c.who.names()))
}

// unnamedKeys returns keys as those see them who may see names, or not.
func unnamedKeys(list view.TopKeys, names bool) view.TopKeys {
	if !names {
		list.Keys = unnamed(list.Keys)
	}
	return list
}

// unnamedFleet returns what nodes tell each other: that names no key, and this makes
// sure of it, and of lists that another version of Headgate does not tell.
func unnamedFleet(f view.Fleet) view.Fleet {
	f.Nodes, f.Gone = slices.Clone(f.Nodes), append([]view.GoneNode{}, f.Gone...)
	for i := range f.Nodes {
		n := &f.Nodes[i]
		n.Rules, n.Tiers = append([]view.Rule{}, n.Rules...), append([]view.Tier{}, n.Tiers...)
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

// explain answers how a request would be decided.
func (n node) explain(c *call) (*answer, error) {
	request, bad := parseExplained(c.body)
	if bad != nil {
		return nil, bad
	}
	if n.Watch.Explain == nil {
		return nil, errNotShown
	}
	ctx := c.within(usageTimeout)
	done, bad := n.lookups.look(ctx)
	if bad != nil {
		return nil, bad
	}
	defer done()
	e, err := n.Watch.Explain(ctx, request)
	if err != nil {
		n.OnError(fmt.Errorf("explain a request: %w", err))
		return nil, later(retryAfter, "it could not be asked what would be decided; the log of this process says why")
	}
	return jsonAnswer(http.StatusOK, e)
}

// parseExplained reads a request as the route of the same name at the ops address does.
func parseExplained(text []byte) (headgate.Request, *problem) {
	r, bad := explain.Decode(text)
	if bad == nil {
		return r, nil
	}
	status := http.StatusUnprocessableEntity
	if bad.Malformed() {
		status = http.StatusBadRequest
	}
	return r, badFields(status, []fieldError{{Field: bad.Field, Message: bad.Message, Hint: bad.Hint}})
}
