package headgate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
)

func TestParseTraceparent(t *testing.T) {
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
		trace, ok := headgate.ParseTraceparent(text)
		if ok != want.ok || trace.Sampled != want.sampled || trace.IsZero() == ok {
			t.Errorf("%q is %+v, %v", text, trace, ok)
		}
	}
}

func TestDecisionIDs(t *testing.T) {
	at := time.UnixMilli(1714142400123)
	seen := map[headgate.DecisionID]bool{}
	for i := range 1000 {
		id := headgate.NewDecisionID(at.Add(time.Duration(i) * time.Millisecond))
		text := id.String()
		back, ok := headgate.ParseDecisionID(text)
		if !ok || back != id || seen[id] || text[14] != '7' || !strings.ContainsRune("89ab", rune(text[19])) {
			t.Fatalf("%s is %v, %v", text, back, ok)
		}
		seen[id] = true
	}
	if id := headgate.NewDecisionID(at).String(); !strings.HasPrefix(id, "018f1ad9-4e7b-7") {
		t.Errorf("the ID of %v is %s", at, id)
	}
	if (headgate.DecisionID{}).String() != "" {
		t.Error("no ID is written as one")
	}
	for _, text := range []string{"", "x", "00000000-0000-0000-0000-000000000000", "018f1ae4-6b7b-7000-8000-00000000000g", "018f1ae46b7b-7000-8000-0000000000000-", "018F1AE4-6B7B-7000-8000-000000000001"} {
		if id, ok := headgate.ParseDecisionID(text); ok {
			t.Errorf("%q is %v", text, id)
		}
	}
}
