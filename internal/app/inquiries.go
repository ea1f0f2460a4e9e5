package app

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/headgate/headgate/internal/adminapi"
	"github.com/headgate/headgate/internal/inquiry"
	"github.com/headgate/headgate/internal/timeline"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/trace"
)

// timelineQuestion is the kind of the question what nodes have answered over time, whose body is timelineBody.
const timelineQuestion = "timeline"

type timelineBody struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	Most int       `json:"most"`
}

// watchInquiries has this process ask the other nodes, and answer them where it decides.
func (w *watching) watchInquiries() {
	p := w.process
	boards, keeps := p.stack.backends[0].Store.(inquiry.Boards)
	if !keeps {
		return
	}
	w.inquiry = inquiry.New(inquiry.Options{
		Boards: boards, Node: w.node.Name, ID: trace.NewDecisionID(time.Now()).String(),
		Answer: w.answer, OnError: w.tell("another node was not answered"),
	})
	if p.does.Decide {
		p.tasks = append(p.tasks, w.inquiry.Run)
	}
}

// answer answers another node.
func (w *watching) answer(q inquiry.Question) ([]byte, error) {
	if q.Kind != timelineQuestion {
		return nil, fmt.Errorf("it asks for %.40q, which this version of Headgate does not know", q.Kind)
	}
	var body timelineBody
	if err := json.Unmarshal(q.Body, &body); err != nil || body.Most < 1 || body.Most > timeline.MaxSummed || body.From.After(body.To) {
		return nil, fmt.Errorf("its question for a %s is not as this version of Headgate asks it", q.Kind)
	}
	return timeline.Pack(w.timeline.Between(body.From, body.To, body.Most))
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
	lines, err := w.askTimelines(ctx, q, len(others))
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
		sum.Error = err.Error()
	case q.Node == "" && fleet.Live > len(fleet.Nodes):
		sum.Error = fmt.Sprintf("%d of %d live nodes tell of themselves: the others are not in these numbers", len(fleet.Nodes), fleet.Live)
		for i := range sum.Points {
			sum.Points[i].Whole = false
		}
	}
	return sum
}

// askTimelines asks so many other nodes what they have answered over time. Two nodes may have one name.
func (w *watching) askTimelines(ctx context.Context, q adminapi.FleetQuestion, others int) (map[string][]view.Timeline, error) {
	if w.inquiry == nil || others == 0 {
		return nil, nil
	}
	body, err := json.Marshal(timelineBody{q.From, q.To, q.Most})
	if err != nil {
		return nil, err
	}
	answers, err := w.inquiry.Ask(ctx, inquiry.Question{Kind: timelineQuestion, Node: q.Node, Body: body}, others)
	lines := map[string][]view.Timeline{}
	for _, a := range answers {
		line, bad := timeline.Unpack(a.Body)
		if bad != nil {
			err = fmt.Errorf("node %q: %w", a.Node, bad)
			continue
		}
		lines[a.Node] = append(lines[a.Node], line)
	}
	return lines, err
}
