package rulereview_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/rulereview"
	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/rulefile"
)

const users = "domain: api\ndescriptors:\n  - key: user\n    rate_limit: {unit: hour, requests_per_unit: 5}\n"

func TestCompare(t *testing.T) {
	set := testrules.Load(t, users)
	if c := rulereview.Compare(nil, set); c.All == 0 || c.List[0].Kind != "added" {
		t.Errorf("from nothing: %+v", c)
	}
	many := "domain: api\ndescriptors:\n"
	for i := range rulereview.MaxChanges + 1 {
		many += fmt.Sprintf("  - {key: k%d, rate_limit: {unit: hour, requests_per_unit: 5}}\n", i)
	}
	if c := rulereview.Compare(set, testrules.Load(t, many)); c.All < rulereview.MaxChanges+1 || len(c.List) != rulereview.MaxChanges {
		t.Errorf("%d of %d changes", len(c.List), c.All)
	}
}

// Tests end with their context, and steps after that fail.
func TestTestsEnd(t *testing.T) {
	file := rulefile.File{Name: "tests", Data: []byte("rules: [x]\ndomain: api\ntests:\n  - name: five\n    steps:\n      - {descriptors: ['user:ann'], times: 5, want: {allowed: true}}\n")}
	set := testrules.Load(t, users)
	if r, err := rulereview.Test(t.Context(), file, set, nil); err != nil || r.Run != 1 || r.Failed != 0 {
		t.Fatalf("%+v %v", r, err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if r, err := rulereview.Test(ended, file, set, nil); err != nil || r.Failed != 1 || !strings.Contains(r.Failures[0].Message, context.Canceled.Error()) {
		t.Errorf("%+v %v", r, err)
	}
	var list rules.Errors
	if _, err := rulereview.Test(t.Context(), rulefile.File{Name: "tests", Data: []byte("tests: [")}, set, nil); !errors.As(err, &list) {
		t.Errorf("%v is not of rules.Errors", err)
	}
}

var at = time.Date(2026, 11, 28, 18, 0, 0, 0, time.UTC)

// events returns n allowed requests of one user, a millisecond apart, the latest first.
func events(n int) (list []view.Event) {
	for i := range n {
		list = append(list, view.Event{
			Schema: view.EventSchema, TS: at.Add(-time.Minute).UnixMilli() - int64(i), Domain: "api", Rule: "api.user", Key: "user:ann",
			Descriptors: []view.EventDescriptor{{Entries: "user:ann", Hits: 1}}, Hits: 1, Outcome: "allowed", Allowed: true, SampleRate: 1,
		})
	}
	return list
}

// eventsOf returns n events of a node, as events does, from so many minutes before at on.
func eventsOf(node string, n, ago int) rulereview.NodeEvents {
	list := events(n)
	for i := range list {
		list[i].TS -= int64(ago) * 60_000
		list[i].EventID = fmt.Sprintf("%s-%d", node, i)
	}
	return rulereview.NodeEvents{Node: node, Events: list}
}

// The effect is that on requests of all nodes together: none of them has asked for more than the limit alone. It
// names those whose events it lacks, and is of the time of which all have told.
func TestEffectOverNodes(t *testing.T) {
	own := events(3)
	q := rulereview.Question{
		Now: testrules.Load(t, strings.Replace(users, "5", "100", 1)), Next: testrules.Load(t, users),
		Remembered: rulereview.Remembered{
			At: at, Node: "a",
			Recent: func(string) (view.Events, error) { return view.Events{Events: own}, nil },
			Others: []rulereview.NodeEvents{eventsOf("b", 4, 0), {Node: "c", Unknown: "it has not answered"}},
		},
	}
	e := q.Ask(t.Context())
	want := []rulereview.EffectNode{{Node: "a", Events: 3}, {Node: "b", Events: 4}, {Node: "c", Unknown: "it has not answered"}}
	if e.Unknown != "" || e.Requests != 7 || e.NewlyDenied != 2 || e.Cut || !slices.Equal(e.Nodes, want) {
		t.Errorf("%+v", e)
	}
	// b has told of the time since its second request only, and a of the minutes before too.
	own = append(events(3), eventsOf("", 4, 10).Events...)
	q.Others = []rulereview.NodeEvents{eventsOf("b", 2, 0)}
	q.Others[0].Cut = true
	e = q.Ask(t.Context())
	if e.Unknown != "" || e.Requests != 4 || !e.Cut || !slices.Equal(e.Nodes, []rulereview.EffectNode{{Node: "a", Events: 2}, {Node: "b", Events: 2}}) {
		t.Errorf("%+v", e)
	}
	q.Others = []rulereview.NodeEvents{eventsOf("b", rulereview.MaxEvents, 0)}
	if e = q.Ask(t.Context()); e.Unknown != "" || e.Requests != rulereview.MaxEvents || !e.Cut {
		t.Errorf("%d of %+v", e.Requests, e.Nodes)
	}
}

// Packed events come out as they were, the latest where there is no room for all.
func TestPackedEvents(t *testing.T) {
	all := events(2000)
	data, err := rulereview.Pack(all, false, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if got, cut, err := rulereview.Unpack(data, 2000); err != nil || cut || !reflect.DeepEqual(got, all) {
		t.Errorf("%d events, %v, %v", len(got), cut, err)
	}
	if _, _, err := rulereview.Unpack(data, 1999); err == nil {
		t.Error("more than were asked for")
	}
	small, err := rulereview.Pack(all, false, len(data)/2)
	if err != nil || len(small) > len(data)/2 {
		t.Fatalf("%d bytes, %v", len(small), err)
	}
	got, cut, err := rulereview.Unpack(small, 2000)
	if n := len(got); err != nil || !cut || n < 200 || n > 1900 || !reflect.DeepEqual(got, all[:n]) {
		t.Errorf("%d events, %v, %v", n, cut, err)
	}
	if data, err = rulereview.Pack(nil, true, 1<<20); err != nil {
		t.Fatal(err)
	}
	if got, cut, err := rulereview.Unpack(data, 1); err != nil || !cut || len(got) != 0 {
		t.Errorf("of none: %d, %v, %v", len(got), cut, err)
	}
	if _, err := rulereview.Pack(all, false, 10); err == nil {
		t.Error("there is no room")
	}
	for _, bad := range [][]byte{nil, []byte("{}"), small[:len(small)/2], data[:10]} {
		if _, _, err := rulereview.Unpack(bad, 2000); err == nil {
			t.Errorf("%.20q", bad)
		}
	}
}

func TestEffect(t *testing.T) {
	now, next := testrules.Load(t, strings.Replace(users, "5", "8", 1)), testrules.Load(t, users)
	page := func(n int) func(string) (view.Events, error) {
		return func(string) (view.Events, error) { return view.Events{Events: events(n)}, nil }
	}
	q := rulereview.Question{Now: now, Next: next, Remembered: rulereview.Remembered{At: at, Recent: page(10)}}
	if e := q.Ask(t.Context()); e.Unknown != "" || e.Requests != 10 || e.DeniedBefore != 2 || e.DeniedAfter != 5 || e.NewlyDenied != 3 || len(e.Rules) != 1 {
		t.Errorf("%+v", e)
	}
	q.Now = nil // no rules are in force
	if e := q.Ask(t.Context()); e.Unknown != "" || e.DeniedBefore != 0 || e.NewlyDenied != 5 {
		t.Errorf("%+v", e)
	}
	q.Recent = page(0)
	if e := q.Ask(t.Context()); e.Unknown != "" || e.Requests != 0 || !e.From.IsZero() {
		t.Errorf("%+v", e)
	}
	q.Recent = page(rulereview.MaxEvents + 1)
	if e := q.Ask(t.Context()); e.Unknown != "" || e.Requests != rulereview.MaxEvents || !e.Cut {
		t.Errorf("%+v", e)
	}
	q.Recent = func(string) (view.Events, error) { return view.Events{}, errors.New("gone") }
	if e := q.Ask(t.Context()); e.Unknown != "gone" {
		t.Errorf("%+v", e)
	}
	late, end := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer end()
	q.Recent = page(10)
	if e := q.Ask(late); !strings.Contains(e.Unknown, "in time") || e.Requests != 0 {
		t.Errorf("%+v", e)
	}
}

// Events are collected from page to page, back to an instant that is part of it.
func TestCollect(t *testing.T) {
	all := events(10)
	pages := func(cursor string) (page view.Events, err error) {
		from := 0
		if cursor != "" {
			if from, err = strconv.Atoi(cursor); err != nil {
				return page, err
			}
		}
		to := min(from+3, len(all))
		if page.Events = all[from:to]; to < len(all) {
			page.NextCursor = strconv.Itoa(to)
		}
		return page, nil
	}
	for _, test := range []struct {
		since, most, want int
		cut               bool
	}{{9, 100, 10, false}, {7, 100, 8, false}, {9, 10, 10, false}, {9, 4, 4, true}, {3, 4, 4, false}} {
		got, cut, err := rulereview.Collect(t.Context(), pages, time.UnixMilli(all[test.since].TS), test.most)
		if err != nil || cut != test.cut || !reflect.DeepEqual(got, all[:test.want]) {
			t.Errorf("%+v: %d events, cut %v, %v", test, len(got), cut, err)
		}
	}
}

// What nodes remember is read from the oldest event on, as a file of events is, as often as it is opened.
func TestRecallIsInTheOrderOfTime(t *testing.T) {
	own := events(4)
	r := rulereview.Remembered{Node: "here", At: time.UnixMilli(own[0].TS), Recent: func(string) (view.Events, error) { return view.Events{Events: own}, nil }}
	recalled, err := r.Recall(t.Context())
	if err != nil || recalled.Events != 4 || len(recalled.Nodes) != 1 || recalled.Nodes[0].Events != 4 || recalled.Cut {
		t.Fatalf("%+v: %v", recalled, err)
	}
	for range 2 {
		f, err := recalled.Input.Open()
		if err != nil {
			t.Fatal(err)
		}
		lines := json.NewDecoder(f)
		for i := len(own) - 1; i >= 0; i-- {
			var e view.Event
			if err := lines.Decode(&e); err != nil || e.TS != own[i].TS {
				t.Errorf("an event of %d, want %d: %v", e.TS, own[i].TS, err)
			}
		}
		if err := f.Close(); err != nil || lines.More() {
			t.Errorf("there is more: %v", err)
		}
	}
}

// An effect is of an hour, of the latest events of all nodes, and of the time of which each of them has told.
func TestTimeOfAnEffect(t *testing.T) {
	own := append(events(3), eventsOf("a", 2, 90).Events...)
	q := rulereview.Question{
		Now: testrules.Load(t, users), Next: testrules.Load(t, users),
		Remembered: rulereview.Remembered{At: at, Node: "a", Recent: func(string) (view.Events, error) { return view.Events{Events: own}, nil }},
	}
	if e := q.Ask(t.Context()); e.Requests != 3 || e.Cut {
		t.Errorf("of an hour: %+v", e)
	}
	q.Others = []rulereview.NodeEvents{eventsOf("b", 2, 0), eventsOf("c", 4, 10)}
	q.Others[0].Cut, q.Others[1].Cut = true, true
	if e := q.Ask(t.Context()); !e.Cut || !slices.Equal(e.Nodes, []rulereview.EffectNode{{Node: "a", Events: 2}, {Node: "b", Events: 2}, {Node: "c"}}) {
		t.Errorf("two have told of a part: %+v", e)
	}
	own = events(rulereview.MaxEvents)
	q.Others = []rulereview.NodeEvents{eventsOf("b", 5, 30)}
	if e := q.Ask(t.Context()); !e.Cut || !slices.Equal(e.Nodes, []rulereview.EffectNode{{Node: "a", Events: rulereview.MaxEvents}, {Node: "b"}}) {
		t.Errorf("more than there may be: %+v", e.Nodes)
	}
}

// No more rules are named than can be read.
func TestRulesOfAnEffectAreBounded(t *testing.T) {
	const n = 60
	var list []view.Event
	text := "domain: api\ndescriptors:\n"
	for i := range n {
		text += fmt.Sprintf("  - {key: k%d, rate_limit: {unit: hour, requests_per_unit: 5}}\n", i)
		e := events(1)[0]
		e.TS -= int64(i)
		e.Key = fmt.Sprintf("k%d:x", i)
		e.Hits, e.Descriptors = 6, []view.EventDescriptor{{Entries: e.Key, Hits: 6}}
		list = append(list, e)
	}
	q := rulereview.Question{
		Next:       testrules.Load(t, text),
		Remembered: rulereview.Remembered{At: at, Node: "a", Recent: func(string) (view.Events, error) { return view.Events{Events: list}, nil }},
	}
	if e := q.Ask(t.Context()); e.Unknown != "" || e.Requests != n || len(e.Rules) != 50 {
		t.Errorf("%d requests, %d rules, %s", e.Requests, len(e.Rules), e.Unknown)
	}
}

// Events that were altered on the way, or that would fill the memory, are not read.
func TestUnpackIsBounded(t *testing.T) {
	data, err := rulereview.Pack(events(20), false, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	altered := bytes.Clone(data)
	altered[len(altered)-8] ^= 1
	for name, bad := range map[string][]byte{"the last byte is missing": data[:len(data)-1], "another sum": altered} {
		if got, _, err := rulereview.Unpack(bad, 20); err == nil {
			t.Errorf("%s: %d events", name, len(got))
		}
	}
	large := events(75)
	for i := range large {
		large[i].Key = strings.Repeat("k", 900_000)
	}
	if data, err = rulereview.Pack(large, false, 1<<30); err != nil {
		t.Fatal(err)
	}
	if got, _, err := rulereview.Unpack(data, rulereview.MaxEvents); err == nil {
		t.Errorf("%d events of 900 kB", len(got))
	}
}
