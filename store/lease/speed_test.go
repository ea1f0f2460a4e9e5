package lease_test

import (
	"fmt"
	"testing"

	"github.com/headgate/headgate/internal/alloctest"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/hotkey"
	"github.com/headgate/headgate/store/lease"
	"github.com/headgate/headgate/store/memstore"
)

func TestHotPathAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector empties pools at random")
	}
	shared, err := memstore.New(memstore.Options{MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	s := lease.New(lease.Options{Store: shared})
	defer s.Close()
	ctx := t.Context()
	for _, mode := range []*store.Mode{nil, leasedMode, syncedMode} {
		takes := []store.Take{{Key: fmt.Appendf(nil, "%v", mode), Limit: limit.Must(limit.PerHour(1 << 40)), Hits: 1, Mode: mode}}
		results := make([]store.Result, 1)
		for range 100_000 {
			s.Take(ctx, takes, results)
		}
		if n := alloctest.PerRun(1000, func() { s.Take(ctx, takes, results) }); n >= 1 {
			t.Errorf("mode %v: %v allocations", mode, n)
		}
	}
}

func BenchmarkTake(b *testing.B) {
	shared, err := memstore.New(memstore.Options{MaxBytes: 1 << 20})
	if err != nil {
		b.Fatal(err)
	}
	s := lease.New(lease.Options{Store: shared, Hot: hotkey.New(hotkey.Options{})})
	defer s.Close()
	l := limit.Must(limit.PerHour(1 << 40))
	for _, c := range []struct {
		name string
		s    store.Store
		mode *store.Mode
	}{{"memstore", shared, nil}, {"exact", s, nil}, {"auto", s, autoMode}, {"leased", s, leasedMode}, {"synced", s, syncedMode}} {
		b.Run(c.name, func(b *testing.B) {
			takes := []store.Take{{Key: []byte("key of " + c.name), Limit: l, Hits: 1, Mode: c.mode}}
			results := make([]store.Result, 1)
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				c.s.Take(ctx, takes, results)
			}
		})
	}
}
