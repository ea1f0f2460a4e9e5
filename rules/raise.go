package rules

import "github.com/headgate/headgate/limit"

// MaxRaise is the most by which a limit is raised, in per cent of it.
const MaxRaise = 100

// Raised returns the limit to decide by in place of l, a main limit of r or the quota of a
// tenant in its place, that is raised by so many per cent, up to MaxRaise: quota and burst
// are as much larger, rounded half up, and at most what the algorithm can count. Sensitive
// rules are never raised. It returns the same limit for the same question, but for quotas
// of very many kinds.
func (r *Rule) Raised(l *limit.Limit, percent int) *limit.Limit {
	if percent <= 0 || r.Sensitive || r.raises == nil {
		return l
	}
	factor := NoFactor + NoFactor*Factor(min(percent, MaxRaise))/100
	return r.raises.of(l, derivation{l.Spec, factor, l.Carry, l.MaxDebt})
}
