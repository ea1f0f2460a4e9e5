package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/regionview"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/rules"
)

// regionWatch is what operators see of the limits that hold over several regions. Without
// regions it has seen nothing.
type regionWatch struct {
	regions *regions
	region  string
	node    string
	inForce func() *rules.Set
	meter   regionview.Meter
}

// watchRegions has what homes count kept and shown.
func (w *watching) watchRegions() {
	p := w.process
	w.regions = &regionWatch{regions: &p.stack.regions, region: p.settings.Region, node: w.node.Name, inForce: func() *rules.Set { return p.limiter.Rules() }}
	if p.stack.regions.file == nil {
		return
	}
	p.metrics.WatchRegionRules(w.regions.now)
	p.tasks = append(p.tasks, w.regions.run)
}

// run keeps what was counted until ctx ends, so that there are rates.
func (r *regionWatch) run(ctx context.Context) {
	tick := time.NewTicker(regionview.NoteEvery)
	defer tick.Stop()
	for {
		r.meter.Note(time.Now(), r.homes())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// homes returns what the homes have counted.
func (r *regionWatch) homes() []regionview.Home {
	list := r.stats()
	for i := range list {
		list[i].Rules = r.regions.homes[i].Rules()
	}
	return list
}

// stats is homes without what was counted of single rules.
func (r *regionWatch) stats() []regionview.Home {
	list := make([]regionview.Home, len(r.regions.homes))
	for i := range list {
		h := &r.regions.homes[i]
		list[i] = regionview.Home{Name: h.name, Stats: h.Stats(), Nodes: r.regions.fleets[i].Live()}
	}
	return list
}

// plan is what the rules in force want of the homes.
func (r *regionWatch) plan(set *rules.Set) *regionview.Plan {
	return regionview.NewPlan(set, &r.regions.file.Layout, r.region, r.regions.file.Home)
}

// now says how the limits over several regions are doing.
func (r *regionWatch) now() view.Regions {
	v := view.Regions{At: time.Now(), Peers: []view.RegionPeer{}, Rules: []view.RegionRule{}}
	if r.regions.file != nil {
		v = r.meter.View(v.At, r.plan(r.inForce()), r.homes())
	}
	v.Node = r.node
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
}

// health says which of the homes that are needed do not answer; nil where there are no regions.
func (r *regionWatch) health() *view.State {
	if r.regions.file == nil {
		return nil
	}
	v := r.meter.View(time.Now(), r.plan(r.inForce()), r.stats())
	silent := v.Silent()
	if len(silent) == 0 {
		return &view.State{OK: true}
	}
	return &view.State{Reason: "silent", Error: fmt.Sprintf("no answer of the home %s: its rules have what is held, then the reserve", strings.Join(silent, ", "))}
}
