package switches_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/switches"
)

func TestRaisesHaveAnEndAndABound(t *testing.T) {
	for text, want := range map[string]string{
		`{"target":"raise:r","state":"raised","raise":20,"until":"2026-05-01T12:00:00Z"}`:                         "",
		`{"target":"raise:r","state":"raised","raise":100,"tenants":["user:ann"],"until":"2026-05-01T12:00:00Z"}`: "",
		`{"target":"raise:r","state":"raised","raise":20}`:                                                        "needs an end",
		`{"target":"raise:r","state":"raised","raise":101,"until":"2026-05-01T12:00:00Z"}`:                        "from 1 to 100",
		`{"target":"raise:r","state":"raised","raise":0,"until":"2026-05-01T12:00:00Z"}`:                          "raise: 0",
		`{"target":"raise:r","state":"raised","raise":-1,"until":"2026-05-01T12:00:00Z"}`:                         "from 1 to 100",
		`{"target":"raise:r","state":"raised","until":"2026-05-01T12:00:00Z"}`:                                    "a raise by 0 per cent",
		`{"target":"raise:r","state":"off","raise":20,"until":"2026-05-01T12:00:00Z"}`:                            "state off",
		`{"target":"raise:r","state":"raised","raise":20,"percent":5,"until":"2026-05-01T12:00:00Z"}`:             "leave percent out",
		`{"target":"rule:r","state":"raised","until":"2026-05-01T12:00:00Z"}`:                                     "state raised without",
		`{"target":"rule:r","state":"off","raise":20}`:                                                            "raise without a target",
		`{"target":"raise:","state":"raised","raise":20,"until":"2026-05-01T12:00:00Z"}`:                          "target",
	} {
		s, err := switches.Parse([]byte(text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		if err != nil {
			continue
		}
		again, err := json.Marshal(s)
		if s2, err2 := switches.Parse(again); err != nil || err2 != nil || s2.Raise != s.Raise || s2.Target != s.Target {
			t.Errorf("%s is written as %s: %v, %v", text, again, err, err2)
		}
	}
}

func TestWhoIsRaised(t *testing.T) {
	ann := descriptor.Entry{Key: "user", Value: "ann"}
	set := mustSet(t,
		switches.Switch{Target: switches.Target{Raise: "r"}, State: switches.Raised, Raise: 20, Until: noon},
		switches.Switch{Target: switches.Target{Raise: "keyed"}, State: switches.Raised, Raise: 30, Tenants: []descriptor.Entry{ann}, Until: noon},
	)
	before, after := limit.MicrosOf(noon)-1, limit.MicrosOf(noon)
	for _, tt := range []struct {
		asked   switches.Asked
		percent int
		keyed   bool
	}{
		{switches.Asked{Rule: "r", Now: before}, 20, false},
		{switches.Asked{Rule: "r", Now: after}, 0, false},
		{switches.Asked{Rule: "other", Now: before}, 0, false},
		{switches.Asked{Rule: "keyed", Now: before}, 0, false},
		{switches.Asked{Rule: "keyed", Tenant: ann, Now: before}, 30, true},
		{switches.Asked{Rule: "keyed", Tenant: ann, Now: after}, 0, false},
	} {
		if percent, keyed := set.RaiseOf(&tt.asked); percent != tt.percent || keyed != tt.keyed {
			t.Errorf("%+v: %d, %v", tt.asked, percent, keyed)
		}
	}
	if state, found := set.Of(&switches.Asked{Rule: "r", Now: before}); found {
		t.Errorf("a raise switches the rule %v", state)
	}
	if !set.Names(ann) || !set.Raises() || mustSet(t).Raises() {
		t.Error("what the set says of itself is wrong")
	}
}
