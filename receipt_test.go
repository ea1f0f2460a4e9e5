package headgate_test

import (
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/switches"
)

// A refund with a receipt reaches what the charge has charged, and nothing else: not what was
// switched off then, and not what other rules count in.
func TestReceipts(t *testing.T) {
	const rules = `
domain: d
match: path
descriptors:
- key: org
  name: org
  rate_limit: {unit: day, requests_per_unit: 100, algorithm: fixed_window}
  descriptors:
  - {key: user, name: user, rate_limit: {unit: day, requests_per_unit: 50, algorithm: fixed_window}}
`
	b := newBench(t, rules, headgate.Options{})
	ask := func(op store.Op, hits int64, receipt *headgate.Receipt) headgate.Response {
		t.Helper()
		d := on("org:o,user:u")
		d.Op, d.Hits = op, hits
		responses := make([]headgate.Response, 1)
		if err := b.limiter.Check(t.Context(), []headgate.Request{{Domain: "d", Descriptors: []headgate.Descriptor{d}, Receipt: receipt}}, responses); err != nil {
			t.Fatal(err)
		}
		return responses[0]
	}
	left := func(org, user int64) {
		t.Helper()
		got := ask(store.Hit, 0, nil).Verdicts
		if len(got) != 2 || got[0].Decision.Remaining != org || got[1].Decision.Remaining != user {
			t.Errorf("%+v, want %d and %d left", got, org, user)
		}
	}
	ask(store.Charge, 20, nil)
	off, err := switches.NewSet([]switches.Switch{{Target: switches.Target{Rule: "org"}, State: switches.Off}})
	if err != nil {
		t.Fatal(err)
	}
	b.limiter.SetSwitches(off)
	var receipt headgate.Receipt
	ask(store.Charge, 10, &receipt)
	b.limiter.SetSwitches(nil)
	left(80, 20)
	if got := ask(store.Refund, 4, &receipt).Verdicts; len(got) != 2 || got[0].Hits != 0 || got[1].Hits != 4 {
		t.Errorf("given back: %+v", got)
	}
	left(80, 24)

	b.limiter.SetRules(testrules.Load(t, "domain: d\nmatch: path\ndescriptors: [{key: org, name: org, rate_limit: {unit: day, requests_per_unit: 100, algorithm: fixed_window}}]\n"))
	if got := ask(store.Refund, 4, &receipt).Verdicts; len(got) != 1 || got[0].Decision.Remaining != 80 {
		t.Errorf("of a rule that is gone: %+v", got)
	}
	b.limiter.SetRules(testrules.Load(t, rules))
	left(80, 24)

	// A charge says what it has charged, and nothing of the one before.
	ask(store.Charge, 0, &receipt)
	ask(store.Refund, 1, &receipt)
	left(81, 25)
	ask(store.Refund, 1, &headgate.Receipt{})
	left(81, 25)
}
