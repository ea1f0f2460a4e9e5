package memcachestore

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patient is a budget that busy machines keep: most tests are not about time.
const patient = 30 * time.Second

// noon is when most tests take place: 1 June 2026, 12:00 UTC.
const noon = limit.Micros(1_780_315_200_000_000)

// open returns a store for o that is closed when the test ends.
func open(t testing.TB, o Options) *Store {
	t.Helper()
	if o.Budget == 0 {
		o.Budget = patient
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// openMemcached starts so many memcacheds and returns a store over them.
func openMemcached(t testing.TB, servers int) (*Store, []*testserver.MemcachedServer) {
	t.Helper()
	var o Options
	var started []*testserver.MemcachedServer
	for range servers {
		server := testserver.Memcached(t, testserver.MemcachedConfig{})
		started = append(started, server)
		o.Servers = append(o.Servers, server.Addr)
	}
	return open(t, o), started
}

// setClock makes s decide at the instant that the returned function sets.
func setClock(s *Store) func(limit.Micros) {
	var now atomic.Int64
	now.Store(int64(noon))
	s.clock = func() limit.Micros { return limit.Micros(now.Load()) }
	return func(m limit.Micros) { now.Store(int64(m)) }
}

func takeAll(s *Store, takes ...store.Take) []store.Result {
	results := make([]store.Result, len(takes))
	s.Take(context.Background(), takes, results)
	return results
}

func takeOne(s *Store, key string, l *limit.Limit, hits int64) store.Result {
	return takeAll(s, hit(key, l, hits))[0]
}

func hit(key string, l *limit.Limit, hits int64) store.Take {
	return store.Take{Key: []byte(key), Limit: l, Hits: hits}
}
