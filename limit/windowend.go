package limit

import "time"

// WindowEndsAfter returns the time until the current window of l ends, for a decision that
// says that the limit is as if unused after resetAfter (Decision.ResetAfter). Hits of the
// present window of a sliding window still weigh during the next one, so that its reset
// lies one window behind the end that people expect; of all other algorithms, and while
// only hits of the window before weigh, the two are the same. A bucket, a log and
// sub-windows have no window that ends as a whole; theirs ends when they are as if unused.
// 0 for 0; a nil l has no windows.
func (l *Limit) WindowEndsAfter(resetAfter time.Duration) time.Duration {
	if l == nil || l.Algorithm != SlidingWindow || resetAfter <= l.Period {
		return resetAfter
	}
	return resetAfter - l.Period
}

// WindowLeft returns the time from now until the fixed window that now lies in ends,
// which is more than 0 and at most its length, whether or not anything was counted in it.
// 0 for a limit of another algorithm, and for a nil l.
func (l *Limit) WindowLeft(now time.Time) time.Duration {
	if l == nil || l.Algorithm != FixedWindow {
		return 0
	}
	instant := clampStored(now.UnixMicro())
	w := l.fixedWindowAt(&State{}, instant)
	return time.Duration(w.end-instant) * time.Microsecond
}
