package accuracy_test

import (
	"slices"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/accuracy"
)

// Takes on references stand behind all others, alone, and change nothing else of what
// the store is asked; nor do the answers change, whatever becomes of them.
func TestReferencesDisturbNothing(t *testing.T) {
	const yaml = `
domain: d
descriptors:
- {always: true, name: all, rate_limit: {unit: minute, requests_per_unit: 100}}
- {key: user, name: user, hot_keys: lease, rate_limit: {unit: minute, requests_per_unit: 3}}
- {key: leased, consistency: leased, rate_limit: {unit: minute, requests_per_unit: 100}}
- {key: slots, rate_limit: {unit: minute, requests_per_unit: 100}, concurrency: {limit: 5}}
- {key: free, unlimited: true}
- {key: strict, failure_mode: closed, rate_limit: {unit: hour, requests_per_unit: 4}}
`
	plain, sampled := &recording{Store: memory(t)}, &recording{Store: memory(t)}
	for name, fails := range map[string]func(*store.Take) bool{"": nil, "the store fails for references": isReference} {
		t.Run(name, func(t *testing.T) {
			plain.Store, sampled.Store, sampled.fails = memory(t), memory(t), fails
			without := newBench(t, yaml, 0, headgate.Options{Store: plain})
			with := newBench(t, yaml, 1, headgate.Options{Store: sampled})
			for i := range 8 {
				descriptors := []headgate.Descriptor{on("user:a"), on("leased:b"), on("free:c"), on("slots:s"), on("strict:d"), on("nobody:e")}
				if i == 6 {
					descriptors[0].Op, descriptors[1].Hits = store.Refund, 0
				}
				want, got := without.check(descriptors...), with.check(descriptors...)
				if len(got.Verdicts) != len(want.Verdicts) || got.Allowed != want.Allowed || got.Degraded() != store.NoReason {
					t.Fatalf("request %d:\n got %+v\nwant %+v", i, got, want)
				}
				for j := range want.Verdicts {
					if g, w := &got.Verdicts[j], &want.Verdicts[j]; g.Decision != w.Decision || g.Effect != w.Effect || g.Hits != w.Hits || g.Role != w.Role {
						t.Errorf("request %d: verdict %d is %+v, want %+v", i, j, g, w)
					}
				}
			}
			missed := with.counts("user").Missed
			if (missed > 0) != (fails != nil) {
				t.Errorf("%d missed", missed)
			}
		})
	}
}

// The batch of a request is that of one without references, and these behind it: of hits
// that decide together they are peeked at, and what passed is charged in a second call.
// What else is done together is done to them there.
func TestReferencesAreBehindTheBatch(t *testing.T) {
	const yaml = `
domain: d
descriptors:
- {key: user, name: user, rate_limit: {unit: minute, requests_per_unit: 3}}
- {key: other, name: other, consistency: synced, rate_limit: {unit: minute, requests_per_unit: 3000}}
- {key: slots, concurrency: {limit: 5}}
`
	plain, sampled := &recording{Store: memory(t)}, &recording{Store: memory(t)}
	without, with := newBench(t, yaml, 0, headgate.Options{Store: plain}), newBench(t, yaml, 1, headgate.Options{Store: sampled})
	for op, then := range map[store.Op]store.Op{store.Hit: store.Charge, store.Refund: store.Refund, store.Charge: store.Charge, store.Reset: store.Reset} {
		d := []headgate.Descriptor{on("user:a"), on("other:b"), on("slots:c")}
		d[0].Op, d[1].Op, d[2].Op = op, op, op
		plain.batches, sampled.batches = nil, nil
		without.check(d...)
		with.check(d...)
		if len(plain.batches) != 1 || len(sampled.batches) != 2 {
			t.Fatalf("op %d: %d calls, %d with references", op, len(plain.batches), len(sampled.batches))
		}
		asked, behind := plain.batches[0], sampled.batches[0]
		for i := range asked {
			g, w := behind[i], asked[i]
			if string(g.Key) != string(w.Key) || g.Group != w.Group || g.Shadow != w.Shadow || g.Hits != w.Hits || g.Op != w.Op || *g.Mode != *w.Mode {
				t.Errorf("op %d: take %d is %+v, want %+v", op, i, g, w)
			}
		}
		references(t, behind[len(asked):], op == store.Hit, op, 0)
		references(t, sampled.batches[1], true, then, 1)
	}
	for name, d := range map[string]headgate.Descriptor{
		"a peek":         {Entries: on("user:a").Entries},
		"of the caller":  {Entries: on("user:a").Entries, Hits: 1, Limit: limit.Must(limit.PerMinute(5))},
		"renewal":        {Entries: on("slots:b").Entries, Hits: 1, Op: store.Renew},
		"release":        {Entries: on("slots:b").Entries, Op: store.Release},
		"without a rule": on("none:c"),
	} {
		sampled.batches = nil
		if with.check(d); slices.ContainsFunc(slices.Concat(sampled.batches...), func(t store.Take) bool { return isReference(&t) }) {
			t.Errorf("%s: %+v", name, sampled.batches)
		}
	}
}

