package overload

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Usage is how much of the whole fleet is in use, in any unit that grows with
// load: requests in flight, requests per second, busy cores. The zero value is
// unknown.
type Usage struct {
	// Used by all priorities, shed requests left out.
	Used float64
	// Capacity at which the fleet is full; 0 is unknown.
	Capacity float64
}

// known reports whether u can be used: a capacity above zero and a use of zero
// or more.
func (u Usage) known() bool {
	return u.Capacity > 0 && u.Used >= 0 && !math.IsInf(u.Capacity, 1) && !math.IsInf(u.Used, 1)
}

// share of the capacity in use; it may be above 1.
func (u Usage) share() float64 { return u.Used / u.Capacity }

// FleetOptions configures a Fleet. The zero value of each field but Usage is its
// default.
type FleetOptions struct {
	// Usage tells the usage of the fleet, at most once per Interval. It is
	// called on the path of a request and must not wait: one that asks a store
	// does so elsewhere and answers from memory, and with the zero Usage once
	// its figure is too old. It is required.
	Usage func() Usage
	// ShedAt is the share of the capacity in use above which a priority is
	// shed; default 0.9 for P1, 0.8 for P2 and 0.7 for P3. That of P0 is not
	// looked at. It falls, or stays, with the priority.
	ShedAt [Priorities]float64
	// Reserve is the share of the capacity that is kept for P0: all others
	// together get no more than the rest. Default 0.2; negative is none. It is
	// not kept where no P0 has come for 60 Intervals.
	Reserve float64
	// Interval is the time between two adaptions, at least that between two
	// figures of Usage; default 1 s.
	Interval time.Duration
	// ShedStep is the most that may be shed more within an interval, as a part
	// of the requests of one priority, RestoreStep the most that may be shed
	// less; default 0.5 both.
	ShedStep, RestoreStep float64
	// RetryAfter is the least that a client is told that was shed; default
	// 500 ms, at most a minute. It is jittered upward, to three times as much.
	RetryAfter time.Duration
}

// Validate says which field cannot be.
func (o FleetOptions) Validate() error {
	o = o.withDefaults()
	if o.Usage == nil {
		return fmt.Errorf("overload: fleet: Usage is missing; it tells how much of the fleet is in use")
	}
	above := math.Inf(1)
	for p := P1; p <= P3; p++ {
		if !(o.ShedAt[p] > 0) || o.ShedAt[p] > above {
			return fmt.Errorf("overload: fleet: ShedAt of %v is %v; it is above 0 and no higher than that of the priority before", p, o.ShedAt[p])
		}
		above = o.ShedAt[p]
	}
	switch {
	case !(o.Reserve < 1):
		return fmt.Errorf("overload: fleet: Reserve is %v; it is below 1, or nothing is left for others than P0", o.Reserve)
	case o.Interval < time.Millisecond:
		return fmt.Errorf("overload: fleet: Interval is %v; it is at least 1 ms", o.Interval)
	case !(o.ShedStep > 0) || !(o.RestoreStep > 0):
		return fmt.Errorf("overload: fleet: ShedStep is %v and RestoreStep %v; both are above 0", o.ShedStep, o.RestoreStep)
	}
	return validRetryAfter(o.RetryAfter)
}

func (o FleetOptions) withDefaults() FleetOptions {
	setDefault(&o.ShedAt[P1], 0.9)
	setDefault(&o.ShedAt[P2], min(0.8, o.ShedAt[P1]))
	setDefault(&o.ShedAt[P3], min(0.7, o.ShedAt[P2]))
	setDefault(&o.Reserve, 0.2)
	o.Reserve = max(o.Reserve, 0)
	setDefault(&o.Interval, time.Second)
	setDefault(&o.ShedStep, 0.5)
	setDefault(&o.RestoreStep, 0.5)
	setDefault(&o.RetryAfter, 500*time.Millisecond)
	return o
}

