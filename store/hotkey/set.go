package hotkey

import (
	"encoding/binary"
	"math"
	"sync"
)

const (
	// ways is the number of keys in a set.
	ways = 8
	// ticksPerHalfLife is the fineness of the decay: counts are up to 1.1 % above
	// what a smooth decay makes of them.
	ticksPerHalfLife = 64
)

// set is a small table of the heaviest among the keys that fall to it.
type set struct {
	mu     sync.Mutex
	cells  [ways]cell
	random uint64
}

// cell tracks one key. The zero cell is free: its weight is 0.
type cell struct {
	first, second uint64 // the key
	// count is what was asked since the key has been tracked, weight that and
	// what it has taken over; both decayed up to tick.
	count, weight float64
	tick          int64
	hot           bool
}

// find returns the cell of a key, or nil.
func (s *set) find(first, second uint64) *cell {
	for i := range s.cells {
		if c := &s.cells[i]; c.first == first && c.second == second && c.weight > 0 {
			return c
		}
	}
	return nil
}

// admit returns the lightest cell, cleared for a new key that was asked n times,
// or nil if that key has no luck.
func (s *set) admit(n float64, tick int64) *cell {
	lightest := &s.cells[0]
	for i := range s.cells {
		c := &s.cells[i]
		c.decayTo(tick)
		if c.weight < lightest.weight {
			lightest = c
		}
	}
	if s.draw()*(n+lightest.weight) >= n {
		return nil
	}
	lightest.count, lightest.hot = 0, false
	return lightest
}

// draw returns a number from [0, 1), by Steele, Lea and Flood, "Fast splittable
// pseudorandom number generators" (2014): splitmix64.
func (s *set) draw() float64 {
	s.random += 0x9e3779b97f4a7c15
	z := s.random
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	return float64(z>>11) / (1 << 53)
}

// decays are the factors of less than a half-life.
var decays = func() (f [ticksPerHalfLife]float64) {
	for i := range f {
		f[i] = math.Exp2(-float64(i) / ticksPerHalfLife)
	}
	return f
}()

// decayTo moves c on to tick. A clock that steps back does not: until it has
// caught up nothing decays, and after a step of more than a half-life the cell
// goes on from the new time, so that no key stays hot for ever.
func (c *cell) decayTo(tick int64) {
	passed := tick - c.tick
	if passed == 0 {
		return
	}
	if passed < 0 {
		if passed < -ticksPerHalfLife {
			c.tick = tick
		}
		return
	}
	c.tick = tick
	factor := decays[passed%ticksPerHalfLife]
	if lives := passed / ticksPerHalfLife; lives > 0 {
		factor = math.Ldexp(factor, -int(min(lives, math.MaxInt16)))
	}
	c.count *= factor
	c.weight *= factor
}

// key returns the key of c as it was given.
func (c *cell) key() (k Key) {
	binary.LittleEndian.PutUint64(k[:8], c.first)
	binary.LittleEndian.PutUint64(k[8:], c.second)
	return k
}
