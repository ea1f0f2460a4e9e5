package headgate

import (
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/tenant"
)

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
