package audit

import (
	"github.com/headgate/headgate"
	"github.com/headgate/headgate/verdict"
)

// told returns the verdict that the event of a request with that outcome is about, nil
// where no limit looked at the request: of one that only shadow mode let pass, the one
// that would have denied it for the longest time.
func told(resp *headgate.Response, outcome verdict.Outcome) *headgate.Verdict {
	if outcome != verdict.ShadowDenied {
		return resp.Speaker()
	}
	var longest *headgate.Verdict
	for i := range resp.Verdicts {
		v := &resp.Verdicts[i]
		if v.Decision.Allowed || v.Enforced() || !v.TookPart() {
			continue
		}
		if longest == nil || v.Decision.RetryAfter > longest.Decision.RetryAfter {
			longest = v
		}
	}
	return longest
}
