package rulefile

import "github.com/headgate/headgate/rules"

// checkRegions refuses what cannot hold over several regions; all else of r is known by then.
// Whether a limit fits into their layout is known where that is known.
func (c *compiler) checkRegions(r *rules.Rule, s *modeSpec) {
	m := &r.Mode
	if m.Regions == rules.RegionsEach {
		return
	}
	refuse := func(hint, format string, args ...any) {
		c.errorf(s.at["regions"], hint, "regions: "+m.Regions.String()+" "+format, args...)
	}
	if m.Consistency == rules.Synced || m.Consistency == rules.Local {
		refuse("delete consistency, or write regions: each", "does not go with consistency: %v, by which the limit may be exceeded", m.Consistency)
	}
	if m.SubBuckets > 0 {
		refuse("delete one of them", "does not go with sub_buckets")
	}
	if m.Regions == rules.RegionsShared {
		checkShared(r, refuse)
		return
	}
	if r.Failure != rules.Closed {
		refuse("write failure_mode: closed; what a node holds still passes while the store of its region is away", "promises a limit, and failure_mode: %v would let more pass", r.Failure)
	}
	if r.Tenant {
		refuse("write regions: each or regions: shared", "is for limits of rules, not for quotas of tenants")
	}
	if len(r.Schedule) > 0 {
		refuse("delete one of them", "does not go with a schedule: clocks of regions differ")
	}
	if r.HotRaise.By > 0 {
		refuse("delete one of them", "does not go with raise_hot_keys, by which one region would have another limit")
	}
	for i := range r.Limits {
		if role := r.Limits[i].Role; role != rules.Main && role != rules.Secondary {
			refuse("delete one of them, or move it to another rule", "is for ordinary limits, not for one that is %v", role)
		}
	}
}

// checkShared refuses what regions cannot tell each other.
func checkShared(r *rules.Rule, refuse func(hint, format string, args ...any)) {
	if r.Mode.Store != "" {
		refuse("delete store", "counts in the store of each region, and store: %s is another one", r.Mode.Store)
	}
	for i := range r.Limits {
		if role := r.Limits[i].Role; role == rules.InFlight || role == rules.Banning {
			refuse("delete one of them, or move it to another rule", "is for limits that count hits, not for one that is %v", role)
		}
	}
}
