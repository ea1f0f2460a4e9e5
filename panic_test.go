package headgate_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
)

const panicRules = `
domain: d
descriptors:
- {key: good, rate_limit: {unit: minute, requests_per_unit: 5}}
- {key: bad, valid_from: 2020-01-01T00:00:00Z, rate_limit: {unit: minute, requests_per_unit: 5}}
`

// poisoned is a store that panics for a batch with a take of a certain key in it.
type poisoned struct{ store.Store }

func (p poisoned) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	for i := range takes {
		if bytes.Contains(takes[i].Key, []byte("bad")) {
			panic("a bug")
		}
	}
	p.Store.Take(ctx, takes, results)
}

// TestPanicSpoilsNoOtherRequest: of requests that are decided together, only the one at fault
// for a panic is answered in place of a decision; the others are charged once.
func TestPanicSpoilsNoOtherRequest(t *testing.T) {
	memory, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { memory.Close() })
	for name, o := range map[string]headgate.Options{
		"while matching": {Store: memory, Now: func() time.Time { panic("a bug") }},
		"in the store":   {Store: poisoned{memory}},
	} {
		o.Rules = load(t, panicRules)
		l, err := headgate.New(o)
		if err != nil {
			t.Fatal(err)
		}
		var requests []headgate.Request
		for _, text := range []string{"good:" + name, "bad:x", "good:other " + name} {
			requests = append(requests, headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{on(text)}})
		}
		responses := make([]headgate.Response, len(requests))
		if err := l.Check(t.Context(), requests, responses); err != nil {
			t.Fatal(err)
		}
		for i, want := range []store.Reason{store.NoReason, store.Internal, store.NoReason} {
			r := &responses[i]
			if r.Degraded() != want || !r.Allowed || want == store.NoReason && r.Speaker().Decision.Remaining != 4 {
				t.Errorf("%s: request %d: degraded %q, %+v", name, i, r.Degraded(), r.Verdicts)
			}
		}
	}
}
