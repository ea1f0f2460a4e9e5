package headgate_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/switches"
)

func (b *bench) dryRun(descriptors ...headgate.Descriptor) (before, after headgate.Response) {
	b.t.Helper()
	if err := b.limiter.DryRun(b.t.Context(), &headgate.Request{Domain: "d", Descriptors: descriptors}, &before, &after); err != nil {
		b.t.Fatal(err)
	}
	return before, after
}

// What a dry run says is what Check then says, with the counts that it leaves.
func TestDryRunSaysWhatCheckSays(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		algorithms := []string{"fixed_window", "sliding_window", "sub_windows", "sliding_log", "token_bucket", "gcra", "leaky_bucket", "leaky_queue"}
		user, countDenied := rapid.SampledFrom(algorithms).Draw(r, "algorithm of user"), ""
		if slices.Index(algorithms, user) < 3 && rapid.Bool().Draw(r, "count denied") {
			countDenied = ", count_denied: true"
		}
		b := newBench(t, fmt.Sprintf(`
domain: d
consumption: %s
descriptors:
- {always: true, name: all, rate_limit: {unit: minute, requests_per_unit: %d, algorithm: %s}}
- key: user
  name: user
  shadow_mode: %t
  rate_limit: {unit: hour, requests_per_unit: %d, algorithm: %s%s}
  concurrency: {limit: 3, timeout: 1m}
  descriptors:
  - {key: op, rate_limit: {unit: minute, requests_per_unit: %d, algorithm: %s}, ban: {after: 3, within: 1m, for: 2m}}
`, rapid.SampledFrom([]string{"all_or_nothing", "independent"}).Draw(r, "consumption"),
			rapid.IntRange(1, 9).Draw(r, "all"), rapid.SampledFrom(algorithms).Draw(r, "algorithm of all"), rapid.Bool().Draw(r, "shadow"),
			rapid.IntRange(1, 30).Draw(r, "user"), user, countDenied,
			rapid.IntRange(1, 9).Draw(r, "op"), rapid.SampledFrom(algorithms).Draw(r, "algorithm of op")), headgate.Options{})
		for range rapid.IntRange(1, 40).Draw(r, "requests") {
			b.now = b.now.Add(time.Duration(rapid.SampledFrom([]int{0, 0, 1, 7, 31, 200}).Draw(r, "seconds")) * time.Second)
			d := on(rapid.SampledFrom([]string{"user:a", "user:b", "user:a,op:read"}).Draw(r, "descriptor"))
			d.Hits = rapid.Int64Range(0, 4).Draw(r, "hits")
			req := headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{d}, Hold: limit.Hold(rapid.Int64Range(0, 6).Draw(r, "hold"))}
			peek := d
			peek.Hits = 0
			found := b.check(peek)
			var before, after headgate.Response
			if err := b.limiter.DryRun(t.Context(), &req, &before, &after); err != nil {
				r.Fatal(err)
			}
			for i := range found.Verdicts {
				if before.Verdicts[i].Decision != found.Verdicts[i].Decision {
					r.Fatalf("before: %+v, want %+v", before.Verdicts[i], found.Verdicts[i])
				}
			}
			var responses [1]headgate.Response
			if err := b.limiter.Check(t.Context(), []headgate.Request{req}, responses[:]); err != nil {
				r.Fatal(err)
			}
			real := &responses[0]
			left := b.check(peek)
			if after.Allowed != real.Allowed || len(after.Verdicts) != len(real.Verdicts) {
				r.Fatalf("%v: dry run %+v, was %+v", d, after, real)
			}
			for i := range real.Verdicts {
				want, leaves := real.Verdicts[i].Decision, left.Verdicts[i].Decision
				want.Remaining, want.ResetAfter = leaves.Remaining, leaves.ResetAfter
				if got := after.Verdicts[i].Decision; got != want || after.Verdicts[i].Hits != real.Verdicts[i].Hits {
					r.Fatalf("%v, limit %d of %v:\ndry run %+v\nwas      %+v\nleft     %+v", d, i, real.Verdicts[i].Limit.Spec, after.Verdicts[i].Decision, real.Verdicts[i].Decision, leaves)
				}
			}
		}
	})
}

