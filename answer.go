package headgate

import (
	"cmp"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/trace"
	"github.com/headgate/headgate/verdict"
)

// answerAll is answer for all requests of the batch.
func (b *batch) answerAll(responses []Response) {
	for i := range responses {
		b.answer(&responses[i], b.spans[i].verdicts)
	}
}

// answer fills the verdicts of resp from the results of the store.
func (b *batch) answer(resp *Response, s span) {
	for i := range resp.Verdicts {
		t := b.verdictTake[s.from+i]
		if t < 0 {
			continue
		}
		v, r, op := &resp.Verdicts[i], &b.results[t], b.takes[t].Op
		switch {
		case r.Err == nil:
			v.decide(&r.Decision, deciderOf(r), r.Skipped)
			answerTo(&v.Decision, op)
		case b.locally[t] != verdict.ByStore:
			v.failLocally(r, op, b.locally[t])
		default:
			v.fail(op, store.ReasonOf(r.Err))
		}
	}
	resp.merge()
	b.answerHold(resp, s)
}

// deciderOf says who decided r, which the store did.
func deciderOf(r *store.Result) verdict.Decider {
	if r.Basis == store.OnReserve {
		return verdict.ByReserve
	}
	return verdict.ByStore
}

// decide fills in what by has decided; skipped says that it did not look.
func (v *Verdict) decide(d *limit.Decision, by verdict.Decider, skipped bool) {
	if v.Decision, v.By = *d, by; skipped {
		v.By = verdict.BySkipping
	}
}

// answerTo turns the answer of a store into a verdict on what was asked: giving
// hits back is always allowed, even where a request would still be denied.
func answerTo(d *limit.Decision, op store.Op) {
	if op != store.Hit {
		d.Allowed, d.Never, d.RetryAfter = true, false, 0
	}
}

// failLocally answers by the decision that the fallback made in place of the
// store, by a part of the limit. By the whole limit it lets pass what the store might
// deny, so its counts are told to nobody.
func (v *Verdict) failLocally(r *store.Result, op store.Op, part verdict.Decider) {
	d := r.Decision
	answerTo(&d, op)
	if part == verdict.ByLocalWhole {
		d = limit.Decision{Allowed: d.Allowed, Never: d.Never, Limit: d.Limit, RetryAfter: d.RetryAfter, Delay: d.Delay}
	}
	v.Degraded = store.ReasonOf(r.Err)
	v.decide(&d, part, r.Skipped)
}

// fail answers in place of a store that did not.
func (v *Verdict) fail(op store.Op, reason store.Reason) {
	mode := rules.Open
	if v.Rule != nil {
		mode = v.Rule.Failure
	}
	v.Degraded = reason
	d := failureDecision(v.Limit, mode, op)
	v.decide(&d, verdict.ByFailureMode, false)
}

// failureDecision is the one place where an error of a store meets a failure
// mode. It carries no counts. A refund and a reset are never denied. Where there
// is nothing to decide locally, requests pass.
func failureDecision(l *limit.Limit, mode rules.FailureMode, op store.Op) limit.Decision {
	d := limit.Decision{Allowed: true, Limit: ceiling(l)}
	if mode == rules.Closed && op == store.Hit {
		d.Allowed = false
		d.RetryAfter = degradedRetryAfter
	}
	return d
}

// ceiling returns what decisions of l call their Limit, by peeking at an unused
// bucket.
func ceiling(l *limit.Limit) int64 {
	_, unused := limit.Decide(l, limit.State{}, 0, 0)
	return unused.Limit
}

// empty drops all but working memory. Each field is written by itself: a Response written whole
// would write the pointer to its verdicts too, which costs most while garbage is collected.
func (r *Response) empty() {
	r.Allowed, r.DomainKnown, r.ID = false, false, trace.DecisionID{}
	r.Hold, r.HoldFor = 0, 0
	r.Verdicts = r.Verdicts[:0]
}

// merge sets Allowed from the verdicts: denied by any enforced verdict, except
// that quota rules (Envoy's quota_mode) deny only when all of them are over.
func (r *Response) merge() {
	r.Allowed = !r.quotaModeDenies()
	for i := range r.Verdicts {
		r.Allowed = r.Allowed && !r.Verdicts[i].denies()
	}
}

