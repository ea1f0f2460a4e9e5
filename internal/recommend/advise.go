package recommend

import (
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/headgate/headgate/limit"
)

// Wish says what a quota shall be like.
type Wish struct {
	// HeadRoom is how much more than was needed, in thousandths: 200 is a fifth more.
	HeadRoom int64
	// MayHit is the share of keys that the quota may deny something without head-room, in
	// thousandths of a percent: 1000 is 1 %. 0 is no key.
	MayHit int64
}

// DefaultWish is a fifth more than 99 % of the keys needed.
var DefaultWish = Wish{HeadRoom: 200, MayHit: 1000}

// Bounds of a Wish: ten times what was needed, and every second key.
const (
	MaxHeadRoom = 9000
	MaxMayHit   = 50_000
)

// Check returns what is wrong with w.
func (w Wish) Check() error {
	switch {
	case w.HeadRoom < 0 || w.HeadRoom > MaxHeadRoom:
		return fmt.Errorf("head-room of %d thousandths; hint: from 0 to %d", w.HeadRoom, MaxHeadRoom)
	case w.MayHit < 0 || w.MayHit > MaxMayHit:
		return fmt.Errorf("%d thousandths of a percent of keys that may be hit; hint: from 0 to %d", w.MayHit, MaxMayHit)
	}
	return nil
}

// Advice is a quota for a limit.
type Advice struct {
	// Needed is what all keys but the share that may be hit needed.
	Needed int64
	// Limit is the present limit with the quota that is recommended: Needed with the head-room,
	// rounded up by Rounded. Its burst is as much larger or smaller as its quota.
	Limit *limit.Limit
}

var (
	// ErrNothing is returned where nothing was asked of a limit.
	ErrNothing = errors.New("nothing was asked of it")
	// ErrDeniesAll is returned for limits of 0: they deny everything, and mean it.
	ErrDeniesAll = errors.New("it denies everything, whatever was asked")
)

// Advise returns a quota for a limit by what was asked of it. An error is ErrNothing,
// ErrDeniesAll, or says that the algorithm takes no such quota.
func Advise(l *limit.Limit, s *Seen, w Wish) (Advice, error) {
	switch {
	case l.Quota == 0:
		return Advice{}, ErrDeniesAll
	case len(s.needs) == 0:
		return Advice{}, ErrNothing
	}
	a := Advice{Needed: s.needs[s.Sampled()-1-s.mayHit(w)]}
	spec := l.Spec
	spec.Quota = Rounded(withHeadRoom(a.Needed, w.HeadRoom))
	switch l.Algorithm {
	case limit.TokenBucket, limit.GCRA:
		spec.Burst = scaled(l.Burst, spec.Quota, l.Quota)
	default:
		spec.Burst = 0 // what New has filled in, and does not take
	}
	var err error
	if a.Limit, err = limit.New(spec); err != nil {
		return a, fmt.Errorf("a quota of %d: %w", spec.Quota, err)
	}
	return a, nil
}

// mayHit returns how many of the keys that are known may be hit, rounded down.
func (s *Seen) mayHit(w Wish) int64 { return s.Sampled() * w.MayHit / 100_000 }

// withHeadRoom returns n and so many thousandths of it more, rounded up.
func withHeadRoom(n, headRoom int64) int64 { return scaled(n, 1000+headRoom, 1000) }

// scaled returns n*to/from rounded up, at most math.MaxInt64. None is negative, and from not 0.
func scaled(n, to, from int64) int64 {
	high, low := bits.Mul64(uint64(n), uint64(to))
	low, carry := bits.Add64(low, uint64(from-1), 0)
	if high += carry; high >= uint64(from) {
		return math.MaxInt64
	}
	quotient, _ := bits.Div64(high, low, uint64(from))
	return int64(min(quotient, math.MaxInt64))
}

// Rounded returns the next number from n on that a person would write: of one or two digits
// that are not 0, of which the second is 0 or 5 from 50 on (7, 36, 85, 120, 6500). It is less
// than a tenth larger than n, or one larger, and at least 1; from 10^18 on it is n.
func Rounded(n int64) int64 {
	const largest = 1_000_000_000_000_000_000
	if n < 1 {
		return 1
	}
	if n >= largest {
		return n
	}
	unit := int64(1)
	for n > 100*unit {
		unit *= 10
	}
	if n > 50*unit {
		unit *= 5
	}
	return (n + unit - 1) / unit * unit
}
