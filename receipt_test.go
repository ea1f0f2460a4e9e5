package headgate_test

import (
	"context"
	"errors"
	"testing"
	"time"

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
	ask(store.Charge, 2, &receipt)
	ask(store.Refund, 1, &receipt)
	left(79, 23)
	ask(store.Refund, 1, &headgate.Receipt{})
	left(79, 23)
	ask(store.Charge, 0, &receipt)
	ask(store.Refund, 1, &receipt)
	left(79, 23)
}

// A refund with a receipt gives nothing to windows after that of the charge: what is in them is of
// others.
func TestReceiptOfAWindowThatIsOver(t *testing.T) {
	b := newBench(t, `
domain: d
match: path
descriptors:
- key: org
  rate_limit: {unit: day, requests_per_unit: 100, algorithm: fixed_window}
  descriptors:
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 50, algorithm: fixed_window}}
`, headgate.Options{})
	var receipt headgate.Receipt
	ask := func(op store.Op, hits int64, receipt *headgate.Receipt) []headgate.Verdict {
		t.Helper()
		d := on("org:o,user:u")
		d.Op, d.Hits = op, hits
		responses := make([]headgate.Response, 1)
		if err := b.limiter.Check(t.Context(), []headgate.Request{{Domain: "d", Descriptors: []headgate.Descriptor{d}, Receipt: receipt}}, responses); err != nil {
			t.Fatal(err)
		}
		return responses[0].Verdicts
	}
	ask(store.Charge, 30, &receipt)
	b.now = b.now.Add(time.Minute)
	ask(store.Charge, 10, nil)
	got := ask(store.Refund, 20, &receipt)
	if len(got) != 2 || got[0].Hits != 20 || got[1].Hits != 0 {
		t.Fatalf("given back: %+v, want 20 to the day and nothing to the minute", got)
	}
	if org, user := got[0].Decision.Remaining, got[1].Decision.Remaining; org != 80 || user != 40 {
		t.Errorf("%d and %d are left, want 80 and 40", org, user)
	}
}

// A request that does not wait to its end gives up its place, whatever its receipt says.
func TestWaitWithAReceipt(t *testing.T) {
	b := newBench(t, "domain: d\ndescriptors: [{key: k, rate_limit: {unit: second, requests_per_unit: 1, algorithm: leaky_queue, max_queue: 3}}]\n", headgate.Options{})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	wait := func() (left int64) {
		t.Helper()
		var resp headgate.Response
		err := b.limiter.Wait(gone, &headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{on("k:v")}, Receipt: new(headgate.Receipt)}, &resp)
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		d := on("k:v")
		d.Hits = 0
		peek := make([]headgate.Response, 1)
		if err := b.limiter.Check(t.Context(), []headgate.Request{{Domain: "d", Descriptors: []headgate.Descriptor{d}}}, peek); err != nil {
			t.Fatal(err)
		}
		return peek[0].Verdicts[0].Decision.Remaining
	}
	first := wait() // it need not wait
	if got := wait(); got != first {
		t.Errorf("%d are left, %d before", got, first)
	}
}
