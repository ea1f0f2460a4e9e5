package limit

// Sliding window counter, the default.
//
// Two counters of aligned windows of length W = Period. The hits of the last W
// are estimated as if those of the previous window had been spread evenly:
//
//	estimate = ceil(previous*(W-elapsed)/W) + current
//	allowed  iff  estimate + hits <= Quota
//
// where elapsed is the time since the present window began. The formula is
// Cloudflare's ("Counting things, a lot of different things", 2017), here in
// exact integers. When only admitted hits are counted, any interval of length t
// admits at most Quota*(1+t/W): the envelope of a token bucket of rate Quota/W
// and burst Quota. Proof: a hit admitted at elapsed = a*W found
// current <= Quota-(1-a)*previous; two neighbouring windows thus add up to at
// most Quota+a*previous, and each further window adds at most Quota.
//
// State: A is the start of the current window in µs, B its count, C the count
// of the window before it; Per is how long a window is.
//
// When Period changes, each count goes to the window in which it may have been made
// last (carry.go). Where Per is 0 and A is no longer the start of a window, both
// are taken together as one, which forgets no hit that may still matter if the
// period has become longer.

// slidingWindow is what a state says at some instant.
type slidingWindow struct {
	start             int64 // of the current window, µs
	elapsed           int64 // since start, µs, in [0, Period)
	current, previous int64
}

// slidingWindowAt reads s at now. A start in the next window means that the
// clock stepped back: time stands still there until the clock has caught up. A
// start beyond that is bogus: both counts are pulled back to the present window,
// and moved says so.
func (l *Limit) slidingWindowAt(s *State, now int64) (w slidingWindow, moved bool) {
	period := l.periodMicros
	_, into := l.byPeriod.divmod(now)
	w.start, w.elapsed = now-into, into
	if s.Kind != kindSlidingWindow {
		return w, false
	}
	stored, current, previous := clampStored(s.A), clampCount(s.B), clampCount(s.C)
	if stored == w.start {
		w.current, w.previous = current, previous
		return w, false
	}
	_, into = l.byPeriod.divmod(stored)
	if into != 0 {
		current, previous = addCount(current, previous), 0
	}
	if stored >= w.start+2*period {
		w.current, w.previous = current, previous
		return w, true
	}
	if stored > now {
		w.start, w.elapsed = stored-into, into
	}
	switch {
	case stored >= w.start:
		w.current, w.previous = current, previous
	case stored >= w.start-period:
		w.previous = current
	}
	return w, false
}

func (w slidingWindow) save(l *Limit, s *State) {
	s.set(kindSlidingWindow, w.start, w.current, w.previous)
	s.Per = l.per
}

// used is the estimate of the hits in the last period, rounded up.
func (w slidingWindow) used(period int64) int64 {
	if w.previous == 0 {
		return w.current
	}
	return muldivCeil(w.previous, period-w.elapsed, period) + w.current
}

// passesAt returns the first instant at which hits would pass a window that
// denies them now; hits <= quota. Within a window of which p hits weigh on it
// and room is left beside them, p*(W-e)/W <= room holds from e = W-floor(room*W/p)
// on. That window is the current one if its own count leaves room, else the next,
// where the current count has become the previous.
func (w slidingWindow) passesAt(period, quota, hits int64) int64 {
	if room := quota - hits - w.current; room >= 0 {
		return w.start + period - muldivFloor(room, period, w.previous)
	}
	return w.start + 2*period - muldivFloor(quota-hits, period, w.current)
}

// unusedAt returns the instant from which the window is as if unused.
func (w slidingWindow) unusedAt(period int64) int64 {
	switch {
	case w.current > 0:
		return w.start + 2*period
	case w.previous > 0:
		return w.start + period
	}
	return 0
}

func decideSlidingWindow(l *Limit, s *State, now, hits int64, d *Decision) {
	w, moved := l.slidingWindowAt(s, now)
	used := w.used(l.periodMicros)
	d.Limit = l.Quota
	d.Allowed = used+hits <= l.Quota
	charge := hits > 0 && (d.Allowed || l.CountDenied)
	if charge {
		w.current = addCount(w.current, hits)
		used += hits
	}
	d.Remaining = max(l.Quota-used, 0)
	d.ResetAfter = duration(w.unusedAt(l.periodMicros) - now)
	if !d.Allowed {
		if hits > l.Quota {
			d.Never = true
		} else {
			d.RetryAfter = duration(w.passesAt(l.periodMicros, l.Quota, hits) - now)
		}
	}
	if charge || (moved && hits > 0) {
		w.save(l, s)
	}
}

// refundSlidingWindow takes the hits from the current count and what is left of
// them from the previous one.
func refundSlidingWindow(l *Limit, s *State, now, hits int64) {
	w, _ := l.slidingWindowAt(s, now)
	fromCurrent := min(hits, w.current)
	w.current -= fromCurrent
	w.previous -= min(hits-fromCurrent, w.previous)
	w.save(l, s)
}
