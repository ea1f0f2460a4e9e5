package headgate

import (
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/tenant"
)

// ruleset is a set of rules in force and what stores are told of each. It is
// immutable.
type ruleset struct {
	set *rules.Set // nil: no rules
	// rules are those of set, and trials what is counted for the candidates of each by
	// its index, nil where it has none.
	rules  []*rules.Rule
	trials []*trial
	// gauges has what is measured of each rule by its index.
	gauges []*gauge
	// modes has the mode of each rule by its index.
	modes []*store.Mode
	// quotas has the main limits of each rule by its index; nil where they cannot count
	// in the buckets of a tenant.
	quotas []*tenant.Quota
	// failsLocally says that a rule has failure mode local.
	failsLocally bool
}

// newRuleset compiles what stores are told of the rules of set. Trials and gauges of
// before, which may be nil, go on.
func newRuleset(set *rules.Set, before *ruleset) *ruleset {
	r := &ruleset{set: set}
	if set == nil {
		return r
	}
	list := set.Rules()
	r.rules, r.trials, r.gauges = list, trialsOf(list, before), gaugesOf(list, before)
	r.modes, r.quotas = make([]*store.Mode, len(list)), make([]*tenant.Quota, len(list))
	for i, rule := range list {
		r.modes[i], r.quotas[i] = storeMode(rule), mainQuota(rule)
		r.failsLocally = r.failsLocally || rule.Failure == rules.FailLocal
	}
	return r
}

// mode returns how the takes of a rule of the set are decided.
func (r *ruleset) mode(rule *rules.Rule) *store.Mode { return r.modes[rule.Index()] }

// consistencies are the words of stores for those of rules.
var consistencies = [...]store.Consistency{
	rules.Exact:  store.Exact,
	rules.Leased: store.Leased,
	rules.Synced: store.Synced,
	rules.Local:  store.Local,
}

// storeMode returns what stores are told of a rule: at least its id, by which they
// name hot keys.
func storeMode(r *rules.Rule) *store.Mode {
	m := &r.Mode
	return &store.Mode{
		Rule:         r.ID,
		Consistency:  consistencies[m.Consistency],
		SyncInterval: m.SyncInterval,
		LeaseTTL:     m.LeaseTTL,
		Whole:        m.Whole,
		AutoLease:    m.LeaseHot,
		SubBuckets:   m.SubBuckets,
		AskAlways:    m.AskAlways,
	}
}