// Fleet is the fleet shedder: it keeps a share of the fleet's capacity for
// critical traffic. It is safe for concurrent use, starts no goroutine and reads
// no clock. Make one with NewFleet.
type Fleet struct {
	options FleetOptions
	// origin is the instant from which time is counted.
	origin time.Time
	// draw from [0, 1), for what is shed and for jitter.
	draw func() float64
	// level in force, as the bits of a float64.
	level atomic.Uint64
	// due is when the interval ends, since origin.
	due      atomic.Int64
	admitted [Priorities]atomic.Int64
	shed     [Priorities]atomic.Int64

	mu struct {
		sync.Mutex
		state fleetLevel
		usage Usage
		// last is when the last interval ended, since origin.
		last time.Duration
		// arrived as counted then.
		arrived [Priorities]int64
	}
}

// NewFleet returns a Fleet that sheds nothing yet, or says which option cannot
// be.
func NewFleet(o FleetOptions, now time.Time) (*Fleet, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	f := &Fleet{options: o.withDefaults(), origin: now, draw: rand.Float64}
	f.due.Store(int64(f.options.Interval))
	return f, nil
}

// Admit decides for a request of priority p. P0 is always admitted.
func (f *Fleet) Admit(p Priority, now time.Time) Decision {
	p = min(p, P3)
	f.fold(now.Sub(f.origin))
	level := math.Float64frombits(f.level.Load())
	d := f.decide(level, p)
	if d.Admitted() {
		f.admitted[p].Add(1)
	} else {
		f.shed[p].Add(1)
	}
	return d
}

func (f *Fleet) decide(level float64, p Priority) Decision {
	if level == 0 || p == P0 {
		return Decision{Priority: p}
	}
	share := admittedShares(level)[p]
	if admitsDraw(share, f.draw()) {
		return Decision{Priority: p}
	}
	return Decision{Reason: FleetShare, Priority: p, RetryAfter: jittered(f.options.RetryAfter, f.draw())}
}

// admitsDraw reports whether a draw from [0, 1) falls into the share that is
// admitted.
func admitsDraw(share, draw float64) bool { return draw < share }

// fold ends the interval when its time has come, in the first caller that sees
// it. A clock that has stepped back begins a new one.
func (f *Fleet) fold(at time.Duration) {
	due := time.Duration(f.due.Load())
	steppedBack := at < due-2*f.options.Interval
	if at < due && !steppedBack || !f.mu.TryLock() {
		return
	}
	defer f.mu.Unlock()
	if at < time.Duration(f.due.Load()) && !steppedBack {
		return
	}
	elapsed := max(at-f.mu.last, 0)
	f.mu.last = at
	f.due.Store(int64(at + f.options.Interval))
	f.mu.usage = f.options.Usage()
	m := fleetSample{usage: f.mu.usage, intervals: float64(elapsed) / float64(f.options.Interval)}
	for p := range Priorities {
		arrived := f.admitted[p].Load() + f.shed[p].Load()
		m.arrived[p] = float64(arrived-f.mu.arrived[p]) / max(m.intervals, 1)
		f.mu.arrived[p] = arrived
	}
	f.mu.state = f.mu.state.next(f.options, m)
	level := f.mu.state.level
	if !f.mu.usage.known() {
		level = 0
	}
	f.level.Store(math.Float64bits(level))
}

// FleetStats is a snapshot of a Fleet.
type FleetStats struct {
	// Usage as told last; the zero value while it is unknown.
	Usage Usage
	// Share of each priority that is admitted now, 0 to 1.
	Share [Priorities]float64
	// Admitted and Shed count requests since the start, by priority. What is
	// admitted here may be shed by a worker shedder yet: see Gate.TotalAdmitted.
	Admitted, Shed [Priorities]int64
}

// Stats returns a snapshot.
func (f *Fleet) Stats() FleetStats {
	stats := FleetStats{Share: admittedShares(math.Float64frombits(f.level.Load()))}
	f.mu.Lock()
	stats.Usage = f.mu.usage
	f.mu.Unlock()
	if !stats.Usage.known() {
		stats.Usage = Usage{}
	}
	for p := range Priorities {
		stats.Admitted[p] = f.admitted[p].Load()
		stats.Shed[p] = f.shed[p].Load()
	}
	return stats
}
