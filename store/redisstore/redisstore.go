package redisstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore/conn"
)

// Store keeps buckets in one Redis, in the primary that sentinels name, or in a
// cluster. It is safe for concurrent use. Make one with New.
type Store struct {
	caller
	memory *memory // nil if nothing is remembered
	late   *conn.Lateness
	packs  atomic.Bool // all nodes read packed counters; see Attend
	luck   luck
}

var _ store.Store = (*Store)(nil)

// Options says which Redis to use and how. Its fields are those of conn.Options, in package
// store/redisstore/conn: one of Addr, Sentinel and Cluster is required, and what is left out has a
// default. Budget, which bounds each Take, has 20 ms.
type Options = conn.Options

// Sentinel names the sentinels that know which server is the primary.
type Sentinel = conn.Sentinel

// Inspection is what one server tells of itself.
type Inspection = conn.Inspection

// ParseURL reads the address of a Redis, of sentinels or of a cluster; see
// conn.ParseURL.
func ParseURL(raw string) (Options, error) { return conn.ParseURL(raw) }

// New returns a store for the Redis that o names. It waits until it is connected, for up
// to the dial timeout, or where none is set for a second, or the budget if that is longer;
// but an unreachable Redis is no error: the store keeps trying, and Ping says what is wrong. Errors are about o and never contain a
// password.
func New(o Options) (*Store, error) {
	o, err := o.WithDefaults()
	if err != nil {
		return nil, err
	}
	takeScript.whole() // not in the first decision
	s := &Store{caller: caller{options: o, prefixes: prefixes(&o)}, late: conn.NewLateness(o.Budget)}
	if o.Remembered > 0 {
		s.memory = newMemory(o.Remembered)
	}
	if o.Topology() == conn.InCluster {
		s.router = openRouter(&s.options, s.openShard)
		return s, nil
	}
	s.only = s.openShard(&s.options, nil)
	s.only.AwaitFirst(context.Background())
	return s, nil
}

// openShard starts to connect to the server that o names; lost is told whenever there
// is no connection.
func (s *Store) openShard(o *Options, lost func()) *shard {
	sh := &shard{Server: conn.OpenServer(o, s.late, lost)}
	if !s.options.NoCoalescing {
		sh.takes, sh.swaps = s.newTakeJoiner(sh), s.newSwapJoiner(sh)
	}
	return sh
}

// Close waits for the calls under way, no longer than the budget, and ends the
// connections and the background work.
func (s *Store) Close() error {
	defer s.late.Close()
	if s.router != nil {
		s.router.close()
		return nil
	}
	s.only.Close(conn.ErrClosed)
	return nil
}

// Stats is what the store knows of its servers.
type Stats struct {
	// Shards has the one server, or the primaries of a cluster in the order of
	// their addresses.
	Shards []ShardStats
}

// Stats returns a snapshot.
func (s *Store) Stats() Stats {
	now, stats := time.Now(), Stats{}
	for _, sh := range s.shards() {
		stats.Shards = append(stats.Shards, sh.snapshot(now))
	}
	return stats
}

// Ping asks Redis for a sign of life, in a cluster each primary, and returns why
// there is none, a *store.Error. It lasts no longer than the budget.
func (s *Store) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.options.Budget)
	defer cancel()
	if s.router != nil {
		if fault := s.router.gap(); fault != nil {
			return fault
		}
	}
	for _, sh := range s.shards() {
		if err := sh.Ping(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Inspect asks each server, in a cluster each primary, how it is and what time it has, by
// one round trip. It lasts no longer than the budget. A server that does not answer has
// Err in its Inspection; the error of Inspect joins those.
func (s *Store) Inspect(ctx context.Context) ([]Inspection, error) {
	ctx, cancel := context.WithTimeout(ctx, s.options.Budget)
	defer cancel()
	shards := s.shards()
	inspections := make([]Inspection, len(shards))
	var asking sync.WaitGroup
	for i, sh := range shards {
		asking.Go(func() { inspections[i] = sh.Inspect(ctx) })
	}
	asking.Wait()
	var errs []error
	for i := range inspections {
		errs = append(errs, inspections[i].Err)
	}
	return inspections, errors.Join(errs...)
}
