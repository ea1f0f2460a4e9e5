package h2

import "time"

// waitForWindow has the answer of a slow stream wait until something changes. The stream is
// reset when the client has let nothing of the answer through for Limits.WriteTimeout.
func (w *slowStream) waitForWindow() {
	if w.stall == nil {
		w.stall = time.AfterFunc(w.c.server.Limits.WriteTimeout, w.stalled(w.waits))
	}
	w.changed.Wait()
}

// goesOn notes that something of the answer could be sent, or that no more is to be.
func (w *slowStream) goesOn() {
	if w.stall != nil {
		w.stall.Stop()
		w.stall = nil
		w.waits++
	}
}

// stalled returns what happens when wait number n of a stream takes too long. One that is over
// meanwhile has a timer that came too late to be stopped.
func (w *slowStream) stalled(n int) func() {
	return func() {
		c := w.c
		c.mu.Lock()
		if w.waits == n && w.stall != nil && !w.over && !w.s.reset && !c.failed && !c.closed {
			c.resetFor(w.s.id, enhanceYourCalm, Unread)
		}
		c.mu.Unlock()
		c.flush(time.Now())
	}
}
