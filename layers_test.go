package headgate_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/denial"
	"github.com/headgate/headgate/store/hotkey"
	"github.com/headgate/headgate/store/lease"
	"github.com/headgate/headgate/store/local"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/store/subbucket"
	"github.com/headgate/headgate/verdict"
)

// shared is a memory store that stands for the one that nodes share.
func shared(t *testing.T) *memstore.Store {
	t.Helper()
	s, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// layered is a limiter over all layers, as a node of several has it. What leases let pass hangs on
// time, so tests that count that run in a bubble.
func layered(t *testing.T, inner store.Leaser, nodes int, yaml string) *bench {
	t.Helper()
	live := func() int { return nodes }
	own, err := local.New(local.Options{Nodes: live})
	if err != nil {
		t.Fatal(err)
	}
	leases := lease.New(lease.Options{Store: inner, Local: own, Nodes: live, Hot: hotkey.New(hotkey.Options{})})
	t.Cleanup(func() {
		if err := leases.Drain(t.Context()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
		leases.Close()
	})
	return newBench(t, yaml, headgate.Options{Store: denial.New(subbucket.New(leases), denial.Options{}), Fallback: own})
}

// admitted asks n times and counts what passes.
func (b *bench) admitted(text string, n int) (passed int) {
	b.t.Helper()
	for range n {
		if b.check(on(text)).Allowed {
			passed++
		}
	}
	return passed
}

const layerRules = `
domain: d
match: leaf
descriptors:
- {key: exact, rate_limit: &l {window: 365d, requests_per_unit: 100, algorithm: fixed_window}}
- {key: leased, consistency: leased, rate_limit: *l}
- {key: synced, consistency: synced, rate_limit: *l}
- {key: local, consistency: local, rate_limit: *l}
- {key: whole, consistency: local, local_share: whole, rate_limit: *l}
- {key: hot, hot_keys: lease, rate_limit: *l}
- {key: spread, sub_buckets: 8, rate_limit: *l}
- {key: asks, remember_denials: false, rate_limit: *l}
`

// Two nodes on one store, each asking for more than the limit in turn.
func TestModesKeepTheirPromises(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		buckets := shared(t)
		a, b := layered(t, buckets, 2, layerRules), layered(t, buckets, 2, layerRules)
		for key, want := range map[string]struct{ least, most int }{
			"exact":  {100, 100},
			"leased": {98, 100},
			"synced": {100, 200}, // (nodes - 1) x limit more
			"local":  {100, 100}, // 50 on each
			"whole":  {200, 200},
			"hot":    {98, 100},
			"spread": {93, 100}, // fewer than 8 left
			"asks":   {100, 100},
		} {
			got := 0
			for range 30 {
				got += a.admitted(key+":x", 5) + b.admitted(key+":x", 5)
			}
			if got < want.least || got > want.most {
				t.Errorf("%s: %d admitted of 100, want %d to %d", key, got, want.least, want.most)
			}
		}
	})
}

func TestD5RememberedDenialsAskNobody(t *testing.T) {
	seen := &recording{Store: shared(t)}
	b := newBench(t, layerRules, headgate.Options{Store: denial.New(seen, denial.Options{})})
	b.admitted("exact:x", 101)
	seen.calls = 0
	r := b.check(on("exact:x"))
	if v := r.Speaker(); r.Allowed || seen.calls != 0 || v.Decision.Limit != 100 || v.Decision.RetryAfter <= 0 || !v.Counted() {
		t.Errorf("allowed=%v, %d calls, %+v; want a denial with counts and no call", r.Allowed, seen.calls, v)
	}
	b.admitted("asks:x", 101)
	seen.calls = 0
	if b.check(on("asks:x")); seen.calls != 1 {
		t.Errorf("%d calls for a rule that asks each time, want 1", seen.calls)
	}
}

// What makes room takes effect at once on the node that was told.
func TestD5DenialsAreForgottenByRefundResetAndRuleChange(t *testing.T) {
	for name, makeRoom := range map[string]func(*bench){
		"refund": func(b *bench) { d := on("exact:x"); d.Op = store.Refund; b.check(d) },
		"reset":  func(b *bench) { d := on("exact:x"); d.Op = store.Reset; b.check(d) },
		"rule change": func(b *bench) {
			b.limiter.SetRules(load(b.t, strings.ReplaceAll(layerRules, "requests_per_unit: 100", "requests_per_unit: 101")))
		},
	} {
		b := layered(t, shared(t), 1, layerRules)
		b.admitted("exact:x", 101)
		if b.check(on("exact:x")).Allowed {
			t.Fatalf("%s: not denied", name)
		}
		makeRoom(b)
		if !b.check(on("exact:x")).Allowed {
			t.Errorf("%s: still denied", name)
		}
	}
}

// A request that one limit is known to deny says nothing of the others.
func TestD5OtherLimitsOfADeniedRequestAreSkipped(t *testing.T) {
	const yaml = `
domain: d
match: path
descriptors:
- key: user
  rate_limit: {unit: hour, requests_per_unit: 10}
  descriptors:
  - key: op
    rate_limit: {unit: hour, requests_per_unit: 1}
`
	b := layered(t, shared(t), 1, yaml)
	b.admitted("user:u,op:w", 2)
	r := b.check(on("user:u,op:w"))
	if len(r.Verdicts) != 2 || r.Verdicts[0].By != verdict.BySkipping || r.Verdicts[0].Counted() || r.Speaker() != &r.Verdicts[1] || r.Allowed {
		t.Errorf("%+v", r.Verdicts)
	}
	if got := b.remaining("user:u"); got != 9 {
		t.Errorf("%d remaining, want 9: denied requests burn nothing", got)
	}
}

// Requests that meet rules of several modes are still all or nothing.
func TestB4AllOrNothingAcrossModes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, mode := range []string{"consistency: leased", "consistency: local", "sub_buckets: 2", "hot_keys: lease"} {
			yaml := fmt.Sprintf(`
domain: d
match: path
descriptors:
- key: user
  %s
  rate_limit: {window: 365d, requests_per_unit: 50, algorithm: fixed_window}
  descriptors:
  - key: op
    rate_limit: {window: 365d, requests_per_unit: 5, algorithm: fixed_window}
`, mode)
			b := layered(t, shared(t), 1, yaml)
			if got := b.admitted("user:u,op:w", 20); got != 5 {
				t.Errorf("%s: %d admitted, want 5", mode, got)
			}
			if got := b.admitted("user:u", 100); got != 45 {
				t.Errorf("%s: %d admitted after 5, want 45: the denied requests burn nothing", mode, got)
			}
		}
	})
}

// A limit that is raised or lowered takes effect though leases, denials and what
// is not exchanged yet belong to the old one; what was used stays used.
func TestA11LimitsChangeUnderEveryMode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		raise := func(to string) string {
			return strings.ReplaceAll(layerRules, "requests_per_unit: 100", "requests_per_unit: "+to)
		}
		for _, key := range []string{"exact", "leased", "synced", "whole", "hot", "spread"} {
			b := layered(t, shared(t), 1, layerRules)
			first := b.admitted(key+":x", 200)
			b.limiter.SetRules(load(t, raise("150")))
			second := b.admitted(key+":x", 200)
			if total := first + second; first < 93 || first > 100 || total < 143 || total > 150 {
				t.Errorf("%s: %d admitted of 100, then %d more of 150", key, first, second)
			}
			b.limiter.SetRules(load(t, raise("120")))
			if third := b.admitted(key+":x", 50); third > 0 {
				t.Errorf("%s: %d admitted beyond a limit that was lowered", key, third)
			}
		}
	})
}
