package conn

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/store"
)

// maxGrace bounds how long after the budget a Take waits for an answer that this process
// is itself late in hearing. The budget bounds it too: a decision takes at most twice as
// long as it may, and never until its caller's own deadline: see store.AnswerBy.
const maxGrace = 20 * time.Millisecond

// graceOf returns the grace of a budget.
func graceOf(budget time.Duration) time.Duration { return min(budget, maxGrace) }

// Patience is the context of a Take. It ends with its budget, or before its caller's
// context does, so that there is time to answer (store.AnswerBy). When that time is over,
// and only then, it looks whether an answer is there that has not been read, or whether it is
// itself late; then it goes on for the grace, where its caller has the time.
//
// Its Deadline is the end without the grace, whatever comes after: that is what the script
// is told, so nothing is charged later than that.
//
// It is a child of its caller's context only for who asks for Done: to enter it there and
// to take it out again costs more than a Take that waits for others has to, which can
// look at both of its Ends.
type Patience struct {
	context.Context // that of the caller
	late            *Lateness
	deadline, last  time.Time
	// asked are the servers that the answer is to come from.
	asked [2]atomic.Pointer[Server]
	alarm *alarm

	mu       sync.Mutex
	err      error // once the budget or the use of it is over
	extended bool
	// child ends with the caller's context and with the patience; nil until asked for.
	child  context.Context
	cancel context.CancelFunc
}

// alarm is the timer of one patience after the other; rung is closed when it has ended
// one.
type alarm struct {
	timer *time.Timer
	of    *Patience
	rung  chan struct{}
}

func (a *alarm) ring() { a.of.expire() }

// NewPatience returns the context of a Take that begins now. Its End must be called.
func NewPatience(ctx context.Context, l *Lateness, now time.Time, budget time.Duration) *Patience {
	p := &Patience{Context: ctx, late: l, deadline: now.Add(budget)}
	p.last = p.deadline.Add(graceOf(budget))
	if by, ok := store.AnswerBy(ctx, now); ok {
		if by.Before(p.deadline) {
			p.deadline = by
		}
		if by.Before(p.last) {
			p.last = by
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	left := p.deadline.Sub(now)
	if a, ok := l.alarms.Get().(*alarm); ok {
		p.alarm, a.of = a, p
		a.timer.Reset(left)
		return p
	}
	p.alarm = &alarm{of: p, rung: make(chan struct{})}
	p.alarm.timer = time.AfterFunc(left, p.alarm.ring)
	return p
}

// End ends the use of p.
func (p *Patience) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.alarm.timer.Stop() { // else it may yet ring for p, and is not used again
		p.alarm.of = nil
		p.late.alarms.Put(p.alarm)
	}
	p.endLocked(context.Canceled)
}

// endLocked notes why p has ended, unless it has ended before.
func (p *Patience) endLocked(err error) {
	if p.err == nil {
		p.err = err
	}
	if p.cancel != nil {
		p.cancel()
	}
}

// Ends returns what closes when the caller's context ends, nil if it never does, and what
// closes when p ends by itself. They are of use until End is called.
func (p *Patience) Ends() (caller, own <-chan struct{}) { return p.Context.Done(), p.alarm.rung }

// Done implements context.Context.
func (p *Patience) Done() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.child == nil {
		p.child, p.cancel = context.WithCancel(p.Context)
		if p.err != nil {
			p.cancel()
		}
	}
	return p.child.Done()
}

// Asks notes that the answer is to come from a server. Of more than two the first counts.
func (p *Patience) Asks(s *Server) {
	for i := range p.asked {
		if p.asked[i].CompareAndSwap(nil, s) || p.asked[i].Load() == s {
			return
		}
	}
}

// expire ends p, or lets it go on where the answer may be there.
func (p *Patience) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.extended {
		p.extended = true
		if more := p.grace(time.Now()); more > 0 {
			p.alarm.timer.Reset(more)
			return
		}
	}
	if p.err == nil {
		close(p.alarm.rung)
	}
	p.endLocked(context.DeadlineExceeded)
}

// grace returns for how long to go on at now, when the budget is over.
func (p *Patience) grace(now time.Time) time.Duration {
	var more time.Duration
	for i := range p.asked {
		if sh := p.asked[i].Load(); sh != nil {
			more = max(more, sh.grace(p.deadline, p.last, now))
		}
	}
	return more
}

// listenFor is how long a Take waits, after the process stood still, to hear whether its
// caller is still there; half of the budget bounds it too.
const listenFor = 100 * time.Millisecond

// CallerThere reports whether the caller is still there. The process stood still until a
// moment ago, and what it reads now may have waited for longer than its caller has: that
// the caller hung up is read after the request.
func (p *Patience) CallerThere() bool {
	_ = sleep.For(p, min(listenFor, time.Until(p.deadline)/2))
	return p.Err() == nil
}

// Deadline implements context.Context: the end without the grace.
func (p *Patience) Deadline() (time.Time, bool) { return p.deadline, true }

// Last returns when p ends at the latest.
func (p *Patience) Last() time.Time { return p.last }

// Err implements context.Context. It tells of the budget first.
func (p *Patience) Err() error {
	p.mu.Lock()
	err := p.err
	p.mu.Unlock()
	if err != nil {
		return err
	}
	return p.Context.Err()
}

// grace returns for how long at now to go on waiting for an answer of the server that was
// due, but not beyond last; 0 if that is to blame. If it is this process, because
// there are bytes that nobody has read or because it comes late to look, it notes that.
func (s *Server) grace(due, last, now time.Time) time.Duration {
	overslept := s.late.late(due, now)
	if !now.Before(last) {
		return 0
	}
	if se := s.link.current.Load(); se != nil && se.conn.answering(now) {
		s.late.note(now)
		return last.Sub(now)
	}
	if overslept {
		// As much as was slept too long: the server has had that time less.
		return min(last.Sub(now), now.Sub(due))
	}
	return 0
}

// Extend is grace for those who share a flight.
func (s *Server) Extend(due, last time.Time) time.Duration {
	return s.grace(due, last, time.Now())
}
