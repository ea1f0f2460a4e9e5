package headgate

import (
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/verdict"
)

// tellPassed tells Options.OnPassed what the fallback has just counted by this node's
// share. Where a group was held back nothing was counted.
func (l *Limiter) tellPassed(b *batch) {
	if l.onPassed == nil || b.dryRun {
		return
	}
	for from, to := 0, 0; from < len(b.again); from = to {
		if to = store.GroupEnd(b.again, from); isHeldBack(b.again[from:to], b.againResults[from:to]) {
			continue
		}
		for i := from; i < to; i++ {
			t, of := &b.again[i], b.againOf[i]
			if of >= 0 && b.locally[of] == verdict.ByLocalShare && b.results[of].Err != nil && t.Hits > 0 && counts(t, &b.againResults[i]) {
				l.onPassed(t, b.results[of].Err)
			}
		}
	}
}

// counts reports whether t, which was decided with r, has charged hits or given them back.
func counts(t *store.Take, r *store.Result) bool {
	switch t.Op {
	case store.Hit:
		return r.Allowed
	case store.Charge, store.Refund:
		return true
	}
	return false
}

// isHeldBack reports whether nothing of a group was done because a hit of it is denied,
// or not decided.
func isHeldBack(group []store.Take, results []store.Result) bool {
	for i := range group {
		if t := &group[i]; results[i].Err != nil || t.Op == store.Hit && !t.Shadow && !results[i].Allowed {
			return true
		}
	}
	return false
}