// denies reports whether v alone denies its request.
func (v *Verdict) denies() bool { return v.OverLimit() && !v.inQuotaMode() }

// inQuotaMode reports whether v is one of a quota rule. One that is replaced has no limit.
func (v *Verdict) inQuotaMode() bool {
	return v.Rule != nil && v.Rule.Quota && v.Role == rules.Main && v.Limit != nil
}

// quotaModeDenies reports whether there are quota rules, and all are over.
func (r *Response) quotaModeDenies() bool {
	denied := false
	for i := range r.Verdicts {
		if v := &r.Verdicts[i]; v.inQuotaMode() {
			if !v.OverLimit() {
				return false
			}
			denied = true
		}
	}
	return denied
}

// answerHold clears resp.Hold, which is what the request asked to hold by, unless
// it holds something, and says for how long. A request that passes because the
// store did not answer may hold something all the same: the answer alone may have
// been lost. It is at work in any case, so it renews, and counts again when the
// store is back, and frees what it has when it ends.
func (b *batch) answerHold(resp *Response, s span) {
	hold := resp.Hold
	resp.Hold, resp.HoldFor = 0, 0
	if hold == 0 || !resp.Allowed {
		return
	}
	for i := range resp.Verdicts {
		v, t := &resp.Verdicts[i], b.verdictTake[s.from+i]
		if t < 0 || v.By == verdict.BySkipping || !v.Decision.Allowed {
			continue
		}
		lasts := v.Limit.Period
		switch take := &b.takes[t]; {
		case take.Op == store.Release || take.Op == store.Refund || take.Op == store.Reset:
			continue
		case v.Role == rules.Sustained:
			lasts = min(lasts, sustainedHoldFor)
		case take.Hold == 0 || v.Limit.Algorithm != limit.Concurrency:
			continue
		}
		if resp.Hold == 0 || lasts < resp.HoldFor {
			resp.Hold, resp.HoldFor = hold, lasts
		}
	}
}

// Speaker returns the verdict that speaks for the request; nil when nothing limited it.
//
// When one denies, it is the denying one with the longest retry-after, one that
// can never pass before all others; but a ban before them all, because it lasts, and
// a limit on concurrency after them all, because a slot may be free at any moment.
// Else it is the one with the smallest remaining, of equals the one with the
// longest reset; one of which clients are not told else (rules.Role.IsMain) only where
// there is no other. Verdicts without counts (degraded, unlimited, replaced) come last.
// One that is not enforced never speaks. Of quota rules that are over one alone speaks, the one
// with the shortest retry-after, because the request passes then; none where another quota rule
// lets it pass.
func (r *Response) Speaker() *Verdict {
	var best, soonest *Verdict
	if !r.Allowed && r.quotaModeDenies() {
		soonest = r.soonestQuota()
	}
	for i := range r.Verdicts {
		v := &r.Verdicts[i]
		if v.OverLimit() && (r.Allowed || v.inQuotaMode() && v != soonest) {
			continue
		}
		if v.Enforced() && (best == nil || speaksBefore(v, best)) {
			best = v
		}
	}
	return best
}

// soonestQuota returns the verdict in quota mode that lets a request pass before all others that
// are over, of equals the first; nil where none is over.
func (r *Response) soonestQuota() *Verdict {
	var soonest *Verdict
	for i := range r.Verdicts {
		v := &r.Verdicts[i]
		if v.inQuotaMode() && v.OverLimit() && (soonest == nil || speaksBefore(soonest, v)) {
			soonest = v
		}
	}
	return soonest
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

// Delay returns how long the request must wait before it goes on: the longest
// delay of the limits that shape it (leaky_queue) and of the soft limits that it
// is above, 0 when denied.
func (r *Response) Delay() time.Duration {
	var delay time.Duration
	if !r.Allowed {
		return 0
	}
	for i := range r.Verdicts {
		v := &r.Verdicts[i]
		if v.Enforced() {
			delay = max(delay, v.Decision.Delay)
		}
		if soft := v.Soft(); soft != nil && soft.Action == rules.Delay {
			delay = max(delay, soft.Delay)
		}
	}
	return delay
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
		case v.Decision.Allowed && v.By == verdict.ByStore && r.Allowed: // as most
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
