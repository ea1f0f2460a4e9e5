package redisstore

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/store"
)

const (
	// The pause before the next attempt to connect doubles from minPause to
	// maxPause; the real one is drawn between half of it and all, so that many
	// processes do not return at one instant.
	minPause = 50 * time.Millisecond
	maxPause = time.Second
	// steady is how long a connection must have lasted for the next one to be
	// made without a longer pause.
	steady = 5 * time.Second
)

// link keeps a session with Redis alive in the background. While there is none
// callers learn at once why.
type link struct {
	options *Options
	current atomic.Pointer[session]
	// fault says why current is nil.
	fault  atomic.Pointer[store.Error]
	cancel context.CancelFunc
	done   chan struct{}
}

// openLink starts to connect, and returns when the first attempt has succeeded
// or failed.
func openLink(o *Options) *link {
	ctx, cancel := context.WithCancel(context.Background())
	l := &link{options: o, cancel: cancel, done: make(chan struct{})}
	l.fault.Store(o.fault("dial", errNotConnected))
	first := make(chan struct{})
	go l.run(ctx, first)
	<-first
	return l
}

// session returns the current session, or why there is none.
func (l *link) session() (*session, *store.Error) {
	s := l.current.Load()
	switch {
	case s == nil:
		return nil, l.fault.Load()
	case s.isOver():
		return nil, l.faultOf(s.cause)
	}
	return s, nil
}

// close ends the session and the background work, and waits for both.
func (l *link) close() {
	l.cancel()
	<-l.done
}

// run connects, waits until the session is over, and connects again.
func (l *link) run(ctx context.Context, first chan<- struct{}) {
	defer close(l.done)
	pause := minPause
	for attempt := 0; ctx.Err() == nil; attempt++ {
		began := time.Now()
		err := l.connect(ctx, func() {
			if attempt == 0 {
				close(first)
			}
		})
		if ctx.Err() != nil {
			err = errClosed
		}
		l.fault.Store(l.faultOf(err))
		if time.Since(began) > steady {
			pause = minPause
		}
		wait(ctx, pause/2+rand.N(pause/2))
		pause = min(2*pause, maxPause)
	}
}

// connect holds one session, from the dial to its end. It calls settled when
// the dial has succeeded or failed, and returns why there is no session now.
func (l *link) connect(ctx context.Context, settled func()) error {
	s, err := dial(ctx, l.options)
	if err != nil {
		l.fault.Store(l.faultOf(err))
		settled()
		return err
	}
	l.current.Store(s)
	settled()
	select {
	case <-s.over:
	case <-ctx.Done():
		s.end(errClosed)
	}
	l.fault.Store(l.faultOf(s.cause))
	l.current.Store(nil)
	s.close()
	return s.cause
}

// faultOf makes the error that callers get while there is no session. A dial
// that timed out is no timeout of theirs.
func (l *link) faultOf(err error) *store.Error {
	fault := l.options.fault("dial", err)
	if fault.Reason == store.Timeout {
		fault.Reason = store.Unavailable
	}
	return fault
}

// wait returns after d, or when ctx has ended.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