// references checks that takes, if any are to be there, are on the references of both
// rules.
func references(t *testing.T, takes []store.Take, there bool, op store.Op, hits int64) {
	t.Helper()
	want := []limit.Algorithm{limit.SlidingLog, limit.SubWindows}
	if !there {
		want = nil
	}
	if len(takes) != len(want) {
		t.Fatalf("op %d: %d takes on references, want %d", op, len(takes), len(want))
	}
	for i, algorithm := range want {
		take := takes[i]
		if !isReference(&take) || take.Group != 0 || take.Op != op || take.Hits != hits || take.Limit.Algorithm != algorithm || take.Mode != nil {
			t.Errorf("op %d: reference %d is %+v", op, i, take)
		}
	}
}

// What is alone asks the same of its reference, in one call.
func TestAloneReferencesAreAskedTheSame(t *testing.T) {
	seen := &recording{Store: memory(t)}
	b := newBench(t, "domain: d\ndescriptors: [{key: user, name: user, rate_limit: {unit: minute, requests_per_unit: 3}}]", 1, headgate.Options{Store: seen})
	for _, op := range []store.Op{store.Hit, store.Refund, store.Charge, store.Reset} {
		d := on("user:a")
		d.Op, seen.batches = op, nil
		if b.check(d); len(seen.batches) != 1 || len(seen.batches[0]) != 2 {
			t.Fatalf("op %d: %+v", op, seen.batches)
		}
		own, reference := seen.batches[0][0], seen.batches[0][1]
		if !isReference(&reference) || reference.Op != own.Op || reference.Hits != own.Hits || reference.Mode != nil || !own.Mode.Main {
			t.Errorf("op %d: %+v is asked %+v", op, own, reference)
		}
	}
}

// Equal descriptors that are charged each, and requests of one batch, are seen by each
// other: none of them is held to be wrong.
func TestOneKeyOftenInABatch(t *testing.T) {
	const yaml = `
domain: d
match: leaf
descriptors:
- {key: user, name: user, rate_limit: {unit: minute, requests_per_unit: 5, algorithm: sliding_log}}
- {key: address, name: address, rate_limit: {unit: minute, requests_per_unit: 100, algorithm: sliding_log}}
`
	b := newBench(t, yaml, 1, headgate.Options{})
	both := headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{on("user:a"), on("user:a"), on("address:b")}}
	for range 2 {
		responses := make([]headgate.Response, 2)
		if err := b.limiter.Check(t.Context(), []headgate.Request{both, both}, responses); err != nil {
			t.Fatal(err)
		}
	}
	// The third request is denied by the second of its descriptors, and the fourth.
	if got := b.counts("user"); got != (accuracy.Counts{Decided: 2*2 + 2}) {
		t.Errorf("user: %+v", got)
	}
	if got := b.counts("address"); got != (accuracy.Counts{Decided: 2}) {
		t.Errorf("address: %+v", got)
	}
}

// A dry run with the number of a group beside it is no part of that: its denial holds
// nothing back, and what passed is compared.
func TestDryRunBesideAGroupOfItsNumber(t *testing.T) {
	real := store.Take{Key: []byte("00 real"), Limit: limit.Must(limit.PerMinute(5)), Hits: 1, Group: 1, Mode: mainMode}
	dry := store.Take{Key: []byte("00 dry"), Limit: limit.Must(limit.PerMinute(0)), Hits: 1, Group: 1, DryRun: true, Mode: mainMode}
	for name, takes := range map[string][]store.Take{"before": {dry, real}, "behind": {real, dry}} {
		t.Run(name, func(t *testing.T) {
			layer, err := accuracy.New(memory(t), accuracy.Options{Sample: 1})
			if err != nil {
				t.Fatal(err)
			}
			for range 6 {
				layer.Take(t.Context(), takes, make([]store.Result, len(takes)))
			}
			if got := layer.Report(mainMode.Rule).Counts; got != (accuracy.Counts{Decided: 6}) {
				t.Errorf("%+v of 5 hits that passed and one that was denied", got)
			}
		})
	}
}
