package limit

import "time"

// Outstanding returns how many of hits that were charged at one instant can still be in the
// bucket at now, and so how many a refund of them may give back: the others are over, and to
// give them back would give back those of somebody else. Windows know it: all of them in the
// window of the charge, none where it is over, and of a weighed window (sliding_window,
// sub_windows) their weight, rounded down. Buckets do not say whose hits have drained, so it
// is all until a full bucket has, and then none. 0 for concurrency and ban, and for a charge
// that is later than now all hits.
func (l *Limit) Outstanding(charged, now Micros, hits int64) int64 {
	if hits < 1 || l.Algorithm == Concurrency || l.Algorithm == Ban {
		return 0
	}
	hits = min(hits, MaxQuota)
	then, at := clampInstant(int64(charged)), clampInstant(int64(now))
	if then >= at {
		return hits
	}
	switch l.Algorithm {
	case FixedWindow:
		var empty State
		return allWhile(l.fixedWindowAt(&empty, then).start == l.fixedWindowAt(&empty, at).start, hits)
	case SlidingLog:
		return allWhile(at-then < l.periodMicros, hits)
	case SubWindows:
		return weight(hits, then, at, l.partMicros, int64(l.SubWindows), !l.Strict)
	case TokenBucket, LeakyBucket, LeakyQueue, GCRA:
		return allWhile(at-then <= l.tolerance.whole, hits)
	default:
		return weight(hits, then, at, l.periodMicros, 1, true)
	}
}

// Weighs returns how long a hit that was charged can be in the bucket at most: Outstanding is
// 0 from then on, and may be before. Windows of a calendar have the longest there is.
func (l *Limit) Weighs() time.Duration {
	micros := l.memory()
	switch l.Algorithm {
	case SlidingWindow:
		micros = 2 * l.periodMicros
	case SubWindows:
		micros += l.partMicros
	case TokenBucket, LeakyBucket, LeakyQueue, GCRA:
		micros = l.tolerance.whole + 1
	case Concurrency, Ban:
		return 0
	}
	return time.Duration(micros) * time.Microsecond
}

func allWhile(holds bool, hits int64) int64 {
	if holds {
		return hits
	}
	return 0
}

// weight returns what hits of one part weigh in a window of so many whole parts of a width
// and, before them, a last one, which weighs less and less if it is smooth.
func weight(hits, then, now, width, whole int64, smooth bool) int64 {
	switch age := now/width - then/width; {
	case age < whole:
		return hits
	case age > whole:
		return 0
	case !smooth:
		return hits
	}
	return muldivFloor(hits, width-now%width, width)
}
