package headgate

import (
	"cmp"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/verdict"
)

// Speaker returns the verdict that speaks for the request; nil when nothing limited it.
//
// When one denies, it is the denying one with the longest retry-after, one that
// can never pass before all others; but a ban before them all, since it lasts, and
// a limit on concurrency after them all, since a slot may be free at any moment.
// Else it is the one with the smallest remaining, of equals the one with the
// longest reset; one of which clients are not told else (rules.Role.IsMain) only where
// there is no other. Verdicts without counts (degraded, unlimited, replaced) come last.
// One that is not enforced never speaks, nor does a quota rule that is over for a request
// that passed by another one.
func (r *Response) Speaker() *Verdict {
	var best *Verdict
	for i := range r.Verdicts {
		v := &r.Verdicts[i]
		if v.Enforced() && (v.Decision.Allowed || !r.Allowed) && (best == nil || speaksBefore(v, best)) {
			best = v
		}
	}
	return best
}

// SpeakerFor returns the verdict that speaks for descriptor i, by the order of Speaker. One
// that denies speaks also where nothing is enforced by this process (Verdict.Denied); one
// in shadow mode only where no enforced one has more to say, and one on trial never.
func (r *Response) SpeakerFor(i int) *Verdict {
	var best *Verdict
	for j := range r.Verdicts {
		v := &r.Verdicts[j]
		if v.Descriptor == i && v.Effect != verdict.Trial && (best == nil || speaksBefore(v, best)) {
			best = v
		}
	}
	return best
}

// speaksBefore is the order of Speaker.
func speaksBefore(a, b *Verdict) bool {
	if ra, rb := a.rank(), b.rank(); ra != rb {
		return ra < rb
	}
	da, db := &a.Decision, &b.Decision
	if a.Denied() {
		if da.Never != db.Never {
			return da.Never
		}
		return da.RetryAfter > db.RetryAfter
	}
	if c := cmp.Compare(da.Remaining, db.Remaining); c != 0 {
		return c < 0
	}
	return da.ResetAfter > db.ResetAfter
}

// notMain is added to the rank of verdicts that clients are told of only when they
// deny, or when there is nothing else to tell.
const notMain = 8

// rank orders verdicts by how much they have to say: a ban, a denial, one for want
// of a slot; then counts, shadow counts, a degraded answer, nothing.
func (v *Verdict) rank() int {
	if v.Denied() {
		switch v.Role {
		case rules.Banning:
			return 0
		case rules.InFlight:
			return 2
		}
		return 1
	}
	rank := 6
	switch {
	case v.Counted() && v.Enforced():
		rank = 3
	case v.Counted():
		rank = 4
	case v.Degraded != store.NoReason:
		rank = 5
	}
	if !v.Role.IsMain() {
		rank += notMain
	}
	return rank
}

// Soft returns what the rule wants done because this request, which passes, is
// above the soft limit; nil where it is not, and where there is none. It goes by
// the main limits of the rule that were counted and are enforced, and not by what a
// tenant has beyond them.
func (v *Verdict) Soft() *rules.Soft {
	if v.Rule == nil || v.Rule.Soft == nil || !v.Role.IsMain() || !v.Enforced() || !v.Decision.Allowed || !v.Counted() || v.Source.Beyond() {
		return nil
	}
	soft, d := v.Rule.Soft, &v.Decision
	if used := d.Limit - d.Remaining; used*100 < int64(soft.Percent)*d.Limit {
		return nil
	}
	return soft
}

// Degraded returns the reason of the first verdict that the store did not
// decide, or store.NoReason.
func (r *Response) Degraded() store.Reason {
	for i := range r.Verdicts {
		if reason := r.Verdicts[i].Degraded; reason != store.NoReason {
			return reason
		}
	}
	return store.NoReason
}

// Outcome returns what came of the request as a whole: one that passes though a limit in
// shadow mode denies is verdict.ShadowDenied, and one that the store has not decided in
// full is degraded, whatever else there is.
func (r *Response) Outcome() verdict.Outcome {
	switch {
	case len(r.Verdicts) > 0:
	case r.DomainKnown:
		return verdict.Unmatched
	default:
		return verdict.UnknownDomain
	}
	outcome := verdict.Allowed
	for i := range r.Verdicts {
		v := &r.Verdicts[i]
		switch {
		case v.Effect == verdict.Trial: // it speaks for nobody
		case v.Degraded != store.NoReason && r.Allowed:
			return verdict.DegradedAllowed
		case v.Degraded != store.NoReason:
			return verdict.DegradedDenied
		case !r.Allowed:
			outcome = verdict.Denied
		case v.Decision.Allowed || v.Enforced() || !v.TookPart():
		default:
			outcome = verdict.ShadowDenied
		}
	}
	return outcome
}
