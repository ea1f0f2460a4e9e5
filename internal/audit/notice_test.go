package audit

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headgate/headgate/internal/view"
)

// The begin and the end of a drill are events, always recorded: what fails, who, why, until when.
func TestN6DrillsAreEvents(t *testing.T) {
	b := newBench(t, Options{Node: "n1", ConfigVersion: func() string { return "v7" }})
	d := Drill{Fault: "store-down of all stores", Until: noon.Add(time.Minute), Actor: "ann", Reason: "rehearsal"}
	b.Drilled(d)
	got := b.latest()
	want := view.Event{
		Schema: 1, TS: noon.UnixMilli(), EventID: got.EventID, Node: "n1", Outcome: "drill", Allowed: true, Until: noon.Add(time.Minute).UnixMilli(),
		Actor: "ann", Reason: "store-down of all stores: rehearsal", ConfigVersion: "v7", SampleRate: 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if line := string(appendEvent(nil, &got)); !strings.Contains(line, `"outcome":"drill"`) || !strings.Contains(line, `"actor":"ann"`) {
		t.Error(line)
	}
	d.Ended, d.Actor, d.Reason = true, "n2", ""
	b.Drilled(d)
	if got := b.latest(); got.Outcome != "drill_ended" || got.Actor != "n2" || got.Reason != "store-down of all stores" {
		t.Errorf("%+v", got)
	}
}
