package rulereview_test

import (
	"context"
	"errors"
	"fmt"
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

func TestEffect(t *testing.T) {
	now, next := testrules.Load(t, strings.Replace(users, "5", "8", 1)), testrules.Load(t, users)
	page := func(n int) func(string) (view.Events, error) {
		return func(string) (view.Events, error) { return view.Events{Events: events(n)}, nil }
	}
	q := rulereview.Question{Now: now, Next: next, At: at, Recent: page(10)}
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
