package headgate_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/store"
)

// Who asks for it is told of what passed by a share while the store was away: of hits that
// passed, and of what was charged and given back; not of what was denied, what another
// limit of a group held back, what failed open, what the store itself decided, nor of
// looks and dry runs.
func TestOnPassed(t *testing.T) {
	set := load(t, `
domain: d
match: path
descriptors:
- {key: wide, failure_mode: local, rate_limit: {window: 1h, requests_per_unit: 100, algorithm: fixed_window}, descriptors: [
    {key: narrow, failure_mode: local, rate_limit: {window: 1h, requests_per_unit: 2, algorithm: fixed_window}}]}
- {key: open, rate_limit: {window: 1h, requests_per_unit: 100, algorithm: fixed_window}}
`)
	var told []string
	shared := &recording{Store: memory(t)}
	l, err := headgate.New(headgate.Options{Store: shared, Fallback: memory(t), Rules: set, OnPassed: func(take *store.Take, err error) {
		if store.ReasonOf(err) != store.Unavailable {
			t.Errorf("told of %v", err)
		}
		told = append(told, fmt.Sprintf("%d/%d of %d", take.Op, take.Hits, take.Limit.Quota))
	}})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(op store.Op, hits int64, entries ...descriptor.Entry) {
		t.Helper()
		responses := make([]headgate.Response, 1)
		if err := l.Check(t.Context(), []headgate.Request{{Domain: "d", Descriptors: []headgate.Descriptor{{Entries: entries, Hits: hits, Op: op}}}}, responses); err != nil {
			t.Fatal(err)
		}
	}
	wide, narrow, open := descriptor.Entry{Key: "wide", Value: "w"}, descriptor.Entry{Key: "narrow", Value: "n"}, descriptor.Entry{Key: "open", Value: "o"}
	expect := func(what string, want ...string) {
		t.Helper()
		if !slices.Equal(told, want) {
			t.Errorf("%s: told %v, want %v", what, told, want)
		}
		told = nil
	}
	ask(store.Hit, 1, wide, narrow)
	expect("the store decides")
	shared.fails = always
	ask(store.Hit, 2, wide, narrow)
	expect("passed", "0/2 of 100", "0/2 of 2")
	ask(store.Hit, 1, wide, narrow)
	expect("held back")
	ask(store.Hit, 0, wide)
	expect("a look")
	ask(store.Charge, 3, wide)
	expect("charged", "3/3 of 100")
	ask(store.Refund, 1, wide)
	expect("given back", "1/1 of 100")
	ask(store.Hit, 1, open)
	expect("open")
	var before, after headgate.Response
	if err := l.DryRun(t.Context(), &headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{{Entries: []descriptor.Entry{wide}, Hits: 1}}}, &before, &after); err != nil {
		t.Fatal(err)
	}
	expect("a dry run")
}
