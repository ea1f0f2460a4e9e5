package app

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/rulesource"
	"github.com/headgate/headgate/internal/telemetry"
	"github.com/headgate/headgate/rules/lint"
	"github.com/headgate/headgate/rules/rulefile"
)

// Whatever way rules come into force, one line says what callers of this process do not get
// of what they ask for, and another what nobody wrote that says which limits count.
func TestEveryWayInIsTold(t *testing.T) {
	set, err := rulefile.Load([]rulefile.File{{Name: "d.yaml", Data: []byte(`
domain: d
descriptors:
- {key: mail, rate_limit: {unit: second, requests_per_unit: 5, algorithm: leaky_queue, max_delay: 1s}}
- {key: api, rate_limit: {unit: second, requests_per_unit: 5}, soft_limit: {at: 50%, action: delay, delay: 100ms}}
- {key: stream, concurrency: {limit: 5, hold: id}}
`)}, {Name: "e.yaml", Data: []byte("domain: e\ndescriptors: [{key: user, priority: p1, concurrency: 5}]")}}, rulefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, e := range map[string]rulesource.Event{
		"a file, an address or a control plane": {Kind: rulesource.Loaded, Set: set},
		"a database":                            {Kind: rulesource.Joined, Set: set},
		"the last good ones":                    {Kind: rulesource.LastGood, Set: set, Err: errors.New("bad")},
	} {
		var log strings.Builder
		r := &ruleReporter{
			logger: slog.New(slog.NewTextHandler(&log, nil)), metrics: telemetry.New(telemetry.Build{}, telemetry.Options{}),
			fronts: []lint.Front{lint.HTTP, lint.GRPC, lint.Auth},
		}
		r.report(e)
		if n := strings.Count(log.String(), "rules ask for what callers of this process do not get"); n != 1 {
			t.Errorf("%s: said %d times", name, n)
		}
		for _, want := range []string{
			"leaky_queue has no effect over grpc, auth: ", "(first rule d.mail)",
			"soft_limit with action delay has no effect over grpc, auth: ", "(first rule d.api)",
			"concurrency has no effect over auth: ", "(first rule d.stream)",
			"concurrency has no effect over grpc, auth: ", "(first rule e.user)",
			"priority has no effect over http, grpc, auth: ",
			"concurrency counts over http only checks with hold, so that all others pass (first rule e.user)",
			"without 'match' it is leaf",
		} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("%s: no %q in\n%s", name, want, log.String())
			}
		}
	}
}
