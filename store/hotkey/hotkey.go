// Package hotkey finds the few keys that get much of the load, in memory that
// does not grow with the number of keys.
//
// # Rates
//
// A key that is tracked has a count of what was asked for it since it has been
// tracked, which decays by half in every HalfLife; its rate is that count
// divided by HalfLife/ln 2, to which the count of a steady rate tends. So a rate
// is never overestimated by more than the step of the decay (1.1 %), whatever
// other keys do, and a steady key at twice Options.Rate is found one HalfLife
// after it has been tracked, one at ten times that in a seventh of it. A burst
// counts as what it adds to the average: 1.44 times Rate times HalfLife in
// seconds, at one instant, make a key hot.
//
// # Memory
//
// Options.Tracked keys are told apart, in sets of eight. A key that is not
// tracked takes the place of the lightest key of its set, with a probability of
// n/(n+w) for n asks and a weight of w, and takes its weight over too, which is
// the bound of what may have been asked for it before. So keys that are asked
// once each, a million of them in a second, raise the weights of their sets only
// to about the square root of their number; a key that is really hot outweighs
// them and stays, and one that becomes hot is tracked after about as many asks
// as the lightest of its set weighs.
//
// What may be missed: a ninth hot key of one set. The sets are chosen by a seed
// drawn for each Detector, so nobody outside can aim at one; for a quarter of
// Tracked hot keys at once, which is 64 by default, the probability that any set
// has more than eight is below 1 %.
//
// Time is an argument: the package reads no clock.
package hotkey

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"
)

// Defaults and bounds of Options.
const (
	DefaultTracked  = 256
	DefaultRate     = 1000
	DefaultHalfLife = time.Second
	// MinShare is the least part of Options.Rate from which a key is hot, however
	// many nodes there are.
	MinShare = 0.1
	// MaxTracked bounds Options.Tracked: 65,536 keys take 3 MiB.
	MaxTracked = 1 << 16
)

// Options configures a Detector. The zero value of each field is its default.
type Options struct {
	// Tracked bounds the keys that are told apart; default 256. It is rounded up
	// to eight times a power of two, and at most MaxTracked.
	Tracked int
	// Rate in asks per second from which a key is hot; default 1000. It is that of
	// all nodes: on each a key is hot from its part on, but from a tenth of Rate at
	// the earliest.
	Rate float64
	// Nodes says how many nodes share the load; it is called often, by many
	// goroutines. Nil, and any answer below 1, mean 1.
	Nodes func() int
	// HalfLife is the time in which a key that is no longer asked loses half of
	// its rate; default 1 s.
	HalfLife time.Duration
}

// Key is a hashed key.
type Key [16]byte

// Detector is safe for concurrent use. Make one with New.
type Detector struct {
	sets []set
	// seed and shift choose the set of a key.
	seed  [2]uint64
	shift uint
	// tick is the step in which counts decay.
	tick time.Duration
	// hot is the count at which a key becomes hot where there is one node; at half
	// of it it stops to be.
	hot   float64
	nodes func() int
	// base is the first instant that was seen, from which ticks are counted.
	base atomic.Pointer[time.Time]
}

// New returns a Detector that has seen nothing.
func New(o Options) *Detector {
	return newSeeded(o, [2]uint64{rand.Uint64(), rand.Uint64()})
}

func newSeeded(o Options, seed [2]uint64) *Detector {
	o.Tracked = cmp.Or(max(o.Tracked, 0), DefaultTracked)
	if !(o.Rate > 0) {
		o.Rate = DefaultRate
	}
	o.HalfLife = cmp.Or(max(o.HalfLife, 0), DefaultHalfLife)
	perSet := (min(o.Tracked, MaxTracked) + ways - 1) / ways
	setBits := uint(bits.Len(uint(perSet - 1)))
	d := &Detector{
		sets:  make([]set, 1<<setBits),
		seed:  [2]uint64{seed[0], seed[1] | 1},
		shift: 64 - setBits,
		tick:  max(o.HalfLife/ticksPerHalfLife, 1),
	}
	d.hot, d.nodes = o.Rate*d.meanLife(), o.Nodes
	for i := range d.sets {
		d.sets[i].random = seed[0] + uint64(i)<<32
	}
	return d
}

// meanLife is the seconds by which a count is divided to get a rate.
func (d *Detector) meanLife() float64 {
	return (d.tick * ticksPerHalfLife).Seconds() / math.Ln2
}

// threshold is the count at which a key becomes hot on this node.
func (d *Detector) threshold() float64 {
	if d.nodes == nil {
		return d.hot
	}
	return d.hot * max(1/float64(max(d.nodes(), 1)), MinShare)
}

// Observe notes n asks for key at now and reports whether it is hot. A key stays
// hot until its rate has fallen to half of that from which it is. With n <= 0 it
// only reports.
func (d *Detector) Observe(key Key, n int64, now time.Time) (hot bool) {
	first, second := binary.LittleEndian.Uint64(key[:8]), binary.LittleEndian.Uint64(key[8:])
	tick, from := d.tickAt(now), d.threshold()
	s := &d.sets[d.setOf(first, second)]
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.find(first, second)
	if c == nil {
		if n <= 0 {
			return false
		}
		if c = s.admit(float64(n), tick); c == nil {
			return false
		}
		c.first, c.second = first, second
	}
	c.decayTo(tick)
	if n > 0 {
		c.count += float64(n)
		c.weight += float64(n)
	}
	c.hot = c.count >= from || c.hot && c.count > from/2
	return c.hot
}

// setOf mixes a key with the seed: whoever chooses keys cannot choose sets.
func (d *Detector) setOf(first, second uint64) int {
	high, low := bits.Mul64(first^d.seed[0], second^d.seed[1])
	return int(((high ^ low) * d.seed[1]) >> d.shift)
}

// tickAt returns now as ticks since the first instant that was seen.
func (d *Detector) tickAt(now time.Time) int64 {
	base := d.base.Load()
	if base == nil {
		first := now
		d.base.CompareAndSwap(nil, &first)
		base = d.base.Load()
	}
	return int64(now.Sub(*base) / d.tick)
}

// Hot is a hot key and its rate per second.
type Hot struct {
	Key  Key
	Rate float64
}

// Hot returns the keys that are hot at now, the hottest first; at most
// Options.Tracked.
func (d *Detector) Hot(now time.Time) []Hot {
	tick, perSecond, cool := d.tickAt(now), 1/d.meanLife(), d.threshold()/2
	var list []Hot
	for i := range d.sets {
		s := &d.sets[i]
		s.mu.Lock()
		for j := range s.cells {
			c := &s.cells[j]
			if c.decayTo(tick); c.hot && c.count > cool {
				list = append(list, Hot{Key: c.key(), Rate: c.count * perSecond})
			}
		}
		s.mu.Unlock()
	}
	slices.SortFunc(list, func(a, b Hot) int { return cmp.Compare(b.Rate, a.Rate) })
	return list
}
