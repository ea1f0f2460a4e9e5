package lint_test

import (
	"slices"
	"testing"

	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/lint"
)

// What a rule asks for is said of the fronts that cannot do it, and of no other.
func TestUnserved(t *testing.T) {
	const (
		queue  = "rate_limit: {unit: second, requests_per_unit: 5, algorithm: leaky_queue, max_delay: 1s}"
		soft   = limitText + ", soft_limit: {at: 50%, action: delay, delay: 100ms}"
		flight = "concurrency: 5"
	)
	all := lint.Fronts
	for name, test := range map[string]struct {
		rule   string
		fronts []lint.Front
		want   string // "" for nothing
	}{
		"a queue":                {queue, all, "leaky_queue has no effect over grpc, auth, redis: nothing waits there, so that hits which should leave one after the other pass at once"},
		"a queue of a caller":    {queue, all[:1], ""},
		"a secondary queue":      {"secondary_limits: [{unit: second, requests_per_unit: 5, algorithm: leaky_queue}]", []lint.Front{lint.GRPC}, "leaky_queue has no effect over grpc: nothing waits there, so that hits which should leave one after the other pass at once"},
		"delay":                  {soft, all, "soft_limit with action delay has no effect over grpc, auth, redis: nothing is held back there"},
		"a warning":              {limitText + ", soft_limit: {at: 50%}", all, ""},
		"slots":                  {flight, all, "concurrency has no effect over grpc, auth, redis: nobody says when a request ends, so that no slot is taken"},
		"slots of named ones":    {"concurrency: {limit: 5, hold: id}", []lint.Front{lint.HTTP, lint.GRPC}, ""},
		"named ones, a gateway":  {"concurrency: {limit: 5, hold: id}", all, "concurrency has no effect over auth, redis: nobody says when a request ends, so that no slot is taken"},
		"priority":               {limitText + ", priority: p1", all, "priority has no effect over http, grpc, auth, redis: headgate serve sheds no requests"},
		"no fronts of such kind": {limitText + ", priority: p1", nil, ""},
		"nothing odd":            {limitText, all, ""},
	} {
		t.Run(name, func(t *testing.T) {
			set := testrules.Load(t, "domain: d\nmatch: path\ndescriptors:\n- {key: k, "+test.rule+"}")
			var want []string
			if test.want != "" {
				want = []string{"rules.yaml:4:3: warning: rule d.k: " + test.want}
			}
			var got []rules.Diagnostic
			for _, u := range lint.Unserved(set, test.fronts...) {
				got = append(got, u.Diagnostic())
			}
			checkDiagnostics(t, got, want)
			if slices.ContainsFunc(got, func(d rules.Diagnostic) bool { return d.Hint == "" }) {
				t.Error("there is no hint")
			}
		})
	}
}
