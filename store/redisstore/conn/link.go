package conn

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/store"
)

const (
	// The pause before the next attempt to connect doubles from minPause to
	// maxPause; the real one is drawn between half of it and all, so that many
	// processes do not return at one instant.
	minPause = 50 * time.Millisecond
	maxPause = time.Second
	// steady is how long a connection must have lasted for the next one to be made at
	// once: a server, or what stands before it, that hangs up now and then, as with a
	// limit of idle time, is not away.
	steady = time.Second
)

// link keeps a session with Redis alive in the background. While there is none
// callers learn at once why.
type link struct {
	options *Options
	// gate says when to dial, and is told how it went.
	gate *Gate
	// dial makes a session.
	dial func(context.Context) (*Session, error)
	// elsewhere reports whether the next dial would be of another server than the
	// last; it is asked while the gate is closed to this one. nil means never.
	elsewhere func(context.Context) bool
	// watch looks after a session until its context ends, and ends it when it
	// should not be used further; nil means that nobody does.
	watch func(context.Context, *Session)
	// lost is told whenever there is no session any more, or still none; nil
	// means that nobody wants to know.
	lost func()

	current atomic.Pointer[Session]
	last    atomic.Pointer[Session] // current, or the one before
	// fault says why current is nil.
	fault atomic.Pointer[store.Error]
	// again is there while a session that has lasted is made again at once, and before, as
	// long as there is one; it is closed when that has succeeded or failed.
	again  atomic.Pointer[chan struct{}]
	cancel context.CancelCauseFunc
	// first is closed when the first attempt to connect has succeeded or failed.
	first chan struct{}
	done  chan struct{}
}

// open starts to connect. It does not wait for it: see first.
func (l *link) open() {
	ctx, cancel := context.WithCancelCause(context.Background())
	l.cancel, l.first, l.done = cancel, make(chan struct{}), make(chan struct{})
	l.fault.Store(l.options.Fault("dial", ErrFirstDial))
	go l.run(ctx)
}

// session returns the current session, or why there is none.
func (l *link) session() (*Session, *store.Error) {
	s := l.current.Load()
	switch {
	case s == nil:
		return nil, l.fault.Load()
	case s.isOver():
		return nil, l.faultOf(s, s.cause)
	}
	return s, nil
}

// nextSession is session for who may wait, until ctx ends, for one that is made again at
// once.
func (l *link) nextSession(ctx context.Context) (*Session, *store.Error) {
	s, fault := l.session()
	if fault == nil {
		return s, nil
	}
	if again := l.again.Load(); again != nil {
		select {
		case <-*again:
		case <-ctx.Done():
		}
		return l.session()
	}
	return nil, fault
}

// waitNoLonger has nobody wait for the next session.
func (l *link) waitNoLonger() {
	if again := l.again.Swap(nil); again != nil {
		close(*again)
	}
}

// close ends the session and the background work because of cause, and waits for
// both.
func (l *link) close(cause error) {
	l.cancel(cause)
	<-l.done
}

// run connects, waits until the session is over, and connects again.
func (l *link) run(ctx context.Context) {
	defer close(l.done)
	pause := minPause
	defer l.waitNoLonger()
	for attempt := 0; ctx.Err() == nil; attempt++ {
		if l.gate.breaker.Wait(time.Now()) > 0 {
			l.waitNoLonger()
		}
		l.await(ctx)
		if ctx.Err() != nil {
			break
		}
		lasted := l.connect(ctx, func() {
			if attempt == 0 {
				close(l.first)
			}
		})
		if ctx.Err() != nil {
			break
		}
		if l.lost != nil {
			l.lost()
		}
		if lasted > steady {
			pause = minPause
			continue
		}
		l.waitNoLonger()
		_ = sleep.For(ctx, pause/2+rand.N(pause/2))
		pause = min(2*pause, maxPause)
	}
	l.fault.Store(l.faultOf(nil, context.Cause(ctx)))
}

// await returns when the gate lets a dial through, or ctx has ended. While it does
// not, it asks now and then whether another server has taken over.
func (l *link) await(ctx context.Context) {
	for ctx.Err() == nil {
		left := l.gate.breaker.Wait(time.Now())
		if left <= 0 {
			return
		}
		if l.elsewhere != nil {
			if l.elsewhere(ctx) {
				l.gate.breaker.Reset(time.Now())
				return
			}
			left = min(left, watchPause+rand.N(watchPause))
		}
		_ = sleep.For(ctx, left)
	}
}

// connect holds one session, from the dial to its end, and returns how long that lasted. It
// calls attempted when the dial has succeeded or failed.
func (l *link) connect(ctx context.Context, attempted func()) (lasted time.Duration) {
	s, err := DialThrough(ctx, l.gate, l.options, l.dial)
	if err != nil {
		if store.ReasonOf(err) != store.BreakerOpen { // else the fault before it says more
			l.fault.Store(l.faultOf(nil, err))
		}
		attempted()
		l.waitNoLonger()
		return 0
	}
	began := time.Now()
	l.current.Store(s)
	l.last.Store(s)
	attempted()
	l.waitNoLonger()
	again := make(chan struct{})
	l.again.Store(&again)
	l.hold(ctx, s)
	l.fault.Store(l.faultOf(s, s.cause))
	l.current.Store(nil)
	s.Close()
	return time.Since(began)
}

// hold returns when the session is over, or ends it with ctx.
func (l *link) hold(ctx context.Context, s *Session) {
	if l.watch != nil {
		var watching sync.WaitGroup
		defer watching.Wait()
		watched, cancel := context.WithCancel(ctx)
		defer cancel()
		watching.Go(func() { l.watch(watched, s) })
	}
	select {
	case <-s.over:
	case <-ctx.Done():
		s.End(context.Cause(ctx))
	}
}

// faultOf makes the error that callers get while there is no session; s is the
// one that ended with err, if there was one. A dial that timed out is no timeout
// of theirs.
func (l *link) faultOf(s *Session, err error) *store.Error {
	options := l.options
	if s != nil {
		options = s.Options
	}
	return AsUnavailable(options.Fault("dial", err))
}
