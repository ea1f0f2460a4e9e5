package httpanswer

import (
	"slices"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
)

// TestMemoTellsAnswersApart: two answers of which but one thing differs do not get the
// policies of each other.
func TestMemoTellsAnswersApart(t *testing.T) {
	one := headgate.Verdict{
		Limit: limit.Must(limit.PerMinute(5)), Rule: &rules.Rule{ID: "a"}, Role: rules.Main,
		Decision: limit.Decision{Allowed: true, Limit: 5, Remaining: 4},
	}
	for name, edit := range map[string]func(*headgate.Verdict){
		"limit": func(v *headgate.Verdict) { v.Limit = limit.Must(limit.PerHour(5)) },
		"rule":  func(v *headgate.Verdict) { v.Rule = &rules.Rule{ID: "b"} },
		"quota": func(v *headgate.Verdict) { v.Decision.Limit = 6 },
		"name":  func(v *headgate.Verdict) { v.Name = "x" },
		"role":  func(v *headgate.Verdict) { v.Role = rules.InFlight },
	} {
		t.Run(name, func(t *testing.T) {
			other := one
			edit(&other)
			used, err := New(Options{Generation: Draft8})
			if err != nil {
				t.Fatal(err)
			}
			fields := func(e *Encoder, v headgate.Verdict) string {
				resp := headgate.Response{Allowed: true, Verdicts: []headgate.Verdict{v}}
				s := e.Summarize(&resp)
				all := e.AppendFields(nil, nil, &resp, &s, exampleNow)
				i := slices.IndexFunc(all, func(f Field) bool { return f.Name == "RateLimit-Policy" })
				if i < 0 {
					t.Fatalf("no policy in %q", all)
				}
				return all[i].Value
			}
			first := fields(used, one)
			fresh, _ := New(Options{Generation: Draft8})
			if got, want := fields(used, other), fields(fresh, other); got != want || got == first {
				t.Errorf("%q, want %q, which is another than %q", got, want, first)
			}
		})
	}
}
