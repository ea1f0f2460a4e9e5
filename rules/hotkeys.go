package rules

import "github.com/headgate/headgate/limit"

// HotKeys says what is done for a key of an exact rule that is asked for very often.
type HotKeys uint8

const (
	// HotAuto leases the bucket of such a key where that harms nobody, see
	// Rule.LeasesHot (default).
	HotAuto HotKeys = iota
	// HotCoalesce decides each request in the shared store; those at the same time
	// share round trips (`hot_keys: coalesce`, and `consistency: exact` where it is
	// written).
	HotCoalesce
	// HotLease leases the bucket (`hot_keys: lease`).
	HotLease
)

// Of limits that are smaller in both a hot bucket is not leased unless the rule says so:
// next to nothing could be shared out, and nearly all that is asked is denied.
const (
	minHotAtOnce    = 1000 // hits at once
	minHotPerSecond = 10   // hits that come back in a second
)

// tooSmall reports whether hits of l are too few to be leased to several nodes.
func tooSmall(l *limit.Limit) bool {
	return l.Capacity() < minHotAtOnce && float64(l.Quota) < minHotPerSecond*l.Period.Seconds()
}

// String returns the word that rules use.
func (h HotKeys) String() string {
	return [...]string{"auto", "coalesce", "lease"}[h]
}

// LeasesHot reports whether a bucket of r may be leased while it is hot. By itself it
// may, unless the rule says otherwise or every request asks the store anyway:
//
//   - a sensitive rule, and one that remembers no denials, is decided request by
//     request;
//   - small limits have nothing to share out, and what is denied is remembered anyway;
//   - sub-buckets relieve hot keys already;
//   - where one of its limits cannot be leased the store is asked all the same, and a
//     ban counts what is denied, which shall not be what waits for a lease.
func (r *Rule) LeasesHot() bool {
	switch {
	case r.Mode.Consistency != Exact:
		return false
	case r.Mode.HotKeys != HotAuto:
		return r.Mode.HotKeys == HotLease
	case r.Sensitive || r.Mode.AskAlways || r.Mode.SubBuckets > 0:
		return false
	}
	for i := range r.Limits {
		if l := r.Limits[i].Limit; !l.Leasable() || tooSmall(l) {
			return false
		}
		switch r.Limits[i].Role {
		case Main, Candidate, Secondary:
		default:
			return false
		}
	}
	return true
}
