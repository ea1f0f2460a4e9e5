package audit

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/verdict"
)

// A raise is an event with all that is known of it, always recorded and counted, and its
// key is named as in events of decisions.
func TestD6RaisesAreEvents(t *testing.T) {
	b := newBench(t, Options{Node: "n1", ConfigVersion: func() string { return "v7" }})
	raise := Raise{Domain: "d", Rule: "d.user", Key: "user:ann", By: 20, Until: noon.Add(time.Hour), Actor: "eve", Reason: "their launch"}
	b.Raised(raise)
	got := b.latest()
	want := view.Event{
		Schema: 1, TS: noon.UnixMilli(), EventID: got.EventID, Node: "n1", Domain: "d", Key: "user:ann", Rule: "d.user", Outcome: "raised", Allowed: true,
		Raise: 20, Until: noon.Add(time.Hour).UnixMilli(), Actor: "eve", Reason: "their launch", ConfigVersion: "v7", SampleRate: 1,
	}
	if diff := cmp.Diff(want, got); diff != "" || got.EventID == "" {
		t.Error(diff)
	}
	if r := b.Redact(got); r.Key != b.hasher.Hash("d", "user:ann") || r.Actor != "eve" {
		t.Errorf("redacted: %+v", r)
	}
	line := string(appendEvent(nil, &got))
	for _, part := range []string{`"outcome":"raised"`, `"raise":20`, `"until":1795352400123`, `"actor":"eve"`, `"reason":"their launch"`} {
		if !strings.Contains(line, part) {
			t.Errorf("%s lacks %s", line, part)
		}
	}
	raise.Ended = true
	b.Raised(raise)
	if got := b.latest(); got.Outcome != "raise_ended" {
		t.Errorf("%+v", got)
	}
	req := request(t, "d", "user:u") // whose record may be one that was of a raise
	b.check(req)
	b.check(req)
	b.check(req)
	if got := b.latest(); got.Outcome != verdict.Denied.String() || got.Actor != "" || got.Raise != 0 || got.Until != 0 {
		t.Errorf("a decision after raises: %+v", got)
	}
	if a := b.Stats(); a.Decided != 5 || a.Produced != 3 || a.Unsampled != 2 {
		t.Errorf("%+v", a)
	}
	raised := headgate.Response{Verdicts: []headgate.Verdict{{Raised: 20}}}
	b.Record(&req, &raised, 0)
	if got := b.latest(); got.Raise != 20 || got.Until != 0 {
		t.Errorf("a decision by a raised limit: %+v", got)
	}
}
