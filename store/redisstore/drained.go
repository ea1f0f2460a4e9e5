package redisstore

import "github.com/headgate/headgate/limit"

// A token_bucket, a leaky_bucket or a gcra drains num/den µs for each hit. How long it takes until it is
// empty is so a whole number of steps of 1/den µs, and the tolerance is one too. Where that
// is below drainedDenied, quick.lua decides in steps, with one product and one division,
// and answers
//
//	1 + steps              after an allowed hit, or of one that would pass, with its group
//	-drainedDenied - steps where it is denied
//
// What is stored is not touched by this: it stays the text that lookup.go reads.
//
// All else that a script says first of these buckets lies between: 0 of an allowed hit, and
// -1 less the time to the next one, which is below what a bucket owes at most, 2^51 µs; or
// it is verdictNever.
const drainedDenied = 1 << 52

// drains reports whether quick.lua may decide takes by l in steps.
func drains(l *limit.Limit) bool {
	return l.Algorithm == limit.TokenBucket || l.Algorithm == limit.LeakyBucket || l.Algorithm == limit.GCRA
}

// isDrained reports whether an answer to one take by a limit that drains is in steps.
func isDrained(n int64) bool { return n > 0 || n <= -drainedDenied && n != verdictNever }

// drained returns the state that the answer n in steps says, and whether the take was
// denied; ok is false for what no script says.
func drained(n int64, now limit.Micros, l *limit.Limit) (s limit.State, denied, ok bool) {
	steps := n - 1
	if n < 0 {
		steps, denied = -n-drainedDenied, true
	}
	if steps < 0 || steps >= drainedDenied {
		return limit.State{}, denied, false
	}
	if steps > 0 {
		_, den := l.EmissionInterval()
		s = limit.State{Kind: 1 + uint8(l.Algorithm), A: int64(now) + steps/den, B: steps % den}
	}
	return s, denied, true
}
