package adminapi

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"github.com/headgate/headgate/internal/rulereview"
	"github.com/headgate/headgate/internal/view"
)

// fleetEvents are the events of decisions that all nodes remember.
type fleetEvents struct {
	*Options
	// asking are the questions to other nodes.
	asking turns
}

func (f fleetEvents) routes() []route {
	return []route{{
		method: http.MethodGet, path: "fleet/events", scope: Read, local: true, serve: f.list, id: "listFleetEvents", summary: "List events of decisions of all nodes",
		about: "Those that the nodes remember, the latest first. The other nodes are asked through the store, and have five seconds to answer; they need the --audit-hash-key of this one. " +
			"`nodes` says of which nodes they are, and why one has told nothing. " + namesAbout,
		query: append([]parameter{
			{"limit", "How many at most.", schema{"type": "integer", "minimum": 1, "maximum": maxFleetEvents, "default": defaultPage}},
			{"node", "Only those that the node of this name remembers; left out, those of all.", schema{"type": "string"}},
			{"event", "Only the event with this id.", schema{"type": "string"}},
		}, filterParameters...),
		answers: []reply{ok(view.FleetEvents{}, "The events, and whose they are."), notHere},
	}}
}

// maxFleetEvents bounds the events of an answer, and those that each node is asked for.
const maxFleetEvents = 200

// EventsQuestion asks the other nodes which events they remember.
type EventsQuestion struct {
	// Filter chooses them.
	Filter view.EventFilter
	// Event is the id of the only one that is wanted; "": any.
	Event string
	// Node is the name of the node that is asked; "": all.
	Node string
	// Most is how many each node is asked for; 0: as many as a review of rules can use.
	Most int
}

// list answers with events that nodes remember.
func (f fleetEvents) list(c *call) (*answer, error) {
	q := EventsQuestion{Most: int(c.number("limit", 1, maxFleetEvents, defaultPage)), Filter: c.eventFilter(), Node: c.filterText("node"), Event: c.filterText("event")}
	if c.bad != nil {
		return nil, c.bad
	}
	log := f.Watch.Events
	if log == nil || f.Watch.Overview == nil || f.Watch.OtherEvents == nil {
		return nil, errNotShown
	}
	ctx := c.within(askTimeout)
	done, bad := f.asking.ask(ctx)
	if bad != nil {
		return nil, bad
	}
	defer done()
	var told []rulereview.NodeEvents
	if self := f.Watch.Overview().Node.Name; q.Node == "" || q.Node == self {
		told = append(told, remembers(self, log, &q))
	}
	return jsonAnswer(http.StatusOK, c.merge(log, &q, append(told, f.Watch.OtherEvents(ctx, q)...)))
}

// remembers returns what this node remembers.
func remembers(self string, log Events, q *EventsQuestion) rulereview.NodeEvents {
	t := rulereview.NodeEvents{Node: self}
	if q.Event != "" {
		if e, ok := log.Event(q.Event); ok {
			t.Events = append(t.Events, e)
		}
		return t
	}
	page, err := log.Recent(q.Filter, q.Most, "")
	if err != nil {
		t.Unknown = err.Error()
	}
	t.Events, t.Cut = page.Events, page.NextCursor != ""
	return t
}

// merge returns what nodes have told as who asks may see it: a node of another version may tell more than what was
// asked for.
func (c *call) merge(log Events, q *EventsQuestion, told []rulereview.NodeEvents) view.FleetEvents {
	all := view.FleetEvents{Events: []view.Event{}, Nodes: []view.EventsNode{}}
	for i := range told {
		t := &told[i]
		node := view.EventsNode{Node: t.Node, Unknown: t.Unknown}
		for j := range t.Events {
			e := t.Events[j]
			if q.Event != "" && q.Event != e.EventID || !q.Filter.Matches(&e, log.Redact(e).Key) {
				continue
			}
			if e, ok := c.shown(log, &q.Filter, e); ok {
				all.Events = append(all.Events, e)
				node.Events++
			}
		}
		all.Nodes, all.Cut = append(all.Nodes, node), all.Cut || t.Cut
	}
	slices.SortStableFunc(all.Events, func(a, b view.Event) int { return cmp.Compare(b.TS, a.TS) })
	if len(all.Events) > q.Most {
		all.Events, all.Cut = all.Events[:q.Most], true
	}
	return all
}

// ask waits for its turn to ask the other nodes.
func (t turns) ask(ctx context.Context) (done func(), bad *problem) {
	ctx, cancel := context.WithTimeout(ctx, turnTimeout)
	defer cancel()
	return t.wait(ctx, retryAfter, "the other nodes are being asked by others")
}
