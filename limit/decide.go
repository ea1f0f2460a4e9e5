package limit

import "time"

// Decide says whether hits may pass at now, given what state holds, and
// returns the state to store. It is total and deterministic: every Limit made
// by New, every State, every now and every hits in [0, MaxQuota] has an answer.
// hits == 0 is a peek. A peek and a denial return state unchanged, unless the
// limit counts denied hits.
func Decide(l *Limit, s State, now Micros, hits int64) (State, Decision) {
	panic("to be written")
}

// Refund gives hits back and returns the state to store and what a peek would
// say of it. It never makes a bucket emptier than unused and never fails.
func Refund(l *Limit, s State, now Micros, hits int64) (State, Decision) {
	panic("to be written")
}

// Lifetime returns how long s must be kept after now so that dropping it then
// changes no decision, rounded up to the microsecond; stores add a margin.
func Lifetime(l *Limit, s State, now Micros) time.Duration {
	panic("to be written")
}
