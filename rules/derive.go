package rules

import (
	"math/bits"
	"sync/atomic"

	"github.com/headgate/headgate/limit"
)

// scaledKey names a limit of a rule as a factor makes it.
type scaledKey struct {
	limit  *limit.Limit
	factor Factor
}

// derivation is what a limit is made from: a spec, and what a rule makes of it.
type derivation struct {
	spec    limit.Spec
	factor  Factor
	carry   limit.Carry
	maxDebt int64
}

// limit makes the limit.
func (d *derivation) limit() (*limit.Limit, error) {
	s := d.spec
	s.Carry, s.MaxDebt = d.carry, d.maxDebt
	if d.factor != NoFactor {
		most := mostOf(s.Algorithm)
		s.Quota, s.Burst = d.factor.of(s.Quota, most), d.factor.of(s.Burst, most)
	}
	if s.Algorithm == limit.LeakyBucket {
		s.Burst = 0 // it has one, and takes none
	}
	return limit.New(s)
}

// mostOf returns the largest quota and burst of an algorithm.
func mostOf(a limit.Algorithm) int64 {
	switch {
	case a == limit.SlidingLog:
		return limit.MaxLogQuota
	case a.IsBucket():
		return limit.MaxBucketQuota
	}
	return limit.MaxQuota
}

// of returns n times f, rounded half up: at least 1 unless n is 0, at most most, which
// n is not above.
func (f Factor) of(n, most int64) int64 {
	if n == 0 {
		return 0
	}
	high, low := bits.Mul64(uint64(n), uint64(f))
	low, carry := bits.Add64(low, uint64(NoFactor)/2, 0)
	if high += carry; high >= uint64(NoFactor) {
		return most
	}
	scaled, _ := bits.Div64(high, low, uint64(NoFactor))
	return int64(min(max(scaled, 1), uint64(most)))
}

// The limits that rules make of quotas of tenants are remembered in derivedSets times
// derivedWays places, by what they are made from. Tenants have few different quotas as
// a rule; where there are more, some are made anew for each request.
const (
	derivedSets = 1024
	derivedWays = 4
)

// derivedLimits remembers limits that are made from others. It is safe for concurrent
// use.
type derivedLimits struct {
	sets  [derivedSets][derivedWays]atomic.Pointer[derived]
	turns atomic.Uint32
}

// derived is a limit that was made.
type derived struct {
	from  derivation
	limit *limit.Limit
}

// place returns the set in which what d makes is kept. Operators choose what goes into
// it, so it need not be hard to guess.
func (d *derivation) place() int {
	h := uint64(14695981039346656037)
	for _, n := range [...]int64{d.spec.Quota, int64(d.spec.Period), d.spec.Burst, int64(d.spec.Algorithm), int64(d.factor)} {
		h = (h ^ uint64(n)) * 0x9e3779b97f4a7c15
		h ^= h >> 32
	}
	return int(h % derivedSets)
}

// of returns what d, whose spec is that of l, makes of l. A quota that cannot be so
// large or small, or have such a debt, stays as it is.
func (m *derivedLimits) of(l *limit.Limit, d derivation) *limit.Limit {
	set := &m.sets[d.place()]
	free := -1
	for i := range set {
		if kept := set[i].Load(); kept == nil {
			free = i
		} else if kept.from == d {
			return kept.limit
		}
	}
	if free < 0 {
		free = int(m.turns.Add(1) % derivedWays)
	}
	made := &derived{from: d, limit: l}
	for _, try := range [...]derivation{
		d, {d.spec, d.factor, d.carry, d.spec.MaxDebt}, {d.spec, NoFactor, d.carry, d.maxDebt}, {d.spec, NoFactor, d.carry, d.spec.MaxDebt},
	} {
		if limit, err := try.limit(); err == nil {
			made.limit = limit
			break
		}
	}
	set[free].Store(made)
	return made.limit
}
