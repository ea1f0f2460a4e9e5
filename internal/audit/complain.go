package audit

import (
	"fmt"
	"time"
)

// complaints is what Options.OnError was told last.
type complaints struct {
	sinks   []time.Time // when it heard of each
	dropped time.Time
	lost    uint64 // how many were dropped by then
}

// complain tells of sinks that fail and of events that were dropped. It is Run's.
func (r *Recorder) complain() {
	c, now := &r.complaint, time.Now()
	for i, s := range r.o.Sinks {
		_, failed, err := s.Counts()
		if err != nil && due(&c.sinks[i], now) {
			r.o.OnError(fmt.Errorf("audit: write events to %s: %w; %d have failed so far", s.Name(), err, failed))
		}
	}
	if dropped := r.discarded.Load() + r.refused.Load(); dropped > c.lost && due(&c.dropped, now) {
		r.o.OnError(fmt.Errorf("audit: %d events were dropped because more came than could be made; hint: a smaller sample, or a larger buffer", dropped-c.lost))
		c.lost = dropped
	}
}

// due reports whether it is time to tell again, and notes that it was told.
func due(told *time.Time, now time.Time) bool {
	if !told.IsZero() && now.Sub(*told) < complainEvery {
		return false
	}
	*told = now
	return true
}
