package headgate

import (
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
)

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
