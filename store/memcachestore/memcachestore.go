package memcachestore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/breaker"
)

// Store keeps buckets in one memcached or several. It is safe for concurrent
// use. Make one with New.
type Store struct {
	options    Options
	servers    []*server
	inFlight   atomic.Int64
	closed     atomic.Bool
	conflicts  atomic.Uint64
	unreturned atomic.Uint64

	// clock, in tests only, is the time that takes are decided at.
	clock func() limit.Micros
}

var _ store.Store = (*Store)(nil)

// New returns a store for the servers that o names. It connects when the first
// take needs it; Ping says whether it can. Errors are about o and never contain
// the password.
func New(o Options) (*Store, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Store{options: o, clock: o.Now}
	for _, addr := range o.Servers {
		server := newServer(&s.options, addr)
		server.lines.init()
		s.servers = append(s.servers, server)
	}
	return s, nil
}

// Close ends the connections. Calls still under way end with an error.
func (s *Store) Close() error {
	s.closed.Store(true)
	for _, server := range s.servers {
		server.pool.close()
	}
	return nil
}

// Ping asks all servers for their version, at one time, and returns why one did
// not tell it, a *store.Error. It lasts no longer than the budget.
func (s *Store) Ping(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, s.options.Budget)
	defer cancel()
	faults := make([]error, len(s.servers))
	var group sync.WaitGroup
	for i, server := range s.servers {
		group.Go(func() {
			if _, err := server.version(bounded, ctx); err != nil {
				faults[i] = fault("ping", server.addr, err)
			}
		})
	}
	group.Wait()
	return errors.Join(faults...)
}

// version asks for the version of a server.
func (s *server) version(ctx, caller context.Context) (version string, err error) {
	err = s.do(exchange{
		ctx: ctx, caller: caller, again: true,
		write: func(b []byte) []byte { return append(b, askVersion...) },
		read: func(r *bufio.Reader) (err error) {
			version, err = readVersion(r)
			return err
		},
	})
	return version, err
}

// Take implements store.Store. Takes that stand alone are decided together, one
// exchange with each server for all of them; a group is decided after those
// before it and before those after it. Dry runs are decided on what one exchange
// reads.
func (s *Store) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	if len(takes) == 0 {
		return
	}
	defer s.inFlight.Add(-1)
	if s.inFlight.Add(1) > int64(s.options.MaxInFlight) || s.closed.Load() {
		err := errTooMany
		if s.closed.Load() {
			err = errClosed
		}
		failed := fault("take", s.servers[0].addr, err)
		failed.Store = s.options.String()
		for i := range results {
			results[i] = store.Result{Err: failed}
		}
		return
	}
	store.Waits(ctx)
	bounded, cancel := store.WithBudget(ctx, time.Now(), s.options.Budget)
	defer cancel()
	now := s.clock()
	for from := 0; from < len(takes); {
		to := segmentEnd(takes, from)
		if takes[from].DryRun {
			to = store.RunEnd(takes, from)
		}
		w := s.newWork(takes[from:to], results[from:to], now)
		w.caller, w.last = ctx, to == len(takes)
		switch {
		case takes[from].DryRun:
			w.dryRun(bounded)
		case takes[from].Group == 0:
			w.decideEach(bounded)
		default:
			w.decideGroup(bounded)
		}
		from = to
	}
}

// segmentEnd returns the end of what is decided together: a group, or takes
// that stand alone.
func segmentEnd(takes []store.Take, from int) int {
	to := from + 1
	for to < len(takes) && takes[to].Group == takes[from].Group && takes[to].DryRun == takes[from].DryRun {
		to++
	}
	return to
}

// serverOf returns the server of a bucket: the one with which it weighs most.
func (s *Store) serverOf(bucket uint64) *server {
	best := s.servers[0]
	for _, server := range s.servers[1:] {
		if weigh(bucket, server.place) > weigh(bucket, best.place) {
			best = server
		}
	}
	return best
}

// Stats is what a Store has done since New, and how its servers are.
type Stats struct {
	// InFlight is the number of calls of Take under way.
	InFlight int64
	// Conflicts counts how often a bucket was changed by somebody else between
	// the reading and the writing.
	Conflicts uint64
	// Unreturned counts the takes of denied groups that stayed charged because
	// they could not be given back in time.
	Unreturned uint64
	// Servers has the servers in the order of Options.Servers.
	Servers []ServerStats
}

// ServerStats is how one server is.
type ServerStats struct {
	// Addr is HOST:PORT or the path of a socket.
	Addr string
	// Breaker is the state of its breaker.
	Breaker breaker.Stats
	// Fault is its last failure, a *store.Error; nil if there was none.
	Fault error
	// Open and Idle count its connections, and those that serve no call.
	Open, Idle int
	// Dials counts the attempts to connect, NotTaken those connections that the server
	// refused because it takes no more.
	Dials, NotTaken uint64
	// Calls counts the exchanges with the server, Failures those that failed,
	// and Refused those that the breaker did not let through.
	Calls, Failures, Refused uint64
	// Took counts how long the exchanges took, without the wait for a connection.
	Took store.DurationCounts
}

// Stats returns a snapshot.
func (s *Store) Stats() Stats {
	stats := Stats{InFlight: s.inFlight.Load(), Conflicts: s.conflicts.Load(), Unreturned: s.unreturned.Load()}
	now := time.Now()
	for _, server := range s.servers {
		one := ServerStats{
			Addr: server.addr, Breaker: server.breaker.Stats(now), Dials: server.pool.dialed.Load(), NotTaken: server.pool.refused.Load(),
			Calls: server.calls.Load(), Failures: server.failed.Load(), Refused: server.refused.Load(),
			Took: server.took.Counts(),
		}
		one.Open, one.Idle = server.pool.counts()
		if last := server.failure.Load(); last != nil {
			one.Fault = fault("take", server.addr, *last)
		}
		stats.Servers = append(stats.Servers, one)
	}
	return stats
}

// String returns the addresses without credentials.
func (s *Store) String() string { return fmt.Sprint(s.options) }
