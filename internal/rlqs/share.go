package rlqs

import (
	"math"
	"slices"
)

// maxMin divides capacity among wants by max-min fairness and returns the part of want, which
// is one of them: what it wants, or where not all get that, as much as everybody gets at most.
// What cannot be divided is left, but the last whole hit is for who asks.
func maxMin(capacity int64, wants []int64, want int64) int64 {
	slices.Sort(wants)
	left := capacity
	for i, w := range wants {
		level := left / int64(len(wants)-i)
		if w > level {
			return min(want, max(level, min(left, 1)))
		}
		left -= w
	}
	return want
}

// tokens is a token bucket of Envoy: it holds Max at most, and gets Fill in each interval,
// evenly. It begins full; one in place of another has the same part of its Max.
type tokens struct{ Max, Fill uint32 }

// promise is how many requests t lets pass in an interval that begins with that part of Max.
func (t tokens) promise(part float64) int64 { return int64(part*float64(t.Max)) + int64(t.Fill) }

// tokensFor returns the bucket that begins with part of its Max and lets hits pass in an
// interval, of them burst at once at most. Both are at least 1, so that a promise of 1 may
// become one of 2.
func tokensFor(hits, burst int64, part float64) tokens {
	hits, burst = min(max(hits, 1), math.MaxUint32), min(max(burst, 1), math.MaxUint32)
	fill := int64(float64(hits) / (1 + part))
	if fill > burst {
		return tokens{Max: uint32(burst), Fill: uint32(hits - int64(part*float64(burst)))}
	}
	fill = max(fill, 1)
	return tokens{Max: uint32(fill), Fill: uint32(fill)}
}

// like reports whether t and o differ by a tenth at most, so that it is not worth while to
// tell a stream of it.
func (t tokens) like(o tokens) bool { return near(t.Max, o.Max) && near(t.Fill, o.Fill) }

func near(a, b uint32) bool { return math.Abs(float64(a)-float64(b)) <= 0.1*float64(max(a, b)) }
