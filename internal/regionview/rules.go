// Package regionview says how limits over several regions are doing: it puts what stores count
// (store/regional) beside what the rules in force promise, and makes of both what operators see
// (internal/view). It asks nobody and reads no clock.
package regionview

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/regionfile"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store/regional"
)

// Plan is what the rules in force want of homes.
type Plan struct {
	// Region is the one of this process, Usual the home of rules that name none.
	Region, Usual string
	rules         []planned
	shared        []shared
}

// planned is a rule whose hits are leased.
type planned struct {
	id, home string
	limits   []view.RegionLimit
	// fence is how old an epoch must be before all of its limits are leased, term how
	// long the shortest of their leases lasts.
	fence, term time.Duration
}

// NewPlan returns what set, which may be nil, wants of the homes and the other regions of file
// in a region of it.
func NewPlan(set *rules.Set, file *regionfile.Regions, region string) *Plan {
	p := &Plan{Region: region, Usual: file.Home}
	if set == nil {
		return p
	}
	for _, r := range set.Rules() {
		switch r.Mode.Regions {
		case rules.RegionsLeased:
			p.rules = append(p.rules, plan(r, &file.Layout, region, file.Home))
		case rules.RegionsShared:
			p.shared = append(p.shared, planShared(r, file))
		}
	}
	slices.SortFunc(p.shared, func(a, b shared) int { return strings.Compare(a.id, b.id) })
	slices.SortFunc(p.rules, func(a, b planned) int { return strings.Compare(a.id, b.id) })
	return p
}

func plan(r *rules.Rule, layout *regional.Layout, region, usual string) planned {
	one := planned{id: r.ID, home: r.Mode.Store}
	one.home = cmp.Or(one.home, usual)
	for i := range r.Limits {
		l := r.Limits[i].Limit
		c, err := layout.CutFor(region, l)
		if err != nil {
			continue // rules that cannot be cut are not in force
		}
		one.limits = append(one.limits, view.RegionLimit{
			Limit: rules.LimitText(l), Home: c.Home.Quota, Reserve: c.Own.Quota, Others: l.Quota - c.Home.Quota - c.Own.Quota,
		})
		one.fence = max(one.fence, c.Fence)
		if term := c.Term(r.Mode.LeaseTTL); one.term == 0 || term < one.term {
			one.term = term
		}
	}
	return one
}

// Leases reports whether a rule of p with that id leases from home.
func (p *Plan) Leases(rule, home string) bool {
	i, found := slices.BinarySearchFunc(p.rules, rule, func(r planned, id string) int { return strings.Compare(r.id, id) })
	return found && p.rules[i].home == home
}

// lagBound is half of the shortest lease of the rules that lease from home: a lease is asked
// for two round trips before it is needed, so that leases which end sooner leave a gap.
func (p *Plan) lagBound(home string) (bound time.Duration) {
	for i := range p.rules {
		if r := &p.rules[i]; r.home == home && (bound == 0 || r.term/2 < bound) {
			bound = r.term / 2
		}
	}
	return bound
}

// wants reports whether anything leases from home, or would if rules named no other.
func (p *Plan) wants(home string) bool {
	return home == p.Usual && home != "" || slices.ContainsFunc(p.rules, func(r planned) bool { return r.home == home })
}
