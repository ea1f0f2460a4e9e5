package admission

import (
	"slices"
	"sync/atomic"

	"github.com/headgate/headgate/rules"
)

// ruled is a Checker that tells its rules, as a headgate.Limiter does.
type ruled interface{ Rules() *rules.Set }

// Rules returns the rules by which the Checker decides; nil when it does not tell
// or has none.
func (g *Gate) Rules() *rules.Set {
	if g.ruled == nil {
		return nil
	}
	return g.ruled.Rules()
}

// holdFacts remembers whether a set of rules has what calls hold.
type holdFacts struct{ last atomic.Pointer[holdFact] }

type holdFact struct {
	set   *rules.Set
	holds bool
}

func (f *holdFacts) of(set *rules.Set) bool {
	if last := f.last.Load(); last != nil && last.set == set {
		return last.holds
	}
	fact := &holdFact{set, slices.ContainsFunc(set.Rules(), func(r *rules.Rule) bool {
		return r.LimitOf(rules.InFlight) != nil || r.LimitOf(rules.Sustained) != nil
	})}
	f.last.Store(fact)
	return fact.holds
}

// holds reports whether a call may hold something: whether it is worth a number
// drawn at random. A Checker that does not tell its rules may have any.
func (g *Gate) holds(p *Pass) bool {
	if len(p.Limits) > 0 {
		for i := range p.Limits {
			if p.Limits[i].role == rules.InFlight {
				return true
			}
		}
		return false
	}
	set := g.Rules()
	return set == nil || g.mayHold.of(set)
}
