package headgate

import (
	"slices"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
)

// KeyRaises says which keys are raised because they have become hot.
type KeyRaises interface {
	// RaiseOf returns by how many per cent the limit of the bucket with that key, which
	// is of a rule with that ID, is raised at now; 0 where it is not. It is called for
	// each decision by a rule that raises hot keys; it must not block, allocate or keep
	// the key.
	RaiseOf(rule string, key []byte, now limit.Micros) int
}

// raised returns the limit to decide by in place of l, of rule m, where operators have
// raised it or its key has become hot, and by how many per cent it is raised: the larger of
// both. The key of its bucket is p.keys[start:].
func (p *plan) raised(m *match, l *limit.Limit, start int) (*limit.Limit, int) {
	if m.Rule.Sensitive {
		return l, 0
	}
	percent := p.raisedByOperators(m)
	if most := m.Rule.HotRaise.By; most > percent && p.keyRaises != nil {
		percent = max(percent, min(p.keyRaises.RaiseOf(m.Rule.ID, p.keys[start:], p.instant()), most))
	}
	return m.Rule.Raised(l, percent), percent
}

// raisedByOperators returns by how many per cent. What is raised for one key is for buckets
// of this key alone, because others would share it.
func (p *plan) raisedByOperators(m *match) int {
	if !p.switches.Raises() {
		return 0
	}
	asked := p.askedFor(m)
	percent, keyed := p.switches.RaiseOf(asked)
	if keyed && !slices.Contains(p.request.Descriptors[m.descriptor].Entries[:m.Depth], asked.Tenant) {
		return 0
	}
	return percent
}

// limitFor returns the limit to decide by in place of one of rule m: that which its
// schedule makes of it now.
func (p *plan) limitFor(m *match, named *rules.NamedLimit) *limit.Limit {
	if named.Role.IsMain() && len(m.Rule.Schedule) > 0 {
		return m.Rule.Scaled(named.Limit, p.instant().Time(), m.tier)
	}
	return named.Limit
}

// scaled is limitFor of a quota of a tenant.
func (p *plan) scaled(m *match, quota *limit.Limit) *limit.Limit {
	var now time.Time // nobody asks for it
	if len(m.Rule.Schedule) > 0 {
		now = p.instant().Time()
	}
	return m.Rule.Scaled(quota, now, m.tier)
}
