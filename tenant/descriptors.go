package tenant

import "slices"

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
