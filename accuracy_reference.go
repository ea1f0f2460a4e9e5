package headgate

import (
	"sync"

	"github.com/headgate/headgate/limit"
)

const (
	// MaxReferenceLog is the largest quota of a sliding_window that is compared with a
	// sliding_log, which keeps eight bytes for each hit. Larger ones are compared with
	// themselves: what they approximate is not measured then, only how they are decided.
	MaxReferenceLog = 1000
	// wideCounter and wideLog are by how much more than the limit a reference can
	// count, to tell by how much it was exceeded: a counter is as small as before, and a
	// log grows to 32 KB.
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
	// wide counts in the same bucket what has passed beyond exact.
	wide *limit.Limit
}

// newReference returns nil for a limit that cannot be measured: one of slots or of bans,
// and one that counts denied hits, as it means to let less pass than its quota.
func newReference(l *limit.Limit) *reference {
	if l.Algorithm == limit.Concurrency || l.Algorithm == limit.Ban || l.CountDenied {
		return nil
	}
	spec := l.Spec
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

// widened returns a limit that reads the states of l and does not end where it does.
func widened(l *limit.Limit) *limit.Limit {
	spec := l.Spec
	spec.MaxDebt = 0
	switch {
	case l.Algorithm == limit.SlidingLog:
		spec.Quota = min(wideLog*l.Quota, limit.MaxLogQuota)
	case l.Algorithm.IsBucket():
		spec = limit.Spec{Algorithm: limit.GCRA, Quota: l.Quota, Period: l.Period, Burst: min(wideCounter*l.Capacity(), limit.MaxBucketQuota)}
	default:
		spec.Quota = min(wideCounter*l.Quota, limit.MaxQuota)
	}
	wide, err := limit.New(spec)
	if err != nil {
		return l // such as a burst that drains in years
	}
	return wide
}

// approximated reports whether the limit approximates what the reference counts.
func (r *reference) approximated() bool { return r.limit.Algorithm != r.exact.Algorithm }

// overshoot returns how far beyond the limit what has passed is, as a share of it, given
// what a peek by wide says.
func (r *reference) overshoot(d *limit.Decision) float64 {
	whole := r.exact.Capacity()
	return float64(max(r.wide.Capacity()-d.Remaining-whole, 0)) / float64(max(whole, 1))
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
