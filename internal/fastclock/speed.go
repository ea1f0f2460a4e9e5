package fastclock

import "math/bits"

// instant is an instant by both clocks.
type instant struct {
	ticks uint64 // of the counter
	nanos int64  // of the runtime's clock
}

const (
	// life is for how many ticks an anchor is read from. Products with a scale stay
	// below 2^54.
	life = 1 << 20
	// scaleShift is how many bits of a scale are behind the point.
	scaleShift = 32
	// learnTicks is how far apart the instants are by which the speed is measured. Each
	// may be off by half of maxRead: the speed is then off by 122 millionths, and a
	// reading at the end of an anchor's life by 128 ticks.
	learnTicks = 1 << 24
	// minScale and maxScale bound the speeds that are believed: 8 and 0.5 GHz.
	minScale = 1 << (scaleShift - 3)
	maxScale = 1 << (scaleShift + 1)
	// slackPart and slackNanos say when the clocks have parted: by more than a part of
	// 1024 of the time since the last anchor, and what reading it and this one may have
	// been off. The runtime's clock may be slewed, by 500 millionths at most.
	slackPart  = 1 << 10
	slackNanos = 2 * maxRead
)

// speed measures how long a tick of the counter is.
type speed struct {
	first, last instant
	scale       uint64 // ns for each tick, times 2^scaleShift; 0 is not known
}

// learn takes in an instant that is later than the last.
func (s *speed) learn(at instant) {
	if s.scale != 0 && s.parted(at) {
		*s = speed{}
	}
	if s.scale == 0 {
		s.measure(at)
	}
	s.last = at
}

// parted reports whether the clocks have moved since the last instant by what cannot be the
// same time.
func (s *speed) parted(at instant) bool {
	whole, fraction := bits.Mul64(at.ticks-s.last.ticks, s.scale)
	if whole >= 1<<(scaleShift-1) {
		return true // the counter has gone back, or on by centuries
	}
	nanos := at.nanos - s.last.nanos
	off := int64(whole<<(64-scaleShift)|fraction>>scaleShift) - nanos
	return max(off, -off) > nanos/slackPart+slackNanos
}

// measure finds the scale as soon as at is far enough from the first instant.
func (s *speed) measure(at instant) {
	ticks, nanos := at.ticks-s.first.ticks, at.nanos-s.first.nanos
	if s.first == (instant{}) || ticks >= 1<<63 {
		s.first = at
		return
	}
	if ticks < learnTicks {
		return
	}
	if whole := uint64(nanos) >> (64 - scaleShift); nanos > 0 && whole < ticks {
		scale, _ := bits.Div64(whole, uint64(nanos)<<scaleShift, ticks)
		if scale >= minScale && scale <= maxScale {
			s.scale = scale
			return
		}
	}
	s.first = at
}
