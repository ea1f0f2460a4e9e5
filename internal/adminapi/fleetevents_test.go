package adminapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/rulereview"
	"github.com/headgate/headgate/internal/view"
)

// newFleetOfEvents is a node "one" with the events 0 to 4, beside "two", which is of an older version and tells all that
// it has, 10 to 14, and "three", which tells nothing. asked is what they were asked last.
func newFleetOfEvents(t *testing.T) (s *testServer, asked *EventsQuestion) {
	asked = &EventsQuestion{}
	s = newTestServerOn(t, nil, withoutDatabase, hiding(func(w *Watch) {
		w.OtherEvents = func(_ context.Context, q EventsQuestion) []rulereview.NodeEvents {
			*asked = q
			two := rulereview.NodeEvents{Node: "two", Cut: true}
			for i := 14; i >= 10; i-- {
				e := anEvent(i)
				e.Node = "two"
				two.Events = append(two.Events, e)
			}
			told := []rulereview.NodeEvents{two, {Node: "three", Unknown: "it has not answered"}}
			return slices.DeleteFunc(told, func(n rulereview.NodeEvents) bool { return q.Node != "" && q.Node != n.Node })
		}
	}))
	return s, asked
}

// Events of all nodes come together, the latest first, with whose they are and who has told nothing.
func TestFleetEvents(t *testing.T) {
	s, asked := newFleetOfEvents(t)
	const silent = " three 0 it has not answered"
	for _, tt := range []struct{ query, events, nodes string }{
		{"", "14 13 12 11 10 4 3 2 1 0", "one 5  two 5 " + silent},
		{"?limit=3", "14 13 12", "one 3  two 5 " + silent},
		{"?key=tenant:1", "14 13 12 11 10 1", "one 1  two 5 " + silent},
		{"?key=tenant:11", "11", "one 0  two 1 " + silent},
		{"?since=3&until=11", "10 4 3", "one 2  two 1 " + silent},
		{"?rule=other", "", "one 0  two 0 " + silent},
		{"?node=two&key=tenant:11", "11", "two 1 "},
		{"?node=one&limit=2", "4 3", "one 2 "},
		{"?node=nobody", "", ""},
		{"?event=" + eventID(12), "12", "one 0  two 1 " + silent},
		{"?event=" + eventID(3), "3", "one 1  two 0 " + silent},
	} {
		var got view.FleetEvents
		s.want(s.do(Write, "GET", "fleet/events"+tt.query, ""), 200).json(t, &got)
		var events, nodes []string
		for i := range got.Events {
			events = append(events, fmt.Sprint(got.Events[i].TS))
		}
		for _, n := range got.Nodes {
			nodes = append(nodes, fmt.Sprint(n.Node, " ", n.Events, " ", n.Unknown))
		}
		if strings.Join(events, " ") != tt.events || strings.Join(nodes, " ") != tt.nodes {
			t.Errorf("%s: %v of %q, want %s of %q", tt.query, events, nodes, tt.events, tt.nodes)
		}
	}
	s.want(s.do(Write, "GET", "fleet/events?node=two&outcome=over&event="+eventID(1)+"&limit=7", ""), 200)
	if want := (EventsQuestion{Filter: view.EventFilter{Outcome: "over"}, Event: eventID(1), Node: "two", Most: 7}); *asked != want {
		t.Errorf("%+v, want %+v", *asked, want)
	}
}

// Who may see no names sees and finds none of other nodes either.
func TestFleetEventsHaveNoNamesForReaders(t *testing.T) {
	s, _ := newFleetOfEvents(t)
	r := s.want(s.do(Read, "GET", "fleet/events", ""), 200)
	if strings.Contains(string(r.body), "tenant:1") || strings.Contains(string(r.body), "192.0.2.7") || !strings.Contains(string(r.body), hashOf("tenant:11")) {
		t.Errorf("%s", r.body)
	}
	var got view.FleetEvents
	s.want(s.do(Read, "GET", "fleet/events?key="+hashOf("tenant:11"), ""), 200).json(t, &got)
	if len(got.Events) != 1 || got.Events[0].TS != 11 || got.Events[0].ClientIP != "" {
		t.Errorf("%+v", got)
	}
	s.want(s.do(Read, "GET", "fleet/events?key=tenant:11", ""), 400)
}

func TestBadQuestionsForFleetEvents(t *testing.T) {
	s, _ := newFleetOfEvents(t)
	for _, query := range []string{"?limit=0", "?limit=201", "?outcome=x", "?since=-1", "?node=%ff", "?event=" + strings.Repeat("x", maxFilter+1)} {
		s.want(s.do(Write, "GET", "fleet/events"+query, ""), 400)
	}
	for range maxAsking {
		s.handler.asking <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	busy := &call{request: httptest.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody)}
	var bad *problem
	if _, err := (fleetEvents{s.handler.options, s.handler.asking}).list(busy); !errors.As(err, &bad) || bad.Status != 503 {
		t.Errorf("while others ask: %v", err)
	}
	s.handler.options.Watch.OtherEvents = nil
	s.want(s.do(Write, "GET", "fleet/events", ""), 404)
}
