package headgate

import (
	"math"
	"sync"
	"time"

	"github.com/headgate/headgate/limit"
)

const (
	// MaxReferenceLog is the largest quota of a sliding_window that is compared with a
	// sliding_log, which keeps eight bytes for each hit. Larger ones are compared with
	// themselves: what they approximate is not measured then, only how they are decided.
	MaxReferenceLog = 1000
	// wideCounter and wideLog are how many times the limit a reference can count, to
	// tell by how much it was exceeded: a counter is as small as before, and a log grows
	// to 32 KB. Buckets that drain owe about as much as wideCounter, see limit.Charge.
	wideCounter = 64
	wideLog     = 4
	// maxReferences bounds the limits whose references are remembered: 10 MB. When
	// there are more, as tenants get quotas of their own, they are made anew.
	maxReferences = 10_000
)

// reference is what the decisions of a limit are compared with: the same hits, counted in
// a bucket of their own, one by one in the store whatever the mode of the rule is. It is
// immutable.
type reference struct {
	limit *limit.Limit
	// exact says what should pass.
	exact *limit.Limit
	// wide charges to the same bucket what has passed, and tells how far that is beyond
	// exact.
	wide *limit.Limit
}

// newReference returns nil for a limit that cannot be measured: one of slots or of bans,
// and one that counts denied hits, as it means to let less pass than its quota.
func newReference(l *limit.Limit) *reference {
	if l.Algorithm == limit.Concurrency || l.Algorithm == limit.Ban || l.CountDenied {
		return nil
	}
	spec := specOf(l)
	// The numbers of exact and wide differ, and the state counts for both.
	spec.Carry = limit.CarryUsed
	if l.Algorithm == limit.SlidingWindow && l.Quota <= MaxReferenceLog {
		spec.Algorithm, spec.MaxDebt = limit.SlidingLog, 0
	}
	exact, err := limit.New(spec)
	if err != nil {
		return nil
	}
	return &reference{l, exact, widened(exact)}
}

// specOf returns a Spec that makes l.
func specOf(l *limit.Limit) limit.Spec {
	spec := l.Spec
	if l.Algorithm == limit.LeakyBucket {
		spec.Burst = 0 // it has one that nobody may ask for
	}
	return spec
}

// widened returns a limit that reads the states of l and does not end where it does. A
// bucket that drains tells by its time how full it is; with a larger burst it would not
// know that it owes.
func widened(l *limit.Limit) *limit.Limit {
	spec := specOf(l)
	spec.MaxDebt = 0
	switch {
	case l.Algorithm == limit.SlidingLog:
		spec.Quota = min(wideLog*l.Quota, limit.MaxLogQuota)
	case !l.Algorithm.IsBucket():
		spec.Quota = min(wideCounter*l.Quota, limit.MaxQuota)
	}
	wide, err := limit.New(spec)
	if err != nil {
		return l
	}
	return wide
}

// approximated reports whether the limit approximates what the reference counts.
func (r *reference) approximated() bool { return r.limit.Algorithm != r.exact.Algorithm }

// overshoot returns how far beyond the limit what has passed is, as a share of it, given
// what a charge by wide says.
func (r *reference) overshoot(d *limit.Decision) float64 {
	whole := float64(r.exact.Capacity())
	over := float64(r.wide.Capacity()-d.Remaining) - whole
	if r.exact.Algorithm.IsBucket() {
		over = owed(r.exact, d.ResetAfter)
	}
	return max(over, 0) / max(whole, 1)
}

// owed returns how many hits a bucket holds beyond what it may, at least, given the time
// until it is as if unused, which is rounded up to the microsecond.
func owed(l *limit.Limit, reset time.Duration) float64 {
	whole, part := l.Tolerance()
	num, den := l.EmissionInterval()
	beyond := reset.Microseconds() - 1 - whole
	return math.Ceil((float64(beyond)*float64(den) - float64(part)) / float64(num))
}

// references remembers the references of limits.
type references struct {
	mu sync.RWMutex
	by map[*limit.Limit]*reference // nil: cannot be measured
}

// of returns the reference of l; nil where it cannot be measured.
func (r *references) of(l *limit.Limit) *reference {
	r.mu.RLock()
	ref, ok := r.by[l]
	r.mu.RUnlock()
	if ok {
		return ref
	}
	ref = newReference(l)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by == nil || len(r.by) >= maxReferences {
		r.by = make(map[*limit.Limit]*reference)
	}
	r.by[l] = ref
	return ref
}
