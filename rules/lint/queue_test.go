package lint_test

import (
	"testing"

	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/rules/lint"
)

// A queue beside another limit is told of too, whichever of the limits of its rule it is.
func TestQueueBesideALimit(t *testing.T) {
	const queue = "{unit: second, requests_per_unit: 5, algorithm: leaky_queue}"
	for name, rule := range map[string]string{
		"after the limit":    limitText + ", secondary_limits: [{unit: hour, requests_per_unit: 9}, " + queue + "]",
		"the second of two":  "limits: [{unit: minute, requests_per_unit: 3}, " + queue + "]",
		"the first of three": "limits: [" + queue + ", {unit: minute, requests_per_unit: 3}, {unit: day, requests_per_unit: 9}]",
	} {
		set := testrules.Load(t, "domain: d\nmatch: path\ndescriptors:\n- {key: k, "+rule+"}")
		if got := lint.Unserved(set, lint.GRPC); len(got) != 1 || got[0].Asked != "leaky_queue" {
			t.Errorf("%s: %v", name, got)
		}
	}
}
