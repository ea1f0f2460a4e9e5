package overload

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Outcome says how a request ended.
type Outcome uint8

// The outcomes.
const (
	// Served: the request was worked on to its end. Its latency counts.
	Served Outcome = iota
	// Ignored: its latency says nothing of the server, as that of a request
	// that failed at once, or of a stream or a websocket.
	Ignored
	// Overloaded: it met its timeout or was told by what lies behind that it
	// is overloaded. Many of these lower the limit whatever the latencies.
	Overloaded
)

// Ticket is what a request holds that was admitted. The zero value is none.
type Ticket struct {
	// Waited is the time that the request waited before its work began, as far
	// as the front knows it; it may be set before Done. 0 is unknown.
	Waited time.Duration
	// started since the shedder's origin.
	started  time.Duration
	priority Priority
	held     bool
}

// Shedder is the worker shedder: an adaptive limit on what this process has in
// flight. It is safe for concurrent use, starts no goroutine and reads no clock.
// Make one with New.
type Shedder struct {
	options Options
	// origin is the instant from which time is counted.
	origin time.Time
	// draw from [0, 1), for jitter.
	draw func() float64

	gauge gauge
	// upTo are the thresholds in force, packed.
	upTo atomic.Uint64
	// due is when the interval ends, since origin.
	due atomic.Int64

	served     latencies
	waited     atomic.Int64
	overloaded atomic.Int64
	peak       atomic.Int64
	admitted   [Priorities]atomic.Int64
	shed       [Priorities]atomic.Int64

	mu struct {
		sync.Mutex
		worker worker
		// last is when the last interval ended, since origin.
		last time.Duration
		// admitted and shed as counted then.
		admitted, shed [Priorities]int64
	}
}

// New returns a Shedder that has seen nothing, or says which option cannot be.
func New(o Options, now time.Time) (*Shedder, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	s := &Shedder{options: o, origin: now, draw: rand.Float64}
	s.mu.worker = newWorker(o)
	s.upTo.Store(packThresholds(s.mu.worker.thresholds()))
	s.due.Store(int64(o.Interval))
	return s, nil
}

// Admit decides for a request of priority p. When it is admitted, Done must be
// called with the ticket once it has ended.
func (s *Shedder) Admit(p Priority, now time.Time) (Ticket, Decision) {
	p = min(p, P3)
	at := now.Sub(s.origin)
	s.fold(at)
	before, reason := s.gauge.enter(s.thresholds(), p)
	if reason != Admitted {
		s.shed[p].Add(1)
		s.sawPeak(before.critical + before.others)
		return Ticket{}, Decision{Reason: reason, Priority: p, RetryAfter: jittered(s.options.RetryAfter, s.draw())}
	}
	s.admitted[p].Add(1)
	s.sawPeak(before.critical + before.others + 1)
	return Ticket{started: at, priority: p, held: true}, Decision{Priority: p}
}

// Done notes the end of a request that was admitted. It does nothing for a zero
// Ticket.
func (s *Shedder) Done(t Ticket, outcome Outcome, now time.Time) {
	if !t.held {
		return
	}
	at := now.Sub(s.origin)
	s.gauge.leave(t.priority)
	switch outcome {
	case Served:
		s.served.add(int64(at - t.started))
		if t.Waited > 0 {
			s.waited.Add(int64(t.Waited))
		}
	case Overloaded:
		s.overloaded.Add(1)
	}
	s.fold(at)
}

func (s *Shedder) thresholds() thresholds {
	return thresholds{upTo: unpackThresholds(s.upTo.Load()), critical: int64(s.options.MaxCritical)}
}

func (s *Shedder) sawPeak(n int64) {
	for {
		seen := s.peak.Load()
		if n <= seen || s.peak.CompareAndSwap(seen, n) {
			return
		}
	}
}

// fold ends the interval when its time has come, in the first caller that sees
// it; others go on with the thresholds in force. A clock that has stepped back
// begins a new interval.
func (s *Shedder) fold(at time.Duration) {
	due := time.Duration(s.due.Load())
	steppedBack := at < due-2*maxHold*s.options.Interval
	if at < due && !steppedBack || !s.mu.TryLock() {
		return
	}
	defer s.mu.Unlock()
	if at < time.Duration(s.due.Load()) && !steppedBack {
		return
	}
	elapsed := at - s.mu.last
	s.due.Store(int64(at + s.options.Interval))
	few := s.served.number()+s.overloaded.Load() < minSamples
	if few && elapsed < maxHold*s.options.Interval && !steppedBack {
		return
	}
	s.mu.last = at
	m := s.sampleLocked(max(elapsed, 0))
	s.mu.worker = s.mu.worker.next(s.options, m)
	s.upTo.Store(packThresholds(s.mu.worker.thresholds()))
}

// sampleLocked takes what was counted since the last interval.
func (s *Shedder) sampleLocked(elapsed time.Duration) sample {
	m := sample{elapsed: elapsed, overloaded: s.overloaded.Swap(0)}
	m.finished, m.latency = s.served.take()
	if waited := s.waited.Swap(0); m.finished > 0 {
		m.waited = float64(waited) / float64(m.finished)
	}
	inFlight := s.gauge.load()
	m.peak = s.peak.Swap(inFlight.critical + inFlight.others)
	for p := range Priorities {
		admitted, shed := s.admitted[p].Load(), s.shed[p].Load()
		m.shed[p] = shed - s.mu.shed[p]
		m.arrived[p] = m.shed[p] + admitted - s.mu.admitted[p]
		s.mu.admitted[p], s.mu.shed[p] = admitted, shed
	}
	return m
}

// Stats is a snapshot of a Shedder.
type Stats struct {
	// InFlight counts requests in flight besides critical ones, Critical those.
	InFlight, Critical int64
	// Limit is the adaptive limit on what is in flight.
	Limit float64
	// UpTo is the number in flight at which each priority is shed; for P0 it is
	// Options.MaxCritical, of critical requests alone.
	UpTo [Priorities]int64
	// Latency is the present latency, Base the best one within
	// Options.BaseWindow; 0 is none seen yet.
	Latency, Base time.Duration
	// Admitted and Shed count requests since the start, by priority.
	Admitted, Shed [Priorities]int64
}

// Stats returns a snapshot.
func (s *Shedder) Stats() Stats {
	s.mu.Lock()
	w := s.mu.worker
	s.mu.Unlock()
	inFlight, t := s.gauge.load(), s.thresholds()
	stats := Stats{
		InFlight: inFlight.others,
		Critical: inFlight.critical,
		Limit:    w.limit,
		UpTo:     t.upTo,
		Latency:  time.Duration(w.latency),
		Base:     time.Duration(w.base()),
	}
	stats.UpTo[P0] = t.critical
	for p := range Priorities {
		stats.Admitted[p] = s.admitted[p].Load()
		stats.Shed[p] = s.shed[p].Load()
	}
	return stats
}
