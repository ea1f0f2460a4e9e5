package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/adminapi"
	"github.com/headgate/headgate/internal/credentials"
	"github.com/headgate/headgate/internal/inquiry"
	"github.com/headgate/headgate/internal/rulereview"
	"github.com/headgate/headgate/internal/timeline"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/trace"
)

// timelineQuestion is the kind of the question what nodes have answered over time, whose body is timelineBody, and
// eventsQuestion of that what they remember, whose body is eventsBody.
const timelineQuestion, eventsQuestion = "timeline", "events"

type timelineBody struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	Most int       `json:"most"`
}

type eventsBody struct {
	Since time.Time `json:"since"`
	Most  int       `json:"most"`
	// Filter chooses among them, and Event is the id of the only one that is wanted; "": any. A node of an older
	// version tells what it has since Since.
	Filter view.EventFilter `json:"filter,omitzero"`
	Event  string           `json:"event,omitempty"`
}

// leastEvents is how many events each node is asked for at least, however many nodes there are.
const leastEvents = 500

// watchInquiries has this process ask the other nodes, and answer them where it decides.
func (w *watching) watchInquiries() error {
	p := w.process
	boards, keeps := p.stack.backends[0].Store.(inquiry.Boards)
	if !keeps {
		return nil
	}
	seal, err := readSeal(p.settings.AuditHashKey)
	if err != nil {
		return fmt.Errorf("--audit-hash-key: %w", err)
	}
	w.inquiry = inquiry.New(inquiry.Options{
		Boards: boards, Node: w.node.Name, ID: trace.NewDecisionID(time.Now()).String(), Seal: seal,
		Answer: w.answer, OnError: w.tell("another node was not answered"),
	})
	if p.does.Decide {
		p.tasks = append(p.tasks, w.inquiry.Run)
	}
	return nil
}

// readSeal returns the Seal of the secret in a file, nil for "".
func readSeal(path string) (*inquiry.Seal, error) {
	if path == "" {
		return nil, nil
	}
	secret, err := credentials.ReadFile("key file", path)
	if err != nil {
		return nil, err
	}
	return inquiry.NewSeal(bytes.TrimRight(secret, "\r\n"))
}

// answer answers another node.
func (w *watching) answer(q inquiry.Question) ([]byte, error) {
	odd := fmt.Errorf("its question for %.40q is not as this version of Headgate asks it", q.Kind)
	switch q.Kind {
	case timelineQuestion:
		var body timelineBody
		if err := json.Unmarshal(q.Body, &body); err != nil || body.Most < 1 || body.Most > timeline.MaxSummed || body.From.After(body.To) {
			return nil, odd
		}
		return timeline.Pack(w.timeline.Between(body.From, body.To, body.Most))
	case eventsQuestion:
		var body eventsBody
		if err := json.Unmarshal(q.Body, &body); err != nil || !q.Sealed || body.Most < 1 || body.Most > rulereview.MaxEvents {
			return nil, odd
		}
		return w.answerEvents(body, q.Room())
	}
	return nil, odd
}

// answerEvents answers what this node remembers. Keys are plain in it, so the question is a sealed one.
func (w *watching) answerEvents(body eventsBody, room int) ([]byte, error) {
	events, cut, err := w.remembered(body)
	if err != nil {
		return nil, err
	}
	return rulereview.Pack(events, cut, room)
}

// remembered returns the events that another node asks for, and whether there are more.
func (w *watching) remembered(body eventsBody) (events []view.Event, cut bool, err error) {
	if body.Event != "" {
		if e, ok := w.events.Event(body.Event); ok {
			events = append(events, e)
		}
		return events, false, nil
	}
	return rulereview.Collect(context.Background(), func(cursor string) (view.Events, error) {
		return w.events.Recent(body.Filter, 0, cursor)
	}, body.Since, body.Most)
}

// otherEvents returns what the other nodes remember.
func (w *watching) otherEvents(ctx context.Context, q adminapi.EventsQuestion) []rulereview.NodeEvents {
	others := slices.DeleteFunc(slices.Clone(w.nodes.Fleet(time.Now()).Nodes[1:]), func(n view.Node) bool { return q.Node != "" && n.Name != q.Node })
	if len(others) == 0 {
		return nil
	}
	most := q.Most
	if most == 0 {
		most = max(leastEvents, rulereview.MaxEvents/(len(others)+1))
	}
	answers, why := map[string][]inquiry.Answer{}, "it has not answered"
	if w.inquiry != nil {
		body, err := json.Marshal(eventsBody{Since: time.UnixMilli(q.Filter.Since), Most: most, Filter: q.Filter, Event: q.Event})
		var list []inquiry.Answer
		if err == nil {
			list, err = w.inquiry.Ask(ctx, inquiry.Question{Kind: eventsQuestion, Node: q.Node, Parts: inquiry.PartsFor(len(others)), Body: body, Sealed: true}, namesOf(others))
		}
		if err != nil {
			why = err.Error()
		}
		for _, a := range list {
			answers[a.Node] = append(answers[a.Node], a)
		}
	}
	var told []rulereview.NodeEvents
	for _, n := range others {
		t := rulereview.NodeEvents{Node: n.Name, Unknown: why}
		if list := answers[n.Name]; len(list) > 0 {
			t = readEvents(&list[0])
			answers[n.Name] = list[1:]
		}
		told = append(told, t)
	}
	return told
}

