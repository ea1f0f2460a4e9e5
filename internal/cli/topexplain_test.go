package cli

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/adminapi"
	"github.com/headgate/headgate/internal/view"
)

// rememberedEvents are those that a node remembers.
type rememberedEvents struct {
	eventsOf
	list []view.Event
}

func (r rememberedEvents) Recent(f view.EventFilter, n int, _ string) (page view.Events, err error) {
	for i := range r.list {
		if e := &r.list[i]; f.Matches(e, "") && len(page.Events) < n {
			page.Events = append(page.Events, *e)
		}
	}
	return page, nil
}

func (r rememberedEvents) Redact(e view.Event) view.Event {
	e.Key, e.KeyHashed = "hash", true
	return e
}

// explainingNode is a node that remembers events, and explains whatever it is asked.
func explainingNode(t *testing.T, name string, events ...view.Event) (adminAddress, *httptest.Server) {
	t.Helper()
	return adminServer(t, &adminapi.Watch{
		Events: rememberedEvents{list: events},
		Explain: func(_ context.Context, r headgate.Request) (view.Explanation, error) {
			text := name + " explains " + r.Domain
			for _, d := range r.Descriptors {
				text += fmt.Sprintf(" %s x%d", descriptor.Format(d.Entries), d.Hits)
			}
			return view.Explanation{Text: text + "\nsecond line\n"}, nil
		},
	})
}

func TestRowsAreExplained(t *testing.T) {
	event := func(ts int64, key, outcome string) view.Event {
		return view.Event{TS: ts, EventID: fmt.Sprint(ts), Domain: "api", Rule: "api.user", Key: key, Outcome: outcome, Allowed: outcome == "allowed", Hits: 2,
			Descriptors: []view.EventDescriptor{{Entries: key, Hits: 2}}}
	}
	first, _ := explainingNode(t, "gate-1", event(1, "user:ann", "denied"), event(9, "user:ben", "allowed"))
	second, _ := explainingNode(t, "gate-2", event(5, "user:ann", "denied"))
	gone, server := explainingNode(t, "gate-3")
	server.Close()
	own := event(2, "user:own", "denied")
	own.Rule, own.Descriptors[0].OwnLimit = "api.own", true
	third, _ := explainingNode(t, "gate-4", own)
	s := nodeSnapshot()
	x := explainer{[]adminAddress{first, second, gone, third}}
	at := func(name string) int {
		for i := range panes {
			if panes[i].name == name {
				return i
			}
		}
		t.Fatal(name)
		return 0
	}
	for _, tt := range []struct {
		of   subject
		want []string
		not  string
	}{
		// The latest of what was not allowed, of all nodes, is explained by the node that decided it.
		{subject{at("rules"), "api.user", "1"}, []string{"rule api.user", "Not allowed of late", "user:ann", "connection refused", "gate-2 explains api user:ann x2", "second line"}, "user:ben"},
		{subject{at("rules"), "api.rule-01", "1"}, []string{"limits per second: allowed 999, denied 1, shadow denied 1, local allowed 1/s", "no event is remembered", "nothing can be asked about"}, "explains"},
		{subject{at("rules"), "api.own", "1"}, []string{"Not allowed of late", "a limit or an operation of its caller"}, "explains"},
		{subject{at("keys"), "api.user", "user:ben"}, []string{"key user:ben", "Of late", "gate-1 explains api user:ben x2"}, "user:ann"},
		// Of a key without an event the domain is that of its rule.
		{subject{at("keys"), "api.user", "user:new"}, []string{"no event is remembered", "gate-1 explains api user:new x1"}, ""},
		{subject{at("keys"), "api.login", "#2c26b46b68ffc68ff99b45"}, []string{"decided 77, denied 77, each give or take 0", "nothing can be asked about"}, "explains"},
		{subject{at("shards"), "default", "10.0.0.2:6379"}, []string{"not connected, breaker open", "765432 calls, 4321 of them failed", "connection refused"}, ""},
		{subject{at("fleet"), "gate-1 *", "degraded"}, []string{"node gate-1", "rules 3f1c9a27", "breakers open 1"}, ""},
	} {
		got := strings.Join(x.lines(t.Context(), tt.of, &s), "\n")
		for _, want := range tt.want {
			if !strings.Contains(got, want) {
				t.Errorf("%v lacks %q:\n%s", tt.of, want, got)
			}
		}
		if tt.not != "" && strings.Contains(got, tt.not) {
			t.Errorf("%v has %q:\n%s", tt.of, tt.not, got)
		}
	}
	// Who may see no keys is told so.
	first.AdminTokenFile = strings.TrimSuffix(first.AdminTokenFile, "write") + "read"
	x = explainer{[]adminAddress{first}}
	if got := strings.Join(x.lines(t.Context(), subject{at("rules"), "api.user", "1"}, &s), "\n"); !strings.Contains(got, "this token sees no keys") || strings.Contains(got, "user:ann  ") {
		t.Error(got)
	}
}

// TestEnterExplains: a row is chosen with the arrows, asked about at enter, and left at esc; what
// comes after that is not shown.
func TestEnterExplains(t *testing.T) {
	var asked []subject
	screen := &topScreen{state: shown(nodeSnapshot()), width: 80, height: 24, explain: func(of subject, _ *snapshot) []string {
		asked = append(asked, of)
		return []string{"of " + of.first, "evil\x1b[2J"}
	}}
	press := func(name string) func() any {
		_, cmd := screen.Update(key(name))
		if cmd == nil {
			return nil
		}
		return func() any { return cmd() }
	}
	for _, name := range []string{"4", "down", "down"} {
		press(name)
	}
	cmd := press("enter")
	if cmd == nil || screen.state.detail == nil || !strings.Contains(screen.View().Content, "asking...") {
		t.Fatalf("%+v", screen.state.detail)
	}
	answer := cmd()
	if want := (subject{3, "gate-3\ufffd[31m", "draining"}); len(asked) != 1 || asked[0] != want {
		t.Fatalf("asked %+v, want %+v", asked, want)
	}
	screen.Update(answer)
	content := screen.View().Content
	if !strings.Contains(content, "of gate-3") || !strings.Contains(content, "esc back") || strings.Contains(content, "\x1b[2J") {
		t.Errorf("%q", content)
	}
	if press("esc"); screen.state.detail != nil || screen.state.row != 2 {
		t.Errorf("%+v", screen.state)
	}
	if screen.Update(answer); screen.state.detail != nil {
		t.Error("what nobody waits for is shown")
	}
	if press("1"); press("/") != nil || press("x") != nil || press("enter") != nil || press("enter") != nil {
		t.Error("no row is explained")
	}
	golden(t, "detail", render(&topState{shown: nodeSnapshot(), detail: &detail{lines: []string{"rule api.user", "a", "b"}}}, 60, 14)+"\n")
}
