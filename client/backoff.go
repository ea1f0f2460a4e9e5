package client

import "time"

// Bounds of the wait before a request is sent again when the server names none:
// it doubles from the first to the last.
const (
	firstBackoff = 100 * time.Millisecond
	lastBackoff  = 10 * time.Second
)

// backoff returns the wait before retry n, from 1: between a half and the whole
// of firstBackoff x 2^(n-1), by random from [0, 1), so that those who failed
// together do not return together.
func backoff(n int, random float64) time.Duration {
	d := lastBackoff
	if shift := n - 1; shift < 16 {
		d = min(firstBackoff<<max(shift, 0), lastBackoff)
	}
	return d/2 + time.Duration(random*float64(d/2))
}

// Bounds of the jitter on a wait that the server named. It only lengthens.
const (
	jitterPart = 0.1
	maxJitter  = time.Second
)

// jittered lengthens a wait by up to jitterPart of it, at most maxJitter.
func jittered(wait time.Duration, random float64) time.Duration {
	return wait + time.Duration(random*min(float64(wait)*jitterPart, float64(maxJitter)))
}

// The retry budget of one partition: every request earns a tenth of a retry and
// every ten seconds earn one, so that a caller who asks rarely may retry too. At
// most maxBudget are saved, which is also the start. So a server that fails gets
// at most a tenth more load, after the first few.
const (
	retryPrice      = 1000 // in thousandths of a retry
	earnedByRequest = 100
	earnedBySecond  = 100
	maxBudget       = 10 * retryPrice
)

// budget counts retries that may be spent. The zero value is full.
type budget struct {
	spent int64 // of maxBudget
	at    time.Time
}

// earn adds what one request at now brings.
func (b *budget) earn(now time.Time) {
	b.pass(now)
	b.spent = max(b.spent-earnedByRequest, 0)
}

// pass adds what the time since the last call brings; a step of the clock into
// the past brings nothing.
func (b *budget) pass(now time.Time) {
	const unit = time.Second / earnedBySecond
	earned := int64(max(now.Sub(b.at), 0) / unit)
	if earned >= b.spent {
		b.spent, b.at = 0, now
		return
	}
	b.spent -= earned
	b.at = b.at.Add(time.Duration(earned) * unit)
}

// spend takes one retry, if there is one.
func (b *budget) spend(now time.Time) bool {
	b.pass(now)
	if b.spent+retryPrice > maxBudget {
		return false
	}
	b.spent += retryPrice
	return true
}
