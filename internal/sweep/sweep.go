// Package sweep looks again and again at what a process holds, and rests while it holds nothing.
package sweep

import (
	"sync"
	"time"
)

// Sweep calls a function at regular times for as long as the function finds something. Make one
// with New; its methods are safe for concurrent use.
type Sweep struct {
	every time.Duration
	look  func() (found bool)

	mu      sync.Mutex
	timer   *time.Timer // nil until the first Wake
	awake   bool        // the timer runs
	stopped bool
}

// New returns a Sweep that rests until Wake. It calls look once every has passed, and again as
// long as look reports that something is left. A call may begin while one that takes longer than
// every is under way.
func New(every time.Duration, look func() (found bool)) *Sweep {
	return &Sweep{every: every, look: look}
}

// Wake begins the calls, unless they have begun or Stop was called. Who adds something to look at
// calls it after that.
func (s *Sweep) Wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.awake || s.stopped {
		return
	}
	s.awake = true
	if s.timer == nil {
		s.timer = time.AfterFunc(s.every, s.round)
		return
	}
	s.timer.Reset(s.every)
}

// Stop ends the calls for good. It does not wait for one that is under way.
func (s *Sweep) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	if s.timer != nil {
		s.timer.Stop()
	}
}

func (s *Sweep) round() {
	s.mu.Lock()
	s.awake = false // before look: what is added meanwhile may escape it, and must wake
	s.mu.Unlock()
	if s.look() {
		s.Wake()
	}
}
