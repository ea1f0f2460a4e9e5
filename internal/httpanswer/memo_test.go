package httpanswer

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/verdict"
)

// TestRememberedPoliciesAreRight: an encoder that has answered before writes
// what a fresh one does.
func TestRememberedPoliciesAreRight(t *testing.T) {
	ruleList := []*rules.Rule{
		nil, {ID: "a", Limits: make([]rules.NamedLimit, 1)}, {ID: "b", Limits: make([]rules.NamedLimit, 2)},
		{ID: "b", Limits: make([]rules.NamedLimit, 1), Telling: rules.Telling{Answer: &rules.Answer{Headers: "draft-7"}}},
	}
	limits := []*limit.Limit{nil, perMinute, writes, inFlight, limit.Must(limit.PerSecond(5))}
	one := rapid.Custom(func(t *rapid.T) headgate.Verdict {
		return headgate.Verdict{
			Limit:    rapid.SampledFrom(limits).Draw(t, "limit"),
			Rule:     rapid.SampledFrom(ruleList).Draw(t, "rule"),
			Name:     rapid.SampledFrom([]string{"", "x"}).Draw(t, "name"),
			Role:     rapid.SampledFrom([]rules.Role{rules.Main, rules.InFlight, rules.Secondary, rules.Banning}).Draw(t, "role"),
			Effect:   rapid.SampledFrom([]verdict.Effect{verdict.Enforced, verdict.RuleShadow}).Draw(t, "effect"),
			Decision: limit.Decision{Allowed: true, Limit: rapid.Int64Range(4, 6).Draw(t, "quota")},
		}
	})
	answers := rapid.SliceOfN(rapid.SliceOfN(one, 0, memoVerdicts+2), 1, 2*missesToForget)
	rapid.Check(t, func(t *rapid.T) {
		o := Options{Generation: rapid.SampledFrom([]Generation{Draft8, Draft7, Draft6, NoDraft}).Draw(t, "generation")}
		used, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		for _, verdicts := range answers.Draw(t, "answers") {
			resp := headgate.Response{Allowed: rapid.Bool().Draw(t, "allowed"), Verdicts: verdicts}
			for i := range verdicts {
				verdicts[i].Decision.Allowed = resp.Allowed || verdicts[i].Role != rules.Secondary
			}
			for range 2 { // the second time it may be remembered
				s := used.Summarize(&resp)
				fresh, _ := New(o)
				got, want := used.AppendFields(nil, nil, &resp, &s, exampleNow), fresh.AppendFields(nil, nil, &resp, &s, exampleNow)
				if len(got) != len(want) {
					t.Fatalf("got %q, want %q", got, want)
				}
				for i := range got {
					if got[i] != want[i] {
						t.Fatalf("got %q, want %q", got, want)
					}
				}
			}
		}
	})
}
