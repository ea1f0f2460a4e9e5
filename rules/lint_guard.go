package rules

import "github.com/headgate/headgate/limit"

// guards warns of limits beside the main ones that do nothing, or more than is
// probably meant.
func (l *linter) guards(r *Rule) {
	l.sharedBan(r)
	l.unreachedSustained(r)
	l.lateSoft(r)
}

// place is where a rule stands.
func (r *Rule) place() position {
	if r.node == nil {
		return position{line: r.Line, column: 1}
	}
	return position{r.Line, r.node.at.column}
}

// sharedBan warns of a ban on a bucket that all clients share: one of them gets
// all of them banned.
func (l *linter) sharedBan(r *Rule) {
	if r.limitOf(Banning) == nil || r.tellsClientsApart() {
		return
	}
	l.warn(r.File, r.place(), "move ban to a descriptor whose values are clients, such as user, api_key or remote_address",
		"the ban of rule %s is for all requests that reach it, so that denials of one client ban every other", r.ID)
}

// tellsClientsApart reports whether an entry with more than one value names the
// buckets of r.
func (r *Rule) tellsClientsApart() bool {
	if r.node == nil {
		return false
	}
	for n := r.node; n.parent != nil; n = n.parent {
		if !n.share && (n.match != matchValue || n.pattern != nil) {
			return true
		}
	}
	return false
}

// limitOf returns the first limit of r that has a role, nil if there is none.
func (r *Rule) limitOf(role Role) *limit.Limit {
	for i := range r.Limits {
		if r.Limits[i].Role == role {
			return r.Limits[i].Limit
		}
	}
	return nil
}

// unreachedSustained warns of a limit on time in flight that the limit on
// concurrency lets nobody reach.
func (l *linter) unreachedSustained(r *Rule) {
	slots := r.limitOf(InFlight)
	if slots == nil {
		return
	}
	for i := range r.Limits {
		n := &r.Limits[i]
		if n.Role == Sustained && n.Quota/n.Period.Milliseconds() >= slots.Quota {
			l.warn(r.File, r.place(), "write a smaller concurrency in the entry of secondary_limits, or delete it",
				"a limit of rule %s is never reached: %s, when no more than %d are at any time", r.ID, n, slots.Quota)
		}
	}
}

// lateSoft warns of a soft limit so close to a small limit that it is reached by
// the last request alone.
func (l *linter) lateSoft(r *Rule) {
	if r.Soft == nil {
		return
	}
	for i := range r.Limits {
		n := &r.Limits[i]
		if n.Role != Main || n.Algorithm == limit.LeakyQueue || n.Quota == 0 {
			continue
		}
		most := hitsAtOnce(n.Limit)
		if most < maxLateSoft && most*int64(r.Soft.Percent) > (most-1)*100 {
			l.warn(r.File, r.place(), "lower its percentage, or delete it: so small a limit has no room for a threshold below it",
				"the soft limit of rule %s is reached only by the last of %s, after which requests are denied", r.ID, countOf(most, "hit"))
			return
		}
	}
}

// maxLateSoft is above every limit at which 99%, the highest threshold, is only
// reached by the last hit.
const maxLateSoft = 100
