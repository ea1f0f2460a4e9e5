package rlqs

import (
	"slices"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/verdict"
)

// outlook is what the limits of a bucket will let pass within an interval.
type outlook struct {
	// limited says that a limit is enforced at all; unknown that the store did not say, and
	// lets pass or not by what Refused says.
	limited, unknown, refused bool
	// hits will pass, of them burst at once at most; rate would, were all used up now.
	hits, burst, rate int64
	// after is how long nothing passes yet.
	after time.Duration
	// short is the limit with the lowest rate of those whose window is shorter than the interval;
	// nil for none. Nothing of the above is of them but burst.
	short *limit.Limit
}

// enforced reports whether v is of a limit on hits that denies requests.
func enforced(v *headgate.Verdict) bool {
	return v.Limit != nil && v.Limit.Algorithm != limit.Concurrency && v.Limit.Algorithm != limit.Ban &&
		v.Effect == verdict.Enforced && !v.By.PassedOver()
}

// taken reports whether all limits that are enforced have counted what was charged.
func taken(charged *headgate.Response) bool {
	return !slices.ContainsFunc(charged.Verdicts, func(v headgate.Verdict) bool { return enforced(&v) && !v.Counted() })
}

// doubtful reports whether a dry run has to say what becomes of a hit: where a limit of settled,
// whose window is longer than within, has nothing left, and where the store did not say.
func doubtful(settled *headgate.Response, within time.Duration) bool {
	for i := range settled.Verdicts {
		v := &settled.Verdicts[i]
		if enforced(v) && (!v.Counted() || v.Decision.Remaining == 0 && !isShort(v.Limit, within)) {
			return true
		}
	}
	return false
}

// outlookOf returns what passes within an interval after a charge that was answered by
// settled; dry is what a dry run of one hit said, nil where nothing was doubtful.
func outlookOf(settled, dry *headgate.Response, within time.Duration) outlook {
	o := outlook{hits: limit.MaxQuota, burst: limit.MaxQuota, rate: limit.MaxQuota}
	for i := range settled.Verdicts {
		v := &settled.Verdicts[i]
		if !enforced(v) {
			continue
		}
		o.limited = true
		hit := limit.Decision{RetryAfter: within + 1} // more is not known without a dry run
		if dry != nil && i < len(dry.Verdicts) && dry.Verdicts[i].Rule == v.Rule {
			hit = dry.Verdicts[i].Decision
		}
		if !v.Counted() { // a charge is never refused, a hit is
			o.unknown, o.refused = true, o.refused || dry != nil && !hit.Allowed
			continue
		}
		o.burst = min(o.burst, burstOf(v.Limit, within))
		if isShort(v.Limit, within) && v.Limit.Quota > 0 {
			o.keepShort(v.Limit)
			continue
		}
		o.add(v, &hit, within)
	}
	return o
}

// add adds what v lets pass, of which a dry run has said what becomes of a hit.
func (o *outlook) add(v *headgate.Verdict, hit *limit.Decision, within time.Duration) {
	after := time.Duration(0)
	if v.Decision.Remaining == 0 {
		if after = hit.RetryAfter; hit.Never {
			after = limit.MaxPeriod
		}
	}
	o.after = max(o.after, after)
	o.hits = min(o.hits, v.Limit.Forecast(v.Decision.Remaining, after, within))
	o.rate = min(o.rate, v.Limit.Forecast(0, 0, within))
}

// keepShort keeps the limit that lets the least pass.
func (o *outlook) keepShort(l *limit.Limit) {
	if o.short == nil || l.Forecast(0, 0, limit.MaxPeriod) < o.short.Forecast(0, 0, limit.MaxPeriod) {
		o.short = l
	}
}

// isShort reports whether the windows of l are no longer than within.
func isShort(l *limit.Limit, within time.Duration) bool {
	return !l.Algorithm.IsBucket() && l.Calendar == nil && l.Period <= within
}

// burstOf is how many hits l lets pass at once, as far as that is less than within.
func burstOf(l *limit.Limit, within time.Duration) int64 {
	switch {
	case l.Algorithm.IsBucket():
		return l.Capacity()
	case isShort(l, within):
		return l.Quota
	}
	return limit.MaxQuota
}
