package headgate

import (
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
)

// limitFor returns the limit to decide by in place of one of rule m: that which its
// schedule makes of it now.
func (p *plan) limitFor(m *match, named *rules.NamedLimit) *limit.Limit {
	l := named.Limit
	if named.Role.IsMain() && len(m.Rule.Schedule) > 0 {
		l = m.Rule.Scaled(l, p.instant().Time(), m.tier)
	}
	if named.Role == rules.Main {
		l = p.raised(m, l)
	}
	return l
}

// scaled is limitFor of a quota of a tenant.
func (p *plan) scaled(m *match, quota *limit.Limit) *limit.Limit {
	var now time.Time // nobody asks for it
	if len(m.Rule.Schedule) > 0 {
		now = p.instant().Time()
	}
	return p.raised(m, m.Rule.Scaled(quota, now, m.tier))
}
