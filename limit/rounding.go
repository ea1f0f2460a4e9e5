package limit

import (
	"math"
	"math/bits"
	"time"
)

// This file is the one rounding rule: state is exact; what is used and how long
// to wait round up; what remains rounds down. Products come before divisions
// and are exact however long.

const (
	// maxInstant is the latest instant that is told apart, 2^52 µs, in the
	// year 2112. It leaves a factor of two for the ends of windows and for the
	// drain times of buckets, below the 2^53 of a Lua number.
	maxInstant = 1 << 52
	// maxCount is where counters stop: 2^51, twice MaxQuota, so that a full
	// counter denies every hit and a sum of two is still below 2^53.
	maxCount = 1 << 51
	// maxDrain is the longest time in which a full bucket may drain: 2^50 µs,
	// almost 36 years.
	maxDrain = 1 << 50
)

// muldivmod returns floor(a*b/c) and the remainder a*b - c*floor(a*b/c), with
// the product in 128 bits. It requires a, b >= 0 and c > 0; a quotient that does
// not fit an int64 saturates, with remainder 0.
func muldivmod(a, b, c int64) (quotient, remainder int64) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	divisor := uint64(c)
	var q, r uint64
	switch {
	case hi == 0 && (lo|divisor)>>32 == 0:
		return int64(uint32(lo) / uint32(divisor)), int64(uint32(lo) % uint32(divisor))
	case hi == 0:
		q, r = lo/divisor, lo%divisor
	case hi < divisor:
		q, r = bits.Div64(hi, lo, divisor)
	default:
		return math.MaxInt64, 0
	}
	if q > math.MaxInt64 {
		return math.MaxInt64, 0
	}
	return int64(q), int64(r)
}

// muldivFloor returns floor(a*b/c); see muldivmod.
func muldivFloor(a, b, c int64) int64 {
	q, _ := muldivmod(a, b, c)
	return q
}

// muldivCeil returns ceil(a*b/c); see muldivmod.
func muldivCeil(a, b, c int64) int64 {
	q, r := muldivmod(a, b, c)
	if r > 0 {
		q++
	}
	return q
}

// clampCount makes a stored counter lie in [0, maxCount], whatever was stored.
func clampCount(n int64) int64 { return min(max(n, 0), maxCount) }

// addCount adds hits to a counter, stopping at maxCount.
func addCount(n, hits int64) int64 { return min(n+hits, maxCount) }

// clampInstant makes an instant lie in [0, maxInstant].
func clampInstant(t int64) int64 { return min(max(t, 0), maxInstant) }

// clampStored makes a stored instant lie in [0, 2*maxInstant), so that sums and
// differences of it stay exact. Instants in its upper half are bogus to every
// algorithm, and treated so there.
func clampStored(t int64) int64 { return min(max(t, 0), 2*maxInstant-1) }

// divisor is a number by which much is divided, with its reciprocal: two
// multiplications take a fraction of the time of a division.
type divisor struct {
	by         int64
	reciprocal uint64 // floor((2^64-1)/by)
}

// divisorOf returns by, which is more than 0, as a divisor.
func divisorOf(by int64) divisor { return divisor{by, math.MaxUint64 / uint64(by)} }

// divmod returns floor(a/by) and the remainder, for a >= 0.
//
// The upper half of a*reciprocal is the quotient or one less: with reciprocal =
// (2^64-1-r)/by and 0 <= r < by, a*reciprocal/2^64 is a/by less
// a*(1+r)/(by*2^64), which is below 1.
func (d divisor) divmod(a int64) (quotient, remainder int64) {
	q, _ := bits.Mul64(uint64(a), d.reciprocal)
	rest := uint64(a) - q*uint64(d.by)
	if rest >= uint64(d.by) {
		return int64(q + 1), int64(rest - uint64(d.by))
	}
	return int64(q), int64(rest)
}

// duration converts whole microseconds, at least 0. No instant of this package
// is later than 2^53 µs, which a Duration still holds.
func duration(us int64) time.Duration {
	return time.Duration(max(us, 0)) * time.Microsecond
}