// A dry run charges nothing, however often.
func TestDryRunChargesNothing(t *testing.T) {
	seen := &recording{}
	b := newBench(t, `
domain: d
descriptors:
- key: user
  rate_limit: {unit: minute, requests_per_unit: 2}
  concurrency: {limit: 1}
  ban: {after: 1, within: 1m, for: 1h}
`, headgate.Options{Store: seen})
	b.check(on("user:a"))
	b.check(on("user:a"))
	b.check(on("user:a"))
	want := b.remaining("user:a")
	for i := range 1000 {
		d := on("user:a")
		d.Hits = int64(i % 5)
		b.dryRun(d)
		for j := range seen.takes {
			if take := &seen.takes[j]; !take.DryRun {
				t.Fatalf("the store is asked %+v", take)
			}
		}
	}
	if got := b.remaining("user:a"); got != want {
		t.Errorf("%d remaining, want %d", got, want)
	}
}

// What a tenant has beyond its quota is in a dry run too, and not used.
func TestDryRunTopUps(t *testing.T) {
	b := newBench(t, toppedRules, headgate.Options{})
	b.limiter.SetTenants(beyond(t, toppedUp("k", topUp("a", "", 2))))
	for range 3 {
		b.check(on("api_key:k"))
	}
	for range 5 {
		before, after := b.dryRun(on("api_key:k"))
		if got := answered(&after); got != "passes, top_up 1/2, tier 1/5" {
			t.Fatalf("dry run: %s", got)
		}
		if got := answered(&before); got != "passes, tier 0/3, tier 2/5" {
			t.Fatalf("before: %s", got)
		}
	}
	if got := answered(b.check(on("api_key:k"))); got != "passes, top_up 1/2, tier 1/5" {
		t.Errorf("really: %s", got)
	}
}

// Switches are obeyed, and a store that fails is answered for by the failure mode.
func TestDryRunHeedsSwitchesAndFailures(t *testing.T) {
	seen := &recording{}
	b := newBench(t, `
domain: d
descriptors:
- {key: user, name: user, rate_limit: {unit: minute, requests_per_unit: 1}}
- {key: strict, failure_mode: closed, rate_limit: {unit: minute, requests_per_unit: 1}}
`, headgate.Options{Store: seen})
	d := on("user:a")
	d.Hits = 2
	if _, after := b.dryRun(d); after.Allowed || !after.Verdicts[0].Decision.Never {
		t.Errorf("%+v", after)
	}
	off, err := switches.NewSet([]switches.Switch{{Target: switches.Target{Rule: "user"}, State: switches.Off}})
	if err != nil {
		t.Fatal(err)
	}
	b.limiter.SetSwitches(off)
	if _, after := b.dryRun(d); !after.Allowed || len(after.Verdicts) != 0 {
		t.Errorf("switched off: %+v", after)
	}
	seen.fails = func(*store.Take) bool { return true }
	if before, after := b.dryRun(on("strict:a")); after.Allowed || after.Degraded() == store.NoReason || before.Degraded() == store.NoReason {
		t.Errorf("before %+v, after %+v", before, after)
	}
}

func TestDryRunRefuses(t *testing.T) {
	b := newBench(t, "", headgate.Options{})
	req := headgate.Request{Descriptors: []headgate.Descriptor{on("user:a")}}
	if err := b.limiter.DryRun(t.Context(), &req, new(headgate.Response), new(headgate.Response)); !errors.Is(err, headgate.ErrNoDomain) {
		t.Errorf("%v, want %v", err, headgate.ErrNoDomain)
	}
}
