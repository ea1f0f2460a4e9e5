package accuracy

import (
	"sync"

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

// ReferenceOf returns the limit that decisions on l are compared with: a sliding_log for
// a sliding_window with a quota of MaxReferenceLog at most, which so is measured for what
// it approximates, else one of the same algorithm. It returns nil where l is not measured.
func ReferenceOf(l *limit.Limit) *limit.Limit {
	if ref := newReference(l); ref != nil {
		return ref.exact
	}
	return nil
}

// overshoot returns how far beyond the limit what has passed is, as a share of it, given
// what a charge by wide says.
func (r *reference) overshoot(d *limit.Decision) float64 {
	whole := r.exact.Capacity()
	over := r.wide.Capacity() - d.Remaining - whole
	if r.exact.Algorithm.IsBucket() {
		over = r.exact.Owed(d.ResetAfter)
	}
	return float64(max(over, 0)) / float64(max(whole, 1))
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
