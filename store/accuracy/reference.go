package accuracy

import "github.com/headgate/headgate/limit"

const (
	// MaxReferenceLog is the largest quota that is compared with a sliding_log, which
	// keeps eight bytes for each hit: 8 KB.
	MaxReferenceLog = 1000
	// ReferenceParts are the parts of the period in which a sliding_window of a larger
	// quota is counted for comparison, by sub_windows: half a kilobyte, whatever the
	// quota is. Of hits that passed longer ago than the period none counts but for those
	// of one part, which leave evenly.
	ReferenceParts = limit.MaxSubWindows
	// wideCounter and wideLog are how many times the limit a reference can count, to
	// tell by how much it was exceeded: a counter is as small as before, and a log grows
	// to 32 KB. Buckets that drain owe about as much as wideCounter, see limit.Charge.
	wideCounter = 64
	wideLog     = 4
	// maxReferences bounds the limits whose references are remembered: 10 MB. When
	// there are more, as tenants get quotas of their own, some are made anew.
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
// and one that counts denied hits, as it means to let less pass than its quota. Where the
// store does not take what counts more exactly, a limit has a reference like itself.
func newReference(l *limit.Limit, supports func(*limit.Limit) bool) *reference {
	if l.Algorithm == limit.Concurrency || l.Algorithm == limit.Ban || l.CountDenied {
		return nil
	}
	spec := specOf(l)
	// The numbers of exact and wide differ, and the state counts for both.
	spec.Carry = limit.CarryUsed
	for _, spec := range []limit.Spec{closer(spec), spec} {
		if exact, err := limit.New(spec); err == nil && supports(exact) {
			return &reference{l, exact, widened(exact)}
		}
	}
	return nil
}

// closer returns what counts more exactly than an algorithm that approximates, in memory
// that is bounded whatever the quota is; spec itself for others.
func closer(spec limit.Spec) limit.Spec {
	switch approximates := spec.Algorithm == limit.SlidingWindow || spec.Algorithm == limit.SubWindows; {
	case approximates && spec.Quota <= MaxReferenceLog:
		spec.Algorithm, spec.MaxDebt, spec.SubWindows, spec.Strict = limit.SlidingLog, 0, 0, false
	case spec.Algorithm == limit.SlidingWindow:
		spec.Algorithm, spec.MaxDebt, spec.SubWindows = limit.SubWindows, 0, ReferenceParts
	}
	return spec
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

// Approximation returns by how much hits that pass l may exceed it, as a share of it and as
// reference has it, where every decision is made as the algorithm of l says: 0 where the
// reference is one like l.
func Approximation(l, reference *limit.Limit) float64 {
	switch {
	case reference.Algorithm == l.Algorithm || l.Strict:
		return 0 // sub_windows that are strict let no period exceed the limit
	case reference.Algorithm == limit.SubWindows:
		return 1 + 1.0/ReferenceParts // which count hits of a period and a part
	default:
		return 1 // sliding_window: limit x (1 + t / period); sub_windows: a period is two of what they hold to the limit
	}
}

// ReferenceOf returns the limit that decisions on l are compared with. A sliding_window and
// sub_windows are measured for what they approximate: by a sliding_log up to a quota of
// MaxReferenceLog, and a larger sliding_window by sub_windows of ReferenceParts. Larger
// sub_windows, algorithms that approximate nothing, and what the store has nothing more
// exact for have one like themselves. It returns nil where l is not measured.
func (s *Store) ReferenceOf(l *limit.Limit) *limit.Limit {
	if ref, _ := s.references.Get(l); ref != nil {
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
