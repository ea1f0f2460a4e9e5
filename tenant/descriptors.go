package tenant

import (
	"slices"

	"github.com/headgate/headgate/limit"
)

// Descriptors returns the canonical texts of the descriptors that have a quota: those
// of overrides in force and those of the tier, sorted, each once.
func (s Standing) Descriptors() []string {
	var texts []string
	if s.account != nil {
		for i := range s.account.overrides {
			if o := &s.account.overrides[i]; o.from <= s.now && s.now < o.until {
				texts = append(texts, o.descriptor)
			}
		}
	}
	if s.tier != nil {
		for text := range s.tier.Quotas {
			texts = append(texts, text)
		}
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

// Descriptor returns the canonical text of what g is for.
func (g *Grant) Descriptor() string { return g.descriptor }

// Term returns when g is in force.
func (g *Grant) Term() Term { return termOf(g.from, g.until) }

// Grants returns the grants of all top-ups that subject has at now, by descriptor and
// then the soonest to expire first.
func (s *Snapshot) Grants(subject Subject, now limit.Micros) (all []*Grant) {
	grants := s.granted(subject)
	for i := range grants {
		if g := &grants[i]; g.from <= now && now < g.until {
			all = append(all, g)
		}
	}
	return all
}
