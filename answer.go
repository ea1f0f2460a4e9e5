package headgate

import (
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/verdict"
)

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
			v.decide(answerTo(r.Decision, op), verdict.ByStore, r.Skipped)
		case b.locally[t] != verdict.ByStore:
			v.failLocally(r, op, b.locally[t])
		default:
			v.fail(op, store.ReasonOf(r.Err))
		}
	}
	resp.merge()
	b.answerHold(resp, s)
}

// decide fills in what by has decided; skipped says that it did not look.
func (v *Verdict) decide(d limit.Decision, by verdict.Decider, skipped bool) {
	if v.Decision, v.By = d, by; skipped {
		v.By = verdict.BySkipping
	}
}

// answerTo turns the answer of a store into a verdict on what was asked: giving
// hits back is always allowed, even where a request would still be denied.
func answerTo(d limit.Decision, op store.Op) limit.Decision {
	if op != store.Hit {
		d.Allowed, d.Never, d.RetryAfter = true, false, 0
	}
	return d
}

// failLocally answers by the decision that the fallback made in place of the
// store, by a part of the limit. By the whole limit it lets pass what the store might
// deny, so its counts are told to nobody.
func (v *Verdict) failLocally(r *store.Result, op store.Op, part verdict.Decider) {
	d := answerTo(r.Decision, op)
	if part == verdict.ByLocalWhole {
		d = limit.Decision{Allowed: d.Allowed, Never: d.Never, Limit: d.Limit, RetryAfter: d.RetryAfter, Delay: d.Delay}
	}
	v.Degraded = store.ReasonOf(r.Err)
	v.decide(d, part, r.Skipped)
}

// fail answers in place of a store that did not.
func (v *Verdict) fail(op store.Op, reason store.Reason) {
	mode := rules.Open
	if v.Rule != nil {
		mode = v.Rule.Failure
	}
	v.Degraded = reason
	v.decide(failureDecision(v.Limit, mode, op), verdict.ByFailureMode, false)
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
