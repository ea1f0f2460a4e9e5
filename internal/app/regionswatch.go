package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/regionview"
	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/rules"
)

// regionWatch is what operators see of the limits that hold over several regions. Without
// regions it has seen nothing.
type regionWatch struct {
	regions *regions
	region  string
	node    string
	decides bool
	inForce func() *rules.Set
	meter   regionview.Meter
}

// watchRegions has what homes count kept and shown.
func (w *watching) watchRegions() {
	p := w.process
	w.regions = &regionWatch{regions: &p.stack.regions, region: p.settings.Region, node: w.node.Name, decides: p.does.Decide, inForce: func() *rules.Set { return p.limiter.Rules() }}
	if p.stack.regions.file == nil {
		return
	}
	p.metrics.WatchRegionRules(w.regions.now)
	if p.stack.regions.shared != nil {
		p.metrics.WatchSharedRegions(w.regions.now)
	}
	p.tasks = append(p.tasks, w.regions.run)
}

// run keeps what was counted until ctx ends, so that there are rates.
func (r *regionWatch) run(ctx context.Context) {
	for range sleep.AtOnce(ctx, regionview.NoteEvery) {
		r.meter.Note(time.Now(), r.counted())
	}
}

// counted returns what was counted until now.
func (r *regionWatch) counted() regionview.Counted {
	c := r.stats()
	for i := range c.Homes {
		c.Homes[i].Rules = r.regions.homes[i].Rules()
	}
	if r.regions.shared != nil {
		c.Shared = r.regions.shared.Rules()
	}
	return c
}

// stats is counted without what was counted of single rules.
func (r *regionWatch) stats() (c regionview.Counted) {
	c.Homes = make([]regionview.Home, len(r.regions.homes))
	for i := range c.Homes {
		h := &r.regions.homes[i]
		c.Homes[i] = regionview.Home{Name: h.name, Stats: h.Stats(), Nodes: r.regions.fleets[i].Live()}
	}
	if r.regions.shared != nil {
		c.Told = r.regions.shared.Peers()
	}
	return c
}

// plan is what the rules in force want of the homes and the other regions.
func (r *regionWatch) plan(set *rules.Set) *regionview.Plan {
	return regionview.NewPlan(set, r.regions.file, r.region)
}

// now says how the limits over several regions are doing.
func (r *regionWatch) now() view.Regions {
	v := view.Regions{At: time.Now(), Peers: []view.RegionPeer{}, Rules: []view.RegionRule{}, Told: []view.RegionTold{}, Shared: []view.SharedRule{}}
	if r.regions.file != nil {
		v = r.meter.View(v.At, r.plan(r.inForce()), r.counted())
	}
	v.Node, v.Onlooker = r.node, !r.decides
	return v
}

// setRules tells which rules are about to be in force: what is held of others goes home.
func (r *regionWatch) setRules(set *rules.Set) {
	if r.regions.file == nil {
		return
	}
	plan := r.plan(set)
	for i := range r.regions.homes {
		h := &r.regions.homes[i]
		h.Forget(func(rule string) bool { return plan.Leases(rule, h.name) })
	}
	if r.regions.shared != nil {
		r.regions.shared.Forget(plan.Shares)
	}
}

// health says which of the homes and regions that are needed do not answer; nil where there are no regions.
func (r *regionWatch) health() *view.State {
	if r.regions.file == nil {
		return nil
	}
	v := r.meter.View(time.Now(), r.plan(r.inForce()), r.stats())
	var problems []string
	if silent := v.Silent(); len(silent) > 0 {
		problems = append(problems, fmt.Sprintf("no answer of the home %s: its rules have what is held, then the reserve", strings.Join(silent, ", ")))
	}
	if deaf := v.Deaf(); len(deaf) > 0 {
		problems = append(problems, fmt.Sprintf("no answer of the store of %s: shared rules count there and here apart", strings.Join(deaf, ", ")))
	}
	if len(problems) == 0 {
		return &view.State{OK: true}
	}
	return &view.State{Reason: "silent", Error: strings.Join(problems, "; ")}
}
