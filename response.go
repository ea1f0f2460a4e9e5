package headgate

import (
	"cmp"

	"github.com/headgate/headgate/store"
)

// Decisive returns the verdict that speaks for descriptor i of the request, or
// for the whole request when i is negative; nil when nothing limited it.
//
// When one denies, it is the denying one with the longest retry-after, one that
// can never pass before all others; else the one with the smallest remaining,
// of equals the one with the longest reset. A verdict in shadow mode speaks for
// its descriptor only when no enforced one does, and never for the request.
// Verdicts without counts (degraded, unlimited, replaced) come last. A quota
// rule that is over does not speak for a request that passed by another one.
func (r *Response) Decisive(i int) *Verdict {
	var best *Verdict
	for j := range r.Verdicts {
		v := &r.Verdicts[j]
		if i >= 0 && v.Descriptor != i {
			continue
		}
		if i < 0 && (!v.Enforced || r.Allowed && v.OverLimit()) {
			continue
		}
		if best == nil || speaksBefore(v, best) {
			best = v
		}
	}
	return best
}

// speaksBefore is the order of Decisive.
func speaksBefore(a, b *Verdict) bool {
	if ra, rb := a.rank(), b.rank(); ra != rb {
		return ra < rb
	}
	da, db := &a.Decision, &b.Decision
	if a.OverLimit() {
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

// rank orders verdicts by how much they have to say: a denial, counts, shadow
// counts, a degraded answer, nothing.
func (v *Verdict) rank() int {
	switch {
	case v.OverLimit():
		return 0
	case v.Counted() && v.Enforced:
		return 1
	case v.Counted():
		return 2
	case v.Degraded != store.NoReason:
		return 3
	}
	return 4
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

// settle sets Allowed from the verdicts: denied by any enforced verdict, except
// that quota rules (Envoy's quota_mode) deny only when all of them are over.
func (r *Response) settle() {
	r.Allowed = true
	quotas, quotasOver := 0, 0
	for i := range r.Verdicts {
		v := &r.Verdicts[i]
		if v.Rule != nil && v.Rule.Quota && !v.Replaced && v.Limit != nil {
			quotas++
			if v.OverLimit() {
				quotasOver++
			}
			continue
		}
		if v.OverLimit() {
			r.Allowed = false
		}
	}
	if quotas > 0 && quotas == quotasOver {
		r.Allowed = false
	}
}
