package audit

import (
	"github.com/headgate/headgate"
	"github.com/headgate/headgate/store"
)

// outcome is what a request was answered, by the names of headgate_requests_total; and
// shadowDenied, which is allowed there.
type outcome string

const (
	allowed         outcome = "allowed"
	denied          outcome = "denied"
	shadowDenied    outcome = "shadow_denied"
	degradedAllowed outcome = "degraded_allowed"
	degradedDenied  outcome = "degraded_denied"
	unmatched       outcome = "unmatched"
	unknownDomain   outcome = "unknown_domain"
)

// ordinary reports whether resp lets pass, the store has decided all of it, and no
// limit in shadow mode would have denied: then it is an event only if it is sampled.
func ordinary(resp *headgate.Response) bool {
	if !resp.Allowed {
		return false
	}
	for i := range resp.Verdicts {
		if v := &resp.Verdicts[i]; v.Degraded != store.NoReason || !v.Decision.Allowed && deniesInShadow(v) {
			return false
		}
	}
	return true
}

// deniesInShadow reports whether v, which does not allow, would have denied were its
// rule enforced. Candidates are told of elsewhere.
func deniesInShadow(v *headgate.Verdict) bool {
	return !v.Enforced && !v.Watched && !v.Replaced && !v.Skipped
}

// judge returns what a request was answered, why the store did not decide, and the
// verdict that its event is about, nil where no limit looked at the request.
func judge(resp *headgate.Response) (outcome, store.Reason, *headgate.Verdict) {
	degraded, v := resp.Degraded(), resp.Decisive(-1)
	switch {
	case degraded != store.NoReason && resp.Allowed:
		return degradedAllowed, degraded, v
	case degraded != store.NoReason:
		return degradedDenied, degraded, v
	case !resp.Allowed:
		return denied, degraded, v
	}
	if v := inShadow(resp); v != nil {
		return shadowDenied, degraded, v
	}
	switch {
	case len(resp.Verdicts) > 0:
		return allowed, degraded, v
	case resp.DomainKnown:
		return unmatched, degraded, nil
	}
	return unknownDomain, degraded, nil
}

// inShadow returns the verdict in shadow mode that would have denied for the longest
// time, nil for none.
func inShadow(resp *headgate.Response) *headgate.Verdict {
	var longest *headgate.Verdict
	for i := range resp.Verdicts {
		v := &resp.Verdicts[i]
		if v.Decision.Allowed || !deniesInShadow(v) {
			continue
		}
		if longest == nil || v.Decision.RetryAfter > longest.Decision.RetryAfter {
			longest = v
		}
	}
	return longest
}
