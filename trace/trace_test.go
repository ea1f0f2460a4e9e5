package trace_test

import (
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/trace"
)

func TestParseParent(t *testing.T) {
	const id, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for text, want := range map[string]struct{ ok, sampled bool }{
		"00-" + id + "-" + span + "-01":                           {true, true},
		"00-" + id + "-" + span + "-00":                           {true, false},
		"00-" + id + "-" + span + "-03":                           {true, true},
		"01-" + id + "-" + span + "-01-more":                      {true, true},
		"01-" + id + "-" + span + "-01more":                       {},
		"00-" + id + "-" + span + "-01-more":                      {},
		"ff-" + id + "-" + span + "-01":                           {},
		"00-" + strings.ToUpper(id) + "-" + span + "-01":          {},
		"00-" + strings.Repeat("0", 32) + "-" + span + "-01":      {},
		"00-" + id + "-" + strings.Repeat("0", 16) + "-01":        {},
		"00-" + id + "-" + span + "-0":                            {},
		"00-" + id + "-" + span + "_01":                           {},
		"":                                                        {},
		strings.Repeat("\x00", 55):                                {},
		"00-" + strings.Repeat("é", 16) + "-" + span + "-01":      {},
		"00-" + id + "-" + strings.Repeat("\xff", 16) + "-01":     {},
		"00 " + id + " " + span + " 01" + strings.Repeat("x", 99): {},
	} {
		parent, ok := trace.ParseParent(text)
		if ok != want.ok || parent.Sampled != want.sampled || parent.IsZero() == ok {
			t.Errorf("%q is %+v, %v", text, parent, ok)
		}
	}
}

// What Traceparent writes is what ParseParent reads.
func TestTraceparentIsReadBack(t *testing.T) {
	for _, sampled := range []bool{false, true} {
		want := trace.Parent{ID: [16]byte{0: 0x0a, 15: 0xff}, Span: [8]byte{7: 1}, Sampled: sampled}
		if got, ok := trace.ParseParent(want.Traceparent()); !ok || got != want {
			t.Errorf("%q is %+v, %v", want.Traceparent(), got, ok)
		}
	}
	if text := (trace.Parent{}).Traceparent(); text != "" {
		t.Errorf("no trace is named by %q", text)
	}
}

// A field that is there twice names no trace: which one counts cannot be told.
func TestParentOf(t *testing.T) {
	const named = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	if trace.ParentOf([]string{named}).Traceparent() != named {
		t.Error("one field names no trace")
	}
	for _, values := range [][]string{nil, {}, {""}, {named, named}, {named + ", " + named}} {
		if parent := trace.ParentOf(values); !parent.IsZero() {
			t.Errorf("%q name %+v", values, parent)
		}
	}
}

func TestDecisionIDs(t *testing.T) {
	at := time.UnixMilli(1714142400123)
	seen := map[trace.DecisionID]bool{}
	for i := range 1000 {
		id := trace.NewDecisionID(at.Add(time.Duration(i) * time.Millisecond))
		text := id.String()
		back, ok := trace.ParseDecisionID(text)
		if !ok || back != id || seen[id] || text[14] != '7' || !strings.ContainsRune("89ab", rune(text[19])) {
			t.Fatalf("%s is %v, %v", text, back, ok)
		}
		seen[id] = true
	}
	if id := trace.NewDecisionID(at).String(); !strings.HasPrefix(id, "018f1ad9-4e7b-7") {
		t.Errorf("the ID of %v is %s", at, id)
	}
	if (trace.DecisionID{}).String() != "" {
		t.Error("no ID is written as one")
	}
	for _, text := range []string{"", "x", "00000000-0000-0000-0000-000000000000", "018f1ae4-6b7b-7000-8000-00000000000g", "018f1ae46b7b-7000-8000-0000000000000-", "018F1AE4-6B7B-7000-8000-000000000001"} {
		if id, ok := trace.ParseDecisionID(text); ok {
			t.Errorf("%q is %v", text, id)
		}
	}
}
