package rules_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
)

// specOf returns a spec of the domains a and b: a has the rules user and op below it, and
// each has one that always applies.
func specOf() (spec rules.Spec, user, op *rules.Node) {
	perMinute := func() []rules.NamedLimit { return []rules.NamedLimit{{Limit: limit.Must(limit.PerMinute(5))}} }
	user = &rules.Node{Key: "user", Rule: &rules.Rule{Domain: "a", Limits: perMinute()}}
	op = &rules.Node{Key: "op", Value: "write", Match: rules.MatchValue, Rule: &rules.Rule{Domain: "a", Limits: perMinute()}}
	a, b := &rules.Domain{Name: "a"}, &rules.Domain{Name: "b"}
	a.Root.Add(user)
	user.Add(op)
	a.Always = []*rules.Rule{{Domain: "a", Always: true, Name: "all", Limits: perMinute()}}
	b.Always = []*rules.Rule{{Domain: "b", Always: true, Name: "every", Limits: perMinute()}}
	return rules.Spec{Domains: []*rules.Domain{a, b}, Rules: []*rules.Rule{a.Always[0], user.Rule, op.Rule, b.Always[0]}}, user, op
}

func TestNewSet(t *testing.T) {
	spec, _, op := specOf()
	set, err := rules.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, r := range set.Rules() {
		ids = append(ids, r.ID)
	}
	if got := strings.Join(ids, " "); got != "all a.user a.user.op_write every" {
		t.Errorf("the rules are %s", got)
	}
	if got := strings.Join(set.Domains(), " "); got != "a b" || set.NumRules() != 4 || set.Domain("c") != nil {
		t.Errorf("domains %s with %d rules", got, set.NumRules())
	}
	for _, r := range set.Rules() {
		if set.Rule(r.ID) != r {
			t.Errorf("rule %s is not found by its ID", r.ID)
		}
	}
	if set.Rule("gone") != nil || (*rules.Set)(nil).Rule("gone") != nil {
		t.Error("a rule is found that is not there")
	}
	matches := set.Domain("a").AppendMatches(nil, []descriptor.Entry{{Key: "user", Value: "u"}, {Key: "op", Value: "write"}}, nil)
	if !slices.ContainsFunc(matches, func(m rules.Matched) bool { return m.Rule == op.Rule }) {
		t.Errorf("matched %v", matches)
	}
}

// A name that two rules have is that of neither, whatever their domains are.
func TestNamesThatAreNotUnique(t *testing.T) {
	spec, user, op := specOf()
	user.Rule.Name, op.Rule.Name = "every", "writes"
	set, err := rules.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, r := range set.Rules() {
		ids = append(ids, r.ID)
	}
	if got := strings.Join(ids, " "); got != "all a.user writes b.always.every" {
		t.Errorf("the rules are %s", got)
	}
}

// A spec whose parts do not agree would match requests by something else than it says.
func TestSpecsThatAreRefused(t *testing.T) {
	for name, change := range map[string]func(s *rules.Spec, user, op *rules.Node){
		"not in its place":             func(s *rules.Spec, _, _ *rules.Node) { slices.Reverse(s.Domains) },
		"domain a is not in its place": func(s *rules.Spec, _, _ *rules.Node) { s.Domains[1].Name = "a" },
		"domain c, which there is not": func(s *rules.Spec, user, _ *rules.Node) { user.Rule.Domain = "c" },
		"-1 rules stand nowhere": func(s *rules.Spec, user, _ *rules.Node) {
			s.Domains[0].Root.Add(&rules.Node{Key: "ip", Rule: user.Rule})
		},
		"1 rules stand nowhere":           func(s *rules.Spec, user, _ *rules.Node) { user.Rule = nil },
		"user is one of another place":    func(s *rules.Spec, user, _ *rules.Node) { user.Rule.Domain = "b" },
		"op_write is one of another":      func(s *rules.Spec, _, op *rules.Node) { op.Rule.Always = true },
		"op_write is a child of two":      func(s *rules.Spec, _, op *rules.Node) { s.Domains[1].Root.Add(op) },
		"always rule '' has no name":      func(s *rules.Spec, _, _ *rules.Node) { s.Domains[0].Always[0].Name = "" },
		"always rule 'all' has no name":   func(s *rules.Spec, _, _ *rules.Node) { s.Domains[0].Always[0].Domain = "b" },
		"always rule 'every' has no name": func(s *rules.Spec, _, _ *rules.Node) { s.Domains[1].Always[0].Always = false },
		"'all' has no name of its own": func(s *rules.Spec, _, _ *rules.Node) {
			again := *s.Rules[0]
			s.Domains[0].Always, s.Rules = append(s.Domains[0].Always, &again), append(s.Rules, &again)
		},
		"named by entry job, and by entry run": func(s *rules.Spec, user, op *rules.Node) { user.Rule.HoldEntry, op.Rule.HoldEntry = "job", "run" },
	} {
		spec, user, op := specOf()
		change(&spec, user, op)
		if _, err := rules.New(spec); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// What a rule reads for something else takes no part in the matching of its whole domain,
// and only of that.
func TestAsidesOfADomain(t *testing.T) {
	spec, user, op := specOf()
	user.Rule.Cost = rules.Cost{Source: rules.CostEntry, Name: "bytes"}
	op.Rule.HoldEntry = "job"
	set, err := rules.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]bool{"bytes": true, "job": true, "user": false, "": false} {
		if got := set.Domain("a").Aside(key); got != want || (set.Domain("a").AsideUse(key) != "") != want {
			t.Errorf("%q: %t, %q", key, got, set.Domain("a").AsideUse(key))
		}
		if set.Domain("b").Aside(key) {
			t.Errorf("%q in another domain", key)
		}
	}
}
