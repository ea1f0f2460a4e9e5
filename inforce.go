package headgate

import (
	"github.com/headgate/headgate/internal/storemode"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/switches"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/trial"
)

// SetRules swaps the rules in whole; requests under way finish with the old.
// Buckets keep their state: it does not belong to a rule. What is known of candidates
// is kept for rules that try out the same.
func (l *Limiter) SetRules(s *rules.Set) { l.inForce.Store(newRuleset(s, l.inForce.Load())) }

// Rules returns the rules in force, nil if there are none.
func (l *Limiter) Rules() *rules.Set { return l.inForce.Load().set }

// SetTenants swaps in what tenants may use, for rules with `tenant: true`; with nil,
// and before the first call, the limits of the rules count alone. Requests under way
// finish with the old. Buckets keep their state: what a tenant has used counts
// towards its new quota of the same window.
func (l *Limiter) SetTenants(s *tenant.Snapshot) {
	if s == nil {
		s = tenant.Nobody
	}
	l.tenants.Store(s)
}

// Tenants returns what SetTenants was given last, nil for nothing.
func (l *Limiter) Tenants() *tenant.Snapshot {
	if s := l.tenants.Load(); s != tenant.Nobody {
		return s
	}
	return nil
}

// SetSwitches swaps in what operators have switched; with nil, and before the first
// call, nothing is. Requests under way finish with the old. Buckets keep their state.
//
// A rule that is off takes no part in deciding hits, and answers do not name it. What
// is in flight is still renewed and released there, and refunds and resets reach it.
// A switch for all is for limits that callers name too. Where Options.Shadow is set,
// nothing is enforced whatever is switched.
func (l *Limiter) SetSwitches(s *switches.Set) { l.switches.Store(s) }

// Switches returns what SetSwitches was given last.
func (l *Limiter) Switches() *switches.Set { return l.switches.Load() }

// ruleset is a set of rules in force and what follows from it. It is immutable.
type ruleset struct {
	set *rules.Set // nil: no rules
	// trials has what is counted for the candidates of each rule by its index, nil where
	// it has none.
	trials []*trial.Counter
	// modes says how the takes of each rule are decided.
	modes storemode.Modes
	// quotas has the main limits of each rule by its index; nil where they cannot count
	// in the buckets of a tenant.
	quotas []*tenant.Quota
	// detours has the domains whose decisions may take more than one trip to the store.
	detours map[string]bool
	// failsLocally says that a rule has failure mode local.
	failsLocally bool
}

// newRuleset returns what follows from set. Trials of before, which may be nil, go on.
func newRuleset(set *rules.Set, before *ruleset) *ruleset {
	r := &ruleset{set: set}
	if set == nil {
		return r
	}
	list := set.Rules()
	var tried []*trial.Counter
	if before != nil {
		tried = before.trials
	}
	r.trials, r.detours, r.modes = trial.Counters(list, tried), detouring(set), storemode.Of(list)
	r.quotas = make([]*tenant.Quota, len(list))
	for i, rule := range list {
		r.quotas[i] = mainQuota(rule)
		r.failsLocally = r.failsLocally || rule.Failure == rules.FailLocal
	}
	return r
}

// LacksFallback reports whether a rule in force asks for failure mode local though there is no
// Options.Fallback: it lets all requests pass while the store cannot decide. Rules of failure mode
// open do so too without one, and are not reported: they promise nothing else.
func (l *Limiter) LacksFallback() bool {
	return l.fallback == nil && l.inForce.Load().failsLocally
}

// Detours reports whether the answer to req may take more than one trip to the store: where
// its domain has limits on concurrency, bans or candidates, and where a tenant that it names has
// a burst pool or top-ups. Who decides many requests in one Check decides those apart, so that
// the others do not wait for them. It decides nothing, and may be wrong where rules or tenants
// are swapped in meanwhile.
func (l *Limiter) Detours(req *Request) bool {
	r := l.inForce.Load()
	if r.set == nil {
		return false
	}
	if r.detours[req.Domain] {
		return true
	}
	tenants := l.tenants.Load()
	domain := r.set.Domain(req.Domain)
	if tenants == tenant.Nobody || domain == nil || !domain.HasTenants() {
		return false
	}
	x := matcher{clock: l.now}
	for i := range req.Descriptors {
		entries := req.Descriptors[i].Entries
		if m, ok := domain.Tenant(entries, l.now); ok && tenants.HasBeyond(entries[m.Depth-1], x.instant()) {
			return true
		}
	}
	return false
}

// Detours is Limiter.Detours.
func (d *Door) Detours(req *Request) bool { return d.limiter.Detours(req) }

// detouring returns the domains of set in which a denial, or a slot, may take a second trip to
// the store.
func detouring(set *rules.Set) map[string]bool {
	domains := map[string]bool{}
	for _, rule := range set.Rules() {
		for i := range rule.Limits {
			switch rule.Limits[i].Role {
			case rules.InFlight, rules.Sustained, rules.Banning, rules.Candidate:
				domains[rule.Domain] = true
			}
		}
	}
	return domains
}
