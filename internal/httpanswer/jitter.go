package httpanswer

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// maxJitter bounds what is added: it spreads any crowd, and who is denied until tomorrow
// need not wait two hours longer.
const maxJitter = time.Minute

const (
	// defaultShare is the Share of a Jitter where nobody says otherwise.
	defaultShare = 0.1
	// ExactRetry stands for a Share of 0 where 0 stands for defaultShare.
	ExactRetry = -1
)

// ShareOf returns the Share of a Jitter that a library's option means, whose zero value is
// defaultShare: a crowd is spread unless somebody says that it is not.
func ShareOf(option float64) float64 {
	switch option {
	case 0:
		return defaultShare
	case ExactRetry:
		return 0
	}
	return option
}

// Jitter lengthens retry times by a random share of themselves, so that a crowd that was
// denied together does not return together. Never by less than nothing: who waits for the
// time told is not early. The zero value lengthens nothing.
type Jitter struct {
	// Share is the most that is added, from 0 (nothing) to 1 (as much again).
	Share float64
	// Random returns a number in [0, 1), from many goroutines; nil means math/rand/v2.
	Random func() float64
}

func (j Jitter) check() error {
	if !(j.Share >= 0 && j.Share <= 1) {
		return fmt.Errorf("answer options: jitter %v; hint: a fraction from 0 to 1", j.Share)
	}
	return nil
}

// maxSeconds is the most that a time.Duration holds.
const maxSeconds = int64(math.MaxInt64 / time.Second)

// Lengthen returns d with a random share added, at most a minute and at most the largest
// time.Duration; and the same in whole seconds, as header fields have it. There d is
// rounded up and what is added down: a wait of a second does not become two.
func (j Jitter) Lengthen(d time.Duration) (longer time.Duration, seconds int64) {
	if j.Share == 0 || d <= 0 {
		return d, CeilSeconds(d)
	}
	random := j.Random
	if random == nil {
		random = rand.Float64
	}
	extra := min(time.Duration(float64(d)*j.Share*random()), maxJitter, math.MaxInt64-d)
	return d + extra, min(CeilSeconds(d)+int64(extra/time.Second), maxSeconds)
}
