package app

import (
	"fmt"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
)

// Supports implements store.Supporter.
func (k *stack) Supports(l *limit.Limit) error { return k.unfit("", l) }

// unfit returns why the backend that a limit goes to cannot decide it; nil if it can. name is
// that of the store that a rule or a tier names, or "". Without a limit it says only whether
// there is that store.
func (k *stack) unfit(name string, l *limit.Limit) error {
	if _, known := k.places[name]; name != "" && !known {
		return fmt.Errorf("there is no store %s; hint: %s", name, k.storesText())
	}
	if l == nil {
		return nil
	}
	if b := &k.backends[k.place(name, l)]; b.unfit != nil {
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
	name := r.Mode.Store
	if err := k.unfit(name, nil); err != nil {
		return err
	}
	if err := k.regions.fit(r); err != nil {
		return err
	}
	asked := r.Limits
	if r.Tenant {
		asked = append(tenantLimits(r), asked...)
	}
	for i := range asked {
		if err := k.unfit(name, asked[i].Limit); err != nil {
			return fmt.Errorf("%w, and a rule with consistency: local asks no store", err)
		}
	}
	return nil
}

// storesText says which stores rules may name.
func (k *stack) storesText() string {
	if named := k.named(); named != "" {
		return "one of " + named + ", or another one in the file of --stores"
	}
	return "name it in a file of stores, --stores FILE"
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
