package switches_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/switches"
)

var (
	noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	acme = descriptor.Entry{Key: "tenant", Value: "acme"}
	bolt = descriptor.Entry{Key: "tenant", Value: "bolt"}
)

func mustSet(t testing.TB, list ...switches.Switch) *switches.Set {
	t.Helper()
	s, err := switches.NewSet(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWhoIsSwitched(t *testing.T) {
	rule := switches.Target{Rule: "api.orders"}
	for name, c := range map[string]struct {
		list  []switches.Switch
		asked switches.Asked
		want  string
	}{
		"nothing is switched":            {nil, switches.Asked{Rule: "api.orders"}, "none"},
		"all are":                        {[]switches.Switch{{State: switches.Off}}, switches.Asked{Rule: "any"}, "off"},
		"one rule is":                    {[]switches.Switch{{Target: rule, State: switches.Shadow}}, switches.Asked{Rule: "api.orders"}, "shadow"},
		"another rule is not":            {[]switches.Switch{{Target: rule, State: switches.Shadow}}, switches.Asked{Rule: "api.users"}, "none"},
		"the rule speaks before all":     {[]switches.Switch{{State: switches.Off}, {Target: rule, State: switches.On}}, switches.Asked{Rule: "api.orders"}, "on"},
		"the tenant speaks before both":  {[]switches.Switch{{State: switches.Off}, {Target: rule, State: switches.On}, {Target: switches.Target{Tenant: acme}, State: switches.Shadow}}, switches.Asked{Rule: "api.orders", Tenant: acme}, "shadow"},
		"no tenant is no tenant":         {[]switches.Switch{{Target: switches.Target{Tenant: acme}, State: switches.Off}}, switches.Asked{Rule: "api.orders"}, "none"},
		"before its end":                 {[]switches.Switch{{State: switches.Off, Until: noon}}, switches.Asked{Now: limit.MicrosOf(noon) - 1}, "off"},
		"at its end":                     {[]switches.Switch{{State: switches.Off, Until: noon}}, switches.Asked{Now: limit.MicrosOf(noon)}, "none"},
		"an ended one hides no other":    {[]switches.Switch{{State: switches.Off}, {Target: rule, State: switches.On, Until: noon}}, switches.Asked{Rule: "api.orders", Now: limit.MicrosOf(noon)}, "off"},
		"within the share":               {[]switches.Switch{{State: switches.Off, Percent: 10}}, switches.Asked{Share: 9}, "off"},
		"beyond the share":               {[]switches.Switch{{State: switches.Off, Percent: 10}}, switches.Asked{Share: 10}, "none"},
		"a tenant of the canary":         {[]switches.Switch{{State: switches.Off, Tenants: []descriptor.Entry{bolt, acme}}}, switches.Asked{Tenant: acme, Share: 99}, "off"},
		"no tenant of the canary":        {[]switches.Switch{{State: switches.Off, Tenants: []descriptor.Entry{bolt}}}, switches.Asked{Tenant: acme, Share: 0}, "none"},
		"a share and tenants beside it":  {[]switches.Switch{{State: switches.Off, Percent: 10, Tenants: []descriptor.Entry{acme}}}, switches.Asked{Tenant: acme, Share: 50}, "off"},
		"a candidate is no rule":         {[]switches.Switch{{Target: switches.Target{Candidate: "api.orders"}, State: switches.Off}}, switches.Asked{Rule: "api.orders"}, "none"},
		"a canary leaves others to all":  {[]switches.Switch{{State: switches.Shadow}, {Target: rule, State: switches.Off, Percent: 10}}, switches.Asked{Rule: "api.orders", Share: 10}, "shadow"},
		"every request of a whole share": {[]switches.Switch{{State: switches.Off, Percent: 100}}, switches.Asked{Share: 99}, "off"},
	} {
		t.Run(name, func(t *testing.T) {
			got := "none"
			if state, ok := mustSet(t, c.list...).Of(&c.asked); ok {
				got = state.String()
			}
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestCandidatesAreSwitchedApart(t *testing.T) {
	set := mustSet(t, switches.Switch{State: switches.Off}, switches.Switch{Target: switches.Target{Candidate: "api.orders"}, State: switches.Shadow})
	if state, ok := set.OfCandidate(&switches.Asked{Rule: "api.orders"}); !ok || state != switches.Shadow {
		t.Errorf("got %v, %v, want shadow", state, ok)
	}
	if _, ok := set.OfCandidate(&switches.Asked{Rule: "api.users"}); ok {
		t.Error("the switch of all is for a candidate")
	}
}

func TestRefusedSwitches(t *testing.T) {
	for name, c := range map[string]struct {
		list []switches.Switch
		want string
	}{
		"twice":                     {[]switches.Switch{{}, {State: switches.Off}}, "switch all: it is there twice"},
		"more than all":             {[]switches.Switch{{Percent: 101}}, "percent 101"},
		"a canary of one tenant":    {[]switches.Switch{{Target: switches.Target{Tenant: acme}, Percent: 5}}, "canary of one tenant"},
		"a state that there is not": {[]switches.Switch{{State: 7}}, "state 7"},
		"a long reason":             {[]switches.Switch{{Reason: strings.Repeat("x", switches.MaxReason+1)}}, "reason of 501 bytes"},
		"an end that no JSON shows": {[]switches.Switch{{Until: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)}}, "year 9999"},
		"too many tenants":          {[]switches.Switch{{Tenants: make([]descriptor.Entry, switches.MaxTenants+1)}}, "1001 tenants"},
		"too many":                  {make([]switches.Switch, switches.MaxSwitches+1), "10001 switches"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := switches.NewSet(c.list); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestParse(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{"target":"all","state":"off"}`, ""},
		{`{"target":"rule:api.orders","state":"shadow","percent":10,"tenants":["tenant:acme"],"until":"2026-12-01T00:00:00Z","reason":"too many denials"}`, ""},
		{`{"target":"tenant:org:a:b","state":"on"}`, ""},
		{`{"target":"candidate:api.orders","state":"off"}`, ""},
		{`{"target":"everything","state":"off"}`, "target: "},
		{`{"target":"tenant:acme","state":"off"}`, "target: "},
		{`{"target":"rule:","state":"off"}`, "target: "},
		{`{"target":"all"}`, "state: "},
		{`{"target":"all","state":"OFF"}`, "state: "},
		{`{"target":"all","state":"off","percent":0}`, "percent: "},
		{`{"target":"all","state":"off","percent":"10"}`, "percent: "},
		{`{"target":"all","state":"off","tenants":["acme"]}`, "tenants[0]: "},
		{`{"target":"all","state":"off","until":"tomorrow"}`, "until: not a time"},
		{`{"target":"all","state":"off","until":"9999-12-31T23:59:59-23:59"}`, "until: after the year 9999"},
		{`{"target":"all","state":"off","why":"x"}`, "why: no such field"},
		{`{"target":"all","state":"off"} {}`, "text after the end"},
		{`[]`, "a list is not an object"},
		{``, "wants a value"},
		{`{"target":"all","state":"off","state":"on"}`, "state: given twice"},
		{`{"target":"all","STATE":"off"}`, "STATE: no such field; hint: names are in lower case: state"},
	} {
		one, err := switches.Parse([]byte(c.text))
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: got %v, want %q", c.text, err, c.want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if again, err := json.Marshal(one); err != nil || string(again) != c.text {
			t.Errorf("got %s, %v, want %s", again, err, c.text)
		}
	}
}

// FuzzParse holds that what is taken is written as it can be taken again, and fits a
// Set.
func FuzzParse(f *testing.F) {
	f.Add(`{"target":"rule:api.orders","state":"shadow","percent":10,"tenants":["tenant:acme"],"until":"2026-12-01T00:00:00Z"}`)
	f.Add(`{"target":"tenant:org:a:b","state":"on","reason":"\u0000"}`)
	f.Fuzz(func(t *testing.T, text string) {
		one, err := switches.Parse([]byte(text))
		if err != nil {
			return
		}
		mustSet(t, one)
		first, err := json.Marshal(one)
		if err != nil {
			t.Skip("an instant that JSON cannot hold")
		}
		again, err := switches.Parse(first)
		if err != nil {
			t.Fatalf("%s: %v", first, err)
		}
		if second, _ := json.Marshal(again); string(second) != string(first) {
			t.Fatalf("%s became %s", first, second)
		}
	})
}

// TestShares holds that a canary of n percent reaches about n of a hundred, the same
// ones each time, and that a larger one keeps those of a smaller one (by the order of
// shares). 100,000 draws of one percent deviate by 31 from 1,000 in the mean; six
// times that is allowed.
func TestShares(t *testing.T) {
	var counts [100]int
	for i := range 100_000 {
		counts[switches.ShareOf([]descriptor.Entry{{Key: "tenant", Value: fmt.Sprint(i)}})]++
	}
	for share, n := range counts {
		if n < 1000-190 || n > 1000+190 {
			t.Errorf("share %d has %d of 100,000", share, n)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		entries := rapid.SliceOf(rapid.Custom(func(t *rapid.T) descriptor.Entry {
			return descriptor.Entry{Key: rapid.String().Draw(t, "key"), Value: rapid.String().Draw(t, "value")}
		})).Draw(t, "entries")
		share := switches.ShareOf(entries)
		if share < 0 || share > 99 || share != switches.ShareOf(entries) {
			t.Fatalf("share %d", share)
		}
	})
	// Part of what operators rely on over releases: the same tenants stay in.
	if got := switches.ShareOf([]descriptor.Entry{acme}); got != shareOfAcme {
		t.Errorf("the share of tenant:acme is %d, was %d", got, shareOfAcme)
	}
}

const shareOfAcme = 28

func TestAskingAllocatesNothing(t *testing.T) {
	set := mustSet(t, switches.Switch{State: switches.Off, Percent: 1}, switches.Switch{Target: switches.Target{Rule: "api.orders"}, State: switches.Shadow})
	entries := []descriptor.Entry{acme}
	allocations := testing.AllocsPerRun(100, func() {
		asked := switches.Asked{Rule: "api.orders", Tenant: acme, Share: switches.ShareOf(entries)}
		if _, ok := set.Of(&asked); !ok {
			t.Fatal("not switched")
		}
	})
	if allocations != 0 {
		t.Errorf("%v allocations", allocations)
	}
}
