package memcachestore

import (
	"context"
	"testing"
	"time"

	"github.com/headgate/headgate/store"
)

// Exchanges are timed, one by one; what found no connection was none.
func TestExchangesAreTimed(t *testing.T) {
	s, servers := openMemcached(t, 1)
	timed := func() (n uint64) {
		took := s.Stats().Servers[0].Took
		for _, bucket := range took.Buckets {
			n += bucket
		}
		if n > 0 && took.Total <= 0 {
			t.Errorf("%d exchanges in %v", n, took.Total)
		}
		return n
	}
	for range 5 {
		if r := takeOne(s, "a", yearly, 1); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	before := timed()
	if calls := s.Stats().Servers[0].Calls; before != calls || before < 5 {
		t.Errorf("%d of %d exchanges are timed", before, calls)
	}
	servers[0].Kill()
	s.servers[0].pool.dropIdle()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	results := []store.Result{{}}
	s.Take(ctx, []store.Take{{Key: []byte("a"), Limit: yearly, Hits: 1}}, results)
	if results[0].Err == nil || timed() != before {
		t.Errorf("%+v; %d exchanges are timed, want %d", results[0], timed(), before)
	}
}
