package accuracy_test

import (
	"context"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/accuracy"
	"github.com/headgate/headgate/store/memstore"
)

// noon is a whole minute, hour and half day.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// bench is a limiter over a layer that measures, at a time that tests set.
type bench struct {
	t       testing.TB
	now     time.Time
	layer   *accuracy.Store // nil: a share of 0
	limiter *headgate.Limiter
}

// newBench returns a bench that samples a share of keys, over o.Store or else over memory.
func newBench(t testing.TB, yaml string, share float64, o headgate.Options) *bench {
	t.Helper()
	b := &bench{t: t, now: noon}
	if o.Store == nil {
		o.Store = memoryAt(t, func() time.Time { return b.now })
	}
	o.Now = func() time.Time { return b.now }
	if share > 0 {
		layer, err := accuracy.New(o.Store, accuracy.Options{Sample: share, Now: o.Now})
		if err != nil {
			t.Fatal(err)
		}
		b.layer, o.Store = layer, layer
	}
	o.Rules = load(t, yaml)
	limiter, err := headgate.New(o)
	if err != nil {
		t.Fatal(err)
	}
	b.limiter = limiter
	return b
}

func memoryAt(t testing.TB, now func() time.Time) *memstore.Store {
	t.Helper()
	buckets, err := memstore.New(memstore.Options{Now: func() limit.Micros { return limit.MicrosOf(now()) }})
	if err != nil {
		t.Fatal(err)
	}
	return buckets
}

// memory is a store at noon.
func memory(t testing.TB) *memstore.Store { return memoryAt(t, func() time.Time { return noon }) }

func load(t testing.TB, yaml string) *rules.Set {
	t.Helper()
	return testrules.Load(t, yaml)
}

// on makes a descriptor of one hit from its text form.
func on(text string) headgate.Descriptor {
	entries, err := descriptor.Parse(text)
	if err != nil {
		panic(err)
	}
	return headgate.Descriptor{Entries: entries, Hits: 1}
}

func (b *bench) check(descriptors ...headgate.Descriptor) *headgate.Response {
	b.t.Helper()
	responses := make([]headgate.Response, 1)
	if err := b.limiter.Check(context.Background(), []headgate.Request{{Domain: "d", Descriptors: descriptors}}, responses); err != nil {
		b.t.Fatal(err)
	}
	return &responses[0]
}

// counts is what was measured of a rule.
func (b *bench) counts(rule string) accuracy.Counts { return b.layer.Report(rule).Counts }

// isReference reports whether t is on the reference of a bucket.
func isReference(t *store.Take) bool {
	return descriptor.Kind(t.Key[1])&descriptor.KindReference != 0
}

// recording keeps what is asked of a store, which fails for some takes.
type recording struct {
	store.Store
	batches [][]store.Take
	fails   func(t *store.Take) bool
}

var errDown = &store.Error{Op: "take", Store: "test", Reason: store.Unavailable}

func (r *recording) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	r.batches = append(r.batches, append([]store.Take(nil), takes...))
	r.Store.Take(ctx, takes, results)
	for i := range takes {
		if r.fails != nil && r.fails(&takes[i]) {
			results[i] = store.Result{Err: errDown}
		}
	}
}
