package headgate

import (
	"slices"

	"github.com/headgate/headgate/limit"
)

// raised returns the limit to decide by in place of l, of rule m, where an operator has
// raised it. What is raised for one key is for buckets of this key alone, since others
// would share it.
func (p *plan) raised(m *match, l *limit.Limit) *limit.Limit {
	if !p.switches.Raises() || m.Rule.Sensitive {
		return l
	}
	asked := p.askedFor(m)
	percent, keyed := p.switches.RaiseOf(asked)
	if keyed && !slices.Contains(p.request.Descriptors[m.descriptor].Entries[:m.Depth], asked.Tenant) {
		return l
	}
	return m.Rule.Raised(l, percent)
}
