// Package fleetusage counts how much a fleet is used, in a store that its nodes
// share, for an overload.Fleet on each of them.
//
// Once per Options.Interval a node charges what it admitted since to one counter,
// and the same answer tells it what all have charged. What the total grew by
// since the answer before is the usage, in requests per second. So the figure is
// about one interval old in its middle, and costs the store one call per node and
// interval whatever the traffic.
//
//	usage, err := fleetusage.New(fleetusage.Options{Store: buckets, Capacity: 20_000})
//	...
//	fleet, err := overload.NewFleet(overload.FleetOptions{Usage: usage.Usage}, time.Now())
//	...
//	gate := overload.NewGate(fleet, worker)
//	go usage.Run(ctx, gate.TotalAdmitted)
//
// Each node begins at a random instant of the interval and keeps its beat, so
// that a fleet that was started at once does not ask at once, and every node
// hears from every other exactly once between two of its own reports.
//
// The counter is a fixed window of a day and not a short sliding one: a figure
// that remembers the last ten seconds goes on shedding for as long, and the fleet
// swings (docs/overload.md has figures).
//
// # When the store is away
//
// A call that fails is not repeated: what it would have charged may have been
// charged, and a fleet that reports a minute at once would be shed for it. A
// figure that is three intervals old is none any more; Usage is then unknown, and
// nothing is shed by the fleet.
package fleetusage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/overload"
	"github.com/headgate/headgate/store"
)

const (
	// DefaultInterval is the default of Options.Interval.
	DefaultInterval = time.Second
	// MaxName bounds the bytes of Options.Name.
	MaxName = 128

	minInterval, maxInterval = 10 * time.Millisecond, time.Minute
	// usableFor is how many intervals a figure can be used.
	usableFor = 3
	// keyPrefix begins the key of the counter. No descriptor has it: those begin
	// with the number of a version.
	keyPrefix = "fleet_usage:"
)

// counting is the limit of the counter, which denies nobody: 2^50 requests a day
// are more than a fleet serves.
var counting = limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: limit.MaxQuota, Period: 24 * time.Hour})

// Options configures a Counter.
type Options struct {
	// Store is what the nodes share; required. It is asked for one Charge at a
	// time on a fixed window, which every store decides.
	Store store.Store
	// Capacity of the whole fleet in requests per second; required, above 0.
	Capacity float64
	// Name of the fleet, so that several may share a store; at most MaxName
	// bytes. "" is a name, too.
	Name string
	// Interval is the time between two reports, and how long one may take;
	// default 1 s, from 10 ms to a minute. It is that of overload.FleetOptions,
	// and the same on all nodes.
	Interval time.Duration
}

func (o Options) validate() error {
	switch {
	case o.Store == nil:
		return errors.New("fleet usage: Store is missing; it is what the nodes share")
	case !(o.Capacity > 0) || math.IsInf(o.Capacity, 1):
		return fmt.Errorf("fleet usage: Capacity is %v; it is above 0, in requests per second of the whole fleet", o.Capacity)
	case len(o.Name) > MaxName:
		return fmt.Errorf("fleet usage: Name has %d bytes; at most %d, it is part of a key", len(o.Name), MaxName)
	case o.Interval < minInterval || o.Interval > maxInterval:
		return fmt.Errorf("fleet usage: Interval is %v; it is %v to %v", o.Interval, minInterval, maxInterval)
	}
	return nil
}

// Counter is what one node knows of the usage of the fleet. It is safe for
// concurrent use. Make one with New.
type Counter struct {
	options Options
	key     []byte

	mu struct {
		sync.Mutex
		stats Stats
	}
}

// New returns a Counter that knows nothing yet, or says which option cannot be.
// It counts while Run runs.
func New(o Options) (*Counter, error) {
	o.Interval = cmp.Or(o.Interval, DefaultInterval)
	if err := o.validate(); err != nil {
		return nil, err
	}
	return &Counter{options: o, key: []byte(keyPrefix + o.Name)}, nil
}

// Usage is the usage of the fleet from memory, for overload.FleetOptions; the
// zero value, which is unknown, once it is three intervals old.
func (c *Counter) Usage() overload.Usage {
	c.mu.Lock()
	used, at := c.mu.stats.PerSecond, c.mu.stats.At
	c.mu.Unlock()
	if at.IsZero() || time.Since(at) > usableFor*c.options.Interval {
		return overload.Usage{}
	}
	return overload.Usage{Used: used, Capacity: c.options.Capacity}
}

// Capacity is that of the fleet, as configured.
func (c *Counter) Capacity() float64 { return c.options.Capacity }

// Stats is what a Counter knows and has done since New.
type Stats struct {
	// PerSecond is the last figure of the fleet, in requests per second, and At
	// when it was told; the zero time is never.
	PerSecond float64
	At        time.Time
	// Reports counts those that the store answered, Failed those that it did not.
	Reports, Failed uint64
	// Err is why the last report failed; nil if it did not.
	Err error
}

// Stats returns a snapshot.
func (c *Counter) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.stats
}

// Run reports until ctx ends. admitted is what this node has admitted since its
// start; it never falls. Only one Run may run at a time.
func (c *Counter) Run(ctx context.Context, admitted func() int64) {
	phase := time.NewTimer(rand.N(c.options.Interval))
	defer phase.Stop()
	select {
	case <-ctx.Done():
		return
	case <-phase.C:
	}
	beat := time.NewTicker(c.options.Interval)
	defer beat.Stop()
	var total meter
	begun, told := time.Now(), int64(0)
	for {
		now := admitted()
		c.report(ctx, &total, begun, max(now-told, 0))
		told = now
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
		}
	}
}

// report charges hits and notes what all have charged.
func (c *Counter) report(ctx context.Context, m *meter, begun time.Time, hits int64) {
	asked, cancel := context.WithTimeout(ctx, c.options.Interval)
	defer cancel()
	takes := [1]store.Take{{Key: c.key, Limit: counting, Hits: min(hits, limit.MaxQuota), Op: store.Charge}}
	var results [1]store.Result
	c.options.Store.Take(asked, takes[:], results[:])
	if ctx.Err() != nil {
		return
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &c.mu.stats
	if s.Err = results[0].Err; s.Err != nil {
		s.Failed++
		return
	}
	s.Reports++
	total := limit.MaxQuota - results[0].Remaining
	if rate, ok := m.read(total, now.Sub(begun), usableFor*c.options.Interval); ok {
		s.PerSecond, s.At = rate, now
	}
}
