// Package breaker keeps callers from asking a server that has just failed.
//
// A Breaker watches the calls to one shard of a store. It opens when calls fail
// in a row, or when too large a part of the recent ones failed or were slow;
// while it is open no call is made, and the caller answers by failure mode at
// once. After a pause one call is let through as a probe: its success closes
// the breaker, its failure opens it for twice as long.
//
//	         calls fail            the pause is over
//	Closed ------------> Open ----------------------> HalfOpen
//	   ^                  ^   twice the pause, bounded  |   |
//	   |                  +------- probe fails ---------+   |
//	   +--------------------- probe succeeds ---------------+
//
// A probe that is slow fails: a store that answers late is not well. A probe
// that is Ignored makes room for the next, and so does one whose permit has not
// come back within the pause that it followed: a caller who forgets it holds
// nobody up for long.
//
// Time is an argument: the package reads no clock. Instants with a monotonic
// reading, as time.Now gives them, are best; a clock without one that steps back
// by more than two of the longest pauses ends the pause.
package breaker

import (
	"cmp"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// State is the state of a Breaker.
type State uint8

const (
	// Closed lets every call through.
	Closed State = iota
	// HalfOpen lets one call through, the probe.
	HalfOpen
	// Open lets none through.
	Open
)

// String returns the word for s in metrics and logs.
func (s State) String() string {
	return [...]string{"closed", "half_open", "open"}[s]
}

// Outcome is how a call ended.
type Outcome uint8

const (
	// Success is an answer, in time.
	Success Outcome = iota
	// Failure is an error, or no answer in time.
	Failure
	// Ignored says nothing about the store: the caller went away before the
	// budget was over.
	Ignored
)

// Defaults of Options.
const (
	DefaultFailures = 3
	DefaultRatio    = 0.5
	DefaultWindow   = time.Second
	DefaultMinCalls = 20
	DefaultPause    = time.Second
	DefaultMaxPause = 4 * time.Second
)

// jitterPart is the part of a pause by which it is lengthened at most.
const jitterPart = 0.1

// Options configures a Breaker. The zero value of each field is its default.
type Options struct {
	// Failures in a row open the breaker; default 3. Calls that began before the
	// first of them had failed belong to that failure, and a success in between
	// ends the row.
	Failures int
	// Ratio of failed and slow calls among those of the last Window opens it, if
	// there were at least MinCalls; defaults 0.5, 1 s and 20. The window moves in
	// tenths.
	Ratio    float64
	Window   time.Duration
	MinCalls int
	// Slow is how long a call takes that counts as slow; 0 means that none
	// does.
	Slow time.Duration
	// Pause is how long the breaker stays open the first time, and MaxPause the
	// bound to which it doubles; defaults 1 s and 4 s. A MaxPause below Pause
	// counts as Pause.
	Pause, MaxPause time.Duration
	// Jitter draws from [0, 1): each pause is lengthened by up to a tenth, so
	// that a fleet does not probe at one instant. nil means rand.Float64.
	Jitter func() float64
}

// withDefaults fills in what is zero, or makes no sense.
func (o Options) withDefaults() Options {
	o.Failures = cmp.Or(max(o.Failures, 0), DefaultFailures)
	if !(o.Ratio > 0) {
		o.Ratio = DefaultRatio
	}
	o.Window = cmp.Or(max(o.Window, 0), DefaultWindow)
	o.MinCalls = cmp.Or(max(o.MinCalls, 0), DefaultMinCalls)
	o.Pause = cmp.Or(max(o.Pause, 0), DefaultPause)
	o.MaxPause = cmp.Or(max(o.MaxPause, 0), DefaultMaxPause)
	o.MaxPause = max(o.MaxPause, o.Pause)
	if o.Jitter == nil {
		o.Jitter = rand.Float64
	}
	return o
}

// Breaker is safe for concurrent use. Make one with New.
//
// While it is closed, and while a pause lasts, no call takes the lock: phase and
// the counters are atomic. Outcomes that come in at the very moment of a change
// may be counted on either side of it.
type Breaker struct {
	options Options

	// base is the first instant that was seen; all others are counted from it,
	// which keeps their monotonic reading.
	base atomic.Pointer[time.Time]
	// phase is the State in its lowest bits and, above, a count of the changes.
	// The permit of a call is the phase that let it through.
	phase atomic.Uint64
	// row is the number of failures in a row.
	row atomic.Int64
	// recent are the calls of the last Window.
	recent window
	// until is when the pause (Open) or the patience with a probe (HalfOpen) is
	// over.
	until atomic.Int64

	mu struct {
		sync.Mutex
		pause  time.Duration // the last one, without jitter; 0 while closed
		since  time.Time     // of the last change of State, zero if none
		opened uint64
		// failedAt is when the last failure of the row ended; hasFailed says that
		// there ever was one.
		failedAt  int64
		hasFailed bool
	}
}

const (
	stateBits = 2
	stateMask = 1<<stateBits - 1
)

// stateOf returns the State in a phase.
func stateOf(phase uint64) State { return State(phase & stateMask) }

// New returns a closed breaker.
func New(o Options) *Breaker {
	o = o.withDefaults()
	b := &Breaker{options: o}
	b.recent.width = max(int64(o.Window)/slots, 1)
	return b
}

// Permit is the leave to make one call; it goes back with Done.
type Permit uint64

// Allow reports whether a call may be made at now, and returns its permit.
func (b *Breaker) Allow(now time.Time) (Permit, bool) {
	phase := b.phase.Load()
	if stateOf(phase) == Closed {
		return Permit(phase), true
	}
	return b.allowProbe(now)
}

// allowProbe lets one call through when the wait is over.
func (b *Breaker) allowProbe(now time.Time) (Permit, bool) {
	at := b.at(now)
	if b.waits(at) {
		return 0, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	phase := b.phase.Load()
	if stateOf(phase) == Closed {
		return Permit(phase), true
	}
	if b.waits(at) { // another one was first
		return 0, false
	}
	b.until.Store(at + int64(b.mu.pause))
	return Permit(b.enterLocked(HalfOpen, now)), true
}

// waits reports whether a pause, or the patience with a probe, lasts at the
// instant at. The longest of them is 1.1 pauses: one that seems longer than two
// was begun by a clock that has stepped back since.
func (b *Breaker) waits(at int64) bool {
	left := b.until.Load() - at
	return left > 0 && left <= 2*int64(b.options.MaxPause)
}

// Done says how the call of p ended at now, and how long it took. Every permit
// goes back once. What a call says that was let through before the breaker last
// changed is not listened to.
func (b *Breaker) Done(p Permit, now time.Time, o Outcome, took time.Duration) {
	if b.phase.Load() != uint64(p) {
		return
	}
	bad := o == Failure || b.options.Slow > 0 && took >= b.options.Slow
	if stateOf(uint64(p)) == HalfOpen {
		b.probed(p, now, o, bad)
		return
	}
	if o == Ignored {
		return
	}
	at := b.at(now)
	b.recent.add(at, bad)
	row := int64(0)
	if o == Failure {
		row = b.addFailure(at, took)
	} else if b.row.Load() != 0 {
		b.row.Store(0)
	}
	if row >= int64(b.options.Failures) || bad && b.tooMany(at) {
		b.open(p, now)
	}
}

// addFailure counts the failure of a call that took so long and ended at the instant
// at, and returns the length of the row. A call that began before the last failure of
// the row ended is a part of it; an end that seems to lie far ahead was seen by a clock
// that has stepped back since.
func (b *Breaker) addFailure(at int64, took time.Duration) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	ahead := b.mu.failedAt - (at - int64(took))
	if b.mu.hasFailed && ahead > 0 && ahead <= int64(took)+2*int64(b.options.MaxPause) {
		return b.row.Load()
	}
	b.mu.failedAt, b.mu.hasFailed = at, true
	return b.row.Add(1)
}

// tooMany reports whether too large a part of the recent calls was bad.
func (b *Breaker) tooMany(at int64) bool {
	calls, bad := b.recent.sum(at)
	return calls >= int64(b.options.MinCalls) && float64(bad) >= b.options.Ratio*float64(calls)
}

// open opens a breaker that is still in the phase of p.
func (b *Breaker) open(p Permit, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.phase.Load() == uint64(p) {
		b.pauseLocked(now)
	}
}

// probed ends the probe of p.
func (b *Breaker) probed(p Permit, now time.Time, o Outcome, bad bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.phase.Load() != uint64(p) {
		return
	}
	switch {
	case o == Ignored:
		// Half open still, but with room for the next probe. A new phase, so that
		// the permit cannot be used twice.
		b.until.Store(b.at(now))
		b.enterLocked(HalfOpen, now)
	case bad:
		b.pauseLocked(now)
	default:
		b.closeLocked(now)
	}
}

// pauseLocked opens the breaker for twice the last pause.
func (b *Breaker) pauseLocked(now time.Time) {
	b.mu.pause = min(max(2*b.mu.pause, b.options.Pause), b.options.MaxPause)
	jitter := min(max(b.options.Jitter(), 0), 1) * jitterPart
	b.until.Store(b.at(now) + int64(b.mu.pause) + int64(jitter*float64(b.mu.pause)))
	b.mu.opened++
	b.enterLocked(Open, now)
}

// enterLocked begins a new phase and returns it. It comes last in a change:
// whoever sees the phase sees what belongs to it.
func (b *Breaker) enterLocked(s State, now time.Time) uint64 {
	phase := b.phase.Load()
	if stateOf(phase) != s {
		b.mu.since = now
	}
	phase = (phase>>stateBits+1)<<stateBits | uint64(s)
	b.phase.Store(phase)
	return phase
}

// at returns now as nanoseconds since the first instant that was seen.
func (b *Breaker) at(now time.Time) int64 {
	base := b.base.Load()
	if base == nil {
		first := now
		b.base.CompareAndSwap(nil, &first)
		base = b.base.Load()
	}
	return int64(now.Sub(*base))
}

// Reset closes the breaker, as for another store in the place of the one that
// failed. Permits that are out are not listened to.
func (b *Breaker) Reset(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closeLocked(now)
}

// closeLocked closes the breaker, which forgets all calls.
func (b *Breaker) closeLocked(now time.Time) {
	b.mu.pause, b.mu.hasFailed = 0, false
	b.row.Store(0)
	b.recent.clear()
	b.enterLocked(Closed, now)
}

// Wait returns how long no call will be let through after now; 0 if one is, or may
// be. It may be cut short, by Reset for one.
func (b *Breaker) Wait(now time.Time) time.Duration {
	if stateOf(b.phase.Load()) == Closed {
		return 0
	}
	at := b.at(now)
	if !b.waits(at) {
		return 0
	}
	return time.Duration(max(b.until.Load()-at, 0))
}

// State returns the state at now: Open until the pause is over, HalfOpen from
// then on until a probe has succeeded or failed.
func (b *Breaker) State(now time.Time) State {
	s := stateOf(b.phase.Load())
	if s == Open && !b.waits(b.at(now)) {
		return HalfOpen
	}
	return s
}

// Stats is what a Breaker is and has done since New.
type Stats struct {
	// State is the state at the instant that was asked about.
	State State
	// Since is when the breaker last opened, let the first probe through or
	// closed; zero if it was closed all along.
	Since time.Time
	// Opened counts how often it opened, failed probes included.
	Opened uint64
	// Calls and Bad are the calls of the last Window, and those of them that
	// failed or were slow; both are 0 unless the state is Closed.
	Calls, Bad int64
}

// Stats returns what the breaker is at now.
func (b *Breaker) Stats(now time.Time) Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	stats := Stats{State: b.State(now), Since: b.mu.since, Opened: b.mu.opened}
	if stats.State == Closed {
		stats.Calls, stats.Bad = b.recent.sum(b.at(now))
	}
	return stats
}
