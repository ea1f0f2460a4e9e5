package accuracy_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/accuracy"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/store/storetest"
)

// allMain makes all takes those on main limits, with keys that are long enough to have a
// reference.
type allMain struct{ store.Store }

var mainMode = &store.Mode{Rule: "rule", Main: true}

func (m allMain) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	asked := make([]store.Take, len(takes))
	for i, t := range takes {
		t.Key = append([]byte{0, 0}, t.Key...)
		if t.Mode == nil {
			t.Mode = mainMode
		}
		asked[i] = t
	}
	m.Store.Take(ctx, asked, results)
}

// A store that is measured answers as any store does.
func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		var now atomic.Int64
		buckets, err := memstore.New(memstore.Options{Now: func() limit.Micros { return limit.Micros(now.Load()) }})
		if err != nil {
			t.Fatal(err)
		}
		layer, err := accuracy.New(buckets, accuracy.Options{Sample: 1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { layer.Close() })
		return storetest.Harness{Store: allMain{layer}, SetNow: func(m limit.Micros) { now.Store(int64(m)) }}
	})
}
