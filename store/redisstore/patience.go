package redisstore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// maxGrace bounds how long after the budget a Take waits for an answer that this process
// is itself late in hearing. The budget bounds it too: a decision takes at most twice as
// long as it may, and never longer than its caller's own deadline.
const maxGrace = 20 * time.Millisecond

// graceOf returns the grace of a budget.
func graceOf(budget time.Duration) time.Duration { return min(budget, maxGrace) }

// patience is the context of a Take. It ends with its budget, or with its caller's
// context. When the budget is over, and only then, it looks whether an answer is there
// that has not been read, or whether it is itself late; then it goes on for the grace.
//
// Its Deadline is the end of the budget, whatever comes after: that is what the script
// is told, so nothing is charged later than that.
type patience struct {
	context.Context // that of the caller, with a cancel
	late            *lateness
	deadline, last  time.Time
	// asked are the shards that the answer is to come from.
	asked [2]atomic.Pointer[shard]

	mu       sync.Mutex
	alarm    *alarm
	err      error
	extended bool
	cancel   context.CancelFunc
}

// alarm is the timer of one patience after the other.
type alarm struct {
	timer *time.Timer
	of    *patience
}

func (a *alarm) ring() { a.of.expire() }

// newPatience returns the context of a Take that begins now. Its end must be called.
func newPatience(ctx context.Context, l *lateness, now time.Time, budget time.Duration) *patience {
	p := &patience{late: l, deadline: now.Add(budget)}
	p.last = p.deadline.Add(graceOf(budget))
	if d, ok := ctx.Deadline(); ok {
		if d.Before(p.deadline) {
			p.deadline = d
		}
		if d.Before(p.last) {
			p.last = d
		}
	}
	p.Context, p.cancel = context.WithCancel(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	left := p.deadline.Sub(now)
	if a, ok := l.alarms.Get().(*alarm); ok {
		p.alarm, a.of = a, p
		a.timer.Reset(left)
		return p
	}
	p.alarm = &alarm{of: p}
	p.alarm.timer = time.AfterFunc(left, p.alarm.ring)
	return p
}

// end ends the use of p.
func (p *patience) end() {
	p.mu.Lock()
	if p.alarm.timer.Stop() { // else it may yet ring for p, and is not used again
		p.alarm.of = nil
		p.late.alarms.Put(p.alarm)
	}
	p.mu.Unlock()
	p.cancel()
}

// asks notes that the answer is to come from a shard. Of more than two the first counts.
func (p *patience) asks(sh *shard) {
	for i := range p.asked {
		if p.asked[i].CompareAndSwap(nil, sh) || p.asked[i].Load() == sh {
			return
		}
	}
}

// expire ends p, or lets it go on where the answer may be there.
func (p *patience) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.extended {
		p.extended = true
		if more := p.grace(time.Now()); more > 0 {
			p.alarm.timer.Reset(more)
			return
		}
	}
	p.err = context.DeadlineExceeded
	p.cancel()
}

// grace returns for how long to go on at now, when the budget is over.
func (p *patience) grace(now time.Time) time.Duration {
	var more time.Duration
	for i := range p.asked {
		if sh := p.asked[i].Load(); sh != nil {
			more = max(more, sh.grace(p.deadline, p.last, now))
		}
	}
	return more
}

// settleFor is how long a Take waits, after the process stood still, to hear whether its
// caller is still there; half of the budget bounds it too.
const settleFor = 100 * time.Millisecond

// settle reports whether the caller is still there. The process stood still until a
// moment ago, and what it reads now may have waited for longer than its caller has: that
// the caller hung up is read after the request.
func (p *patience) settle() bool {
	wait(p, min(settleFor, time.Until(p.deadline)/2))
	return p.Err() == nil
}

// Deadline implements context.Context: the end of the budget, without the grace.
func (p *patience) Deadline() (time.Time, bool) { return p.deadline, true }

// Last returns when p ends at the latest.
func (p *patience) Last() time.Time { return p.last }

// Err implements context.Context.
func (p *patience) Err() error {
	if err := p.Context.Err(); err == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return p.err
	}
	return p.Context.Err()
}

// grace returns for how long at now to go on waiting for an answer of the shard that was
// due, but not beyond last; 0 if the server is to blame. If it is this process, because
// there are bytes that nobody has read or because it comes late to look, it notes that.
func (sh *shard) grace(due, last, now time.Time) time.Duration {
	overslept := sh.late.late(due, now)
	if !now.Before(last) {
		return 0
	}
	if se := sh.link.current.Load(); se != nil && se.conn.answering(now) {
		sh.late.note(now)
		return last.Sub(now)
	}
	if overslept {
		// As much as was slept too long: the server has had that time less.
		return min(last.Sub(now), now.Sub(due))
	}
	return 0
}

// extend is grace for those who share a flight.
func (sh *shard) extend(due, last time.Time) time.Duration {
	return sh.grace(due, last, time.Now())
}