// namesOf returns the names of nodes.
func namesOf(nodes []view.Node) (names []string) {
	for i := range nodes {
		names = append(names, nodes[i].Name)
	}
	return names
}

// readEvents reads what a node has answered of its events.
func readEvents(a *inquiry.Answer) rulereview.NodeEvents {
	t := rulereview.NodeEvents{Node: a.Node}
	err := a.Err
	if err == nil {
		t.Events, t.Cut, err = rulereview.Unpack(a.Body, rulereview.MaxEvents)
	}
	if err != nil {
		t.Events, t.Unknown = nil, err.Error()
	}
	return t
}

// fleetTimeline adds up what nodes have answered over time.
func (w *watching) fleetTimeline(ctx context.Context, q adminapi.FleetQuestion) view.FleetTimeline {
	fleet := w.nodes.Fleet(time.Now())
	var told []timeline.Told
	wanted := func(name string) bool { return q.Node == "" || q.Node == name }
	if w.timeline != nil && wanted(w.node.Name) {
		line := w.timeline.Between(q.From, q.To, q.Most)
		told = append(told, timeline.Told{Name: w.node.Name, Line: &line})
	}
	var others []string
	for _, n := range fleet.Nodes[1:] {
		if wanted(n.Name) {
			others = append(others, n.Name)
		}
	}
	lines, err := w.askTimelines(ctx, q, others)
	for _, name := range others {
		t := timeline.Told{Name: name}
		if n := len(lines[name]); n > 0 {
			t.Line, lines[name] = &lines[name][n-1], lines[name][:n-1]
		}
		told = append(told, t)
	}
	for _, n := range fleet.Gone {
		if wanted(n.Name) {
			told = append(told, timeline.Told{Name: n.Name, GoneAt: n.At})
		}
	}
	if q.Node != "" && len(told) == 0 {
		told = append(told, timeline.Told{Name: q.Node})
	}
	sum := timeline.Sum(told, q.To)
	switch {
	case err != nil:
		sum.Error = strings.ReplaceAll(err.Error(), "\n", "; ")
	case q.Node == "" && fleet.Live > len(fleet.Nodes):
		sum.Error = fmt.Sprintf("%d of %d live nodes tell of themselves: the others are not in these numbers", len(fleet.Nodes), fleet.Live)
		for i := range sum.Points {
			sum.Points[i].Whole = false
		}
	}
	return sum
}

// askTimelines asks the other nodes of these names what they have answered over time. Two nodes may have one name.
// With a secret the question is sealed, so that nobody else can answer for a node. Without one it is not: there are
// no keys in what is told.
func (w *watching) askTimelines(ctx context.Context, q adminapi.FleetQuestion, others []string) (map[string][]view.Timeline, error) {
	if w.inquiry == nil || len(others) == 0 {
		return nil, nil
	}
	body, err := json.Marshal(timelineBody{q.From, q.To, q.Most})
	if err != nil {
		return nil, err
	}
	answers, err := w.inquiry.Ask(ctx, inquiry.Question{Kind: timelineQuestion, Node: q.Node, Body: body, Sealed: w.inquiry.Seal != nil}, others)
	lines := map[string][]view.Timeline{}
	bad := map[string][]string{} // nodes by what is wrong with their answers
	for _, a := range answers {
		line, wrong := view.Timeline{}, a.Err
		if wrong == nil {
			line, wrong = timeline.Unpack(a.Body)
		}
		if wrong != nil {
			bad[wrong.Error()] = append(bad[wrong.Error()], a.Node)
			continue
		}
		lines[a.Node] = append(lines[a.Node], line)
	}
	for _, wrong := range slices.Sorted(maps.Keys(bad)) {
		err = errors.Join(err, fmt.Errorf("%s: %s", listed(bad[wrong]), wrong))
	}
	return lines, err
}

// listed names nodes, the first in the alphabet.
func listed(names []string) string {
	const most = 3
	slices.Sort(names)
	text := fmt.Sprintf("node %.80q", names[0])
	for _, name := range names[1:min(len(names), most)] {
		text += fmt.Sprintf(", node %.80q", name)
	}
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
