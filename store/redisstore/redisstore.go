package redisstore

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// Store keeps buckets in one Redis, in the primary that sentinels name, or in a
// cluster. It is safe for concurrent use. Make one with New.
type Store struct {
	options  Options
	prefixes []string      // see prefixes
	number   atomic.Uint32 // of the last call
	memory   *memory       // nil if nothing is remembered
	late     *lateness

	// only is the one shard there is; nil in a cluster, which has router.
	only   *shard
	finder *finder // with sentinels
	router *router

	// clock, in tests only, is the time that the script decides at instead of
	// Redis's own.
	clock func() limit.Micros
}

var _ store.Store = (*Store)(nil)

// New returns a store for the Redis that o names. It tries to connect, for up
// to the dial timeout, but an unreachable Redis is no error: the store keeps
// trying, and Ping says what is wrong. Errors are about o and never contain a
// password.
func New(o Options) (*Store, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Store{options: o, prefixes: prefixes(&o), late: newLateness(o.Budget)}
	if o.Remembered > 0 {
		s.memory = newMemory(o.Remembered)
	}
	switch o.topology() {
	case cluster:
		s.router = openRouter(&s.options, s.equip)
	case sentinel:
		s.finder = newFinder(&s.options)
		s.openOnly(&link{dial: s.finder.dial, elsewhere: s.finder.elsewhere, watch: s.finder.watch})
	default:
		s.openOnly(&link{dial: func(ctx context.Context) (*session, error) { return dial(ctx, &s.options) }})
	}
	return s, nil
}

// openOnly makes the one shard, with a link that knows how to dial, and waits for its
// first attempt to connect.
func (s *Store) openOnly(l *link) {
	s.only = &shard{options: &s.options, gate: newGate(&s.options), link: l}
	s.equip(s.only)
	l.options, l.gate = s.only.options, s.only.gate
	l.open()
	<-l.first
}

// Close waits for the calls under way, no longer than the budget, and ends the
// connections and the background work.
func (s *Store) Close() error {
	defer s.late.close()
	if s.router != nil {
		s.router.close()
		return nil
	}
	s.only.close(errClosed)
	if s.finder != nil {
		s.finder.close()
	}
	return nil
}

// shard returns the shard that has the buckets of a tag, or why there is none.
func (s *Store) shard(tag int) (*shard, *store.Error) {
	if s.router != nil {
		return s.router.shard(tag)
	}
	return s.only, nil
}

// Stats is what the store knows of its servers.
type Stats struct {
	// Shards has the one server, or the primaries of a cluster in the order of
	// their addresses.
	Shards []ShardStats
}

// Stats returns a snapshot.
func (s *Store) Stats() Stats {
	shards := []*shard{s.only}
	if s.router != nil {
		shards = s.router.all()
	}
	now, stats := time.Now(), Stats{}
	for _, sh := range shards {
		stats.Shards = append(stats.Shards, sh.snapshot(now))
	}
	return stats
}

// Ping asks Redis for a sign of life, in a cluster each primary, and returns why
// there is none, a *store.Error. It lasts no longer than the budget.
func (s *Store) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.options.Budget)
	defer cancel()
	shards := []*shard{s.only}
	if s.router != nil {
		if fault := s.router.gap(); fault != nil {
			return fault
		}
		shards = s.router.all()
	}
	for _, sh := range shards {
		if err := sh.ping(ctx); err != nil {
			return err
		}
	}
	return nil
}
