package httpanswer

import (
	"maps"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/verdict"
)

// Clients are told of a candidate that is enforced as of a main limit, and of limits that
// watch not at all.
func TestCandidatesAreToldAsMainLimits(t *testing.T) {
	rule := &rules.Rule{ID: "d.user"}
	said := func(role rules.Role, quota, remaining int64) headgate.Verdict {
		return headgate.Verdict{
			Rule: rule, Limit: limit.Must(limit.PerMinute(quota)), Role: role, Hits: 1,
			Decision: limit.Decision{Allowed: remaining > 0, Limit: quota, Remaining: remaining, ResetAfter: time.Minute, RetryAfter: 30 * time.Second},
		}
	}
	watched := func(v headgate.Verdict) headgate.Verdict {
		v.Effect = verdict.Trial
		return v
	}
	e := encoder(t, Options{})
	now := time.Unix(1_767_225_600, 0)
	for _, remaining := range []int64{5, 0} {
		told := func(verdicts ...headgate.Verdict) map[string]string {
			s, fields := fieldsOf(e, &headgate.Response{Allowed: remaining > 0, Verdicts: verdicts}, now)
			fields["body"] = string(e.AppendBody(nil, &headgate.Request{Descriptors: make([]headgate.Descriptor, 1)}, &headgate.Response{Allowed: remaining > 0, Verdicts: verdicts}, &s))
			return fields
		}
		want := told(said(rules.Main, 60, remaining))
		for name, got := range map[string]map[string]string{
			"a candidate that is enforced": told(watched(said(rules.Main, 100, 0)), said(rules.Candidate, 60, remaining)),
			"a candidate that watches":     told(said(rules.Main, 60, remaining), watched(said(rules.Candidate, 10, 0))),
		} {
			if !maps.Equal(got, want) {
				t.Errorf("%s, %d left: got %v, want %v", name, remaining, got, want)
			}
		}
	}
}
