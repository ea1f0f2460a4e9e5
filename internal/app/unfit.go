package app

import (
	"fmt"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
)

// unfit returns why the backend that l goes to cannot decide it; nil if it can.
func (k *stack) unfit(l *limit.Limit) error {
	if b := k.backendOf(l); b.unfit != nil {
		return b.unfit(l)
	}
	return nil
}

// fit returns why a rule cannot be decided by the stores, nil if it can: to let it in
// force would leave it to its failure mode for good. Local rules ask no store.
func (k *stack) fit(r *rules.Rule) error {
	if r.Mode.Consistency == rules.Local {
		return nil
	}
	asked := r.Limits
	if r.Tenant {
		asked = append(tenantLimits(r), asked...)
	}
	for i := range asked {
		if err := k.unfit(asked[i].Limit); err != nil {
			return fmt.Errorf("%w, and a rule with consistency: local asks no store", err)
		}
	}
	return nil
}

// tenantLimits stand for the quotas that a rule decides for tenants, which are not known
// yet: by whatever unit, they change as the rule says.
func tenantLimits(r *rules.Rule) []rules.NamedLimit {
	var all []rules.NamedLimit
	for _, unit := range []time.Duration{time.Second, time.Minute} {
		l := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 1, Period: unit, Carry: r.Carry})
		all = append(all, rules.NamedLimit{Limit: l})
	}
	return all
}
