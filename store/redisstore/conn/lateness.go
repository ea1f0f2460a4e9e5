package conn

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// lateBy is from when on a timer that fires late, or a goroutine that runs late,
	// says that this process had no processor to run on; or an eighth of the budget if
	// that is longer.
	lateBy = 3 * time.Millisecond
	// meterEvery is how often the lateness is measured while calls are slow or fail, and
	// meterFor for how long after the last of those.
	meterEvery = 2 * time.Millisecond
	meterFor   = time.Second
	// beatEvery is how often the process notes that it runs, standstill from which gap on
	// it was stopped, and doubtFor for how long after that callers may be gone without
	// the process having heard of it.
	beatEvery  = 250 * time.Millisecond
	standstill = time.Second
	doubtFor   = 500 * time.Millisecond
)

// Lateness knows when this process was late: when it had no processor to run on, so that
// what it did not hear in time may well have been said. Of a process that is well it
// costs nothing: timers and sleepers that wake too late report it, and while calls are
// slow or fail a meter runs.
//
// All instants are nanoseconds since epoch.
type Lateness struct {
	epoch     time.Time
	threshold time.Duration
	// seen is when the process was late last, 0 if never.
	seen atomic.Int64
	// due is when the meter should run next, 0 while it does not run.
	due atomic.Int64
	// until is when the meter ends.
	until atomic.Int64
	// beat is when the process noted last that it runs, doubted until when callers may
	// be gone after a standstill.
	beat, doubted atomic.Int64
	// alarms are those that are not in use; see Patience.
	alarms sync.Pool

	mu     sync.Mutex
	closed bool
	meter  *time.Timer
	heart  *time.Timer
}

// NewLateness returns one for calls that may last for budget. Its Close must be called.
func NewLateness(budget time.Duration) *Lateness {
	l := &Lateness{epoch: time.Now(), threshold: max(lateBy, budget/8)}
	l.beat.Store(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heart = time.AfterFunc(beatEvery, l.onBeat)
	return l
}

// Close ends what runs in the background.
func (l *Lateness) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.heart.Stop()
	if l.meter != nil {
		l.meter.Stop()
	}
}

// at returns an instant as nanoseconds since epoch.
func (l *Lateness) at(now time.Time) int64 { return int64(now.Sub(l.epoch)) }

// note says that the process was late at now.
func (l *Lateness) note(now time.Time) { l.seen.Store(l.at(now)) }

// late reports whether something that was due then and happens now is late by the
// process's own fault, and notes it.
func (l *Lateness) late(due, now time.Time) bool {
	if now.Sub(due) < l.threshold {
		return false
	}
	l.note(now)
	return true
}

// since reports whether the process was late at any time from began to now.
func (l *Lateness) since(began, now time.Time) bool {
	if seen := l.seen.Load(); seen != 0 && seen >= l.at(began) {
		return true
	}
	due := l.due.Load()
	return due != 0 && l.at(now)-due >= int64(l.threshold)
}

// watch measures the lateness for a while: calls are slow, or fail.
func (l *Lateness) watch(now time.Time) {
	l.until.Store(l.at(now) + int64(meterFor))
	if l.due.Load() != 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.due.Load() != 0 {
		return
	}
	l.due.Store(l.at(now) + int64(meterEvery))
	if l.meter == nil {
		l.meter = time.AfterFunc(meterEvery, l.onMeter)
	} else {
		l.meter.Reset(meterEvery)
	}
}

// onMeter is one measurement.
func (l *Lateness) onMeter() {
	now := time.Now()
	at := l.at(now)
	if at-l.due.Load() >= int64(l.threshold) {
		l.note(now)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || at >= l.until.Load() {
		l.due.Store(0)
		return
	}
	l.due.Store(at + int64(meterEvery))
	l.meter.Reset(meterEvery)
}

// onBeat notes that the process runs.
func (l *Lateness) onBeat() {
	at := l.at(time.Now())
	if at-l.beat.Load() >= int64(standstill) {
		l.doubted.Store(at + int64(doubtFor))
	}
	l.beat.Store(at)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.heart.Reset(beatEvery)
	}
}

// Woke reports whether the process stood still until a moment ago, so that requests
// which it now reads may have waited for long, and their callers be gone.
func (l *Lateness) Woke(now time.Time) bool {
	at := l.at(now)
	return at < l.doubted.Load() || at-l.beat.Load() >= int64(standstill)
}
