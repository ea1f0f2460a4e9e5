package limit

import "time"

// Forecast returns how many hits l will have let pass by the end of within, from now on, if
// nothing else takes any: those that remain, and those that come back meanwhile. remaining
// and retryAfter are what a dry run of one hit says of the bucket (Decision): how many
// may pass now, before that hit, and after how long it would. What comes back is rounded
// down, and of windows that are weighed (sliding_window, sub_windows) it is what comes back
// whatever their weights are, one hit less in each window and none in one of them. Of a window
// that is longer than within it is only what remains, because the next window has a budget of
// its own. 0 for a nil l, and for concurrency and ban, which count no hits.
func (l *Limit) Forecast(remaining int64, retryAfter, within time.Duration) int64 {
	if l == nil || l.Quota == 0 || l.Algorithm == Concurrency || l.Algorithm == Ban || within < retryAfter {
		return 0
	}
	remaining = min(max(remaining, 0), MaxQuota)
	left := int64((within - max(retryAfter, 0)) / time.Microsecond)
	if !l.Algorithm.IsBucket() {
		length, each := l.periodMicros, l.Quota
		if l.Algorithm == SubWindows {
			length = l.partMicros * int64(l.SubWindows+1) // as far back as a part may count
		}
		if length == 0 || length > left { // 0: a calendar's
			return remaining
		}
		windows := left / length
		if l.Algorithm == SlidingWindow || l.Algorithm == SubWindows {
			windows, each = windows-1, each-1
		}
		if windows > MaxQuota/l.Quota {
			return MaxQuota
		}
		return min(remaining+each*windows, MaxQuota)
	}
	if left/l.periodMicros >= MaxQuota/l.Quota {
		return MaxQuota
	}
	back := muldivFloor(left, l.Quota, l.periodMicros)
	if remaining == 0 && retryAfter > 0 {
		back++ // the hit that has waited
	}
	return min(remaining+back, MaxQuota)
}
