package app

import (
	"fmt"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/regionfile"
	"github.com/headgate/headgate/internal/storefile"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/fleet"
	"github.com/headgate/headgate/store/regional"
)

// regions is what decides by hits that are leased over regions. The zero value decides
// nothing: there are no regions.
type regions struct {
	file *regionfile.Regions
	// homes has a store for each backend that can be a home, fleets who leases from each.
	homes  []homeStore
	fleets []*fleet.Fleet
}

// homeStore is one of the homes.
type homeStore struct {
	*regional.Store
	name  string // that of the backend
	layer int    // among the layers of the stack
}

// newRegions puts a layer over each named backend that lends. own is what decides by the
// counters of this region; the layers are numbered from first on.
func newRegions(s *config.Settings, backends []backend, own store.Store, first int, decides bool) (r regions, err error) {
	if s.Regions == "" {
		return r, nil
	}
	if r.file, err = regionfile.Load(s.Regions); err != nil {
		return r, fmt.Errorf("--regions: %w", err)
	}
	if err := r.file.Check(s.Region); err != nil {
		return r, fmt.Errorf("--region: %w", err)
	}
	for i := range backends[1:] {
		b := &backends[1+i]
		lender := b.lender()
		if lender == nil {
			continue
		}
		nodes := fleet.Join(fleet.Options{Roster: rosterOf(b), Onlooker: !decides})
		home, err := regional.New(regional.Options{
			Home: lender, Own: own, Layout: r.file.Layout, Region: s.Region, Nodes: nodes.Live,
			// Nobody waits for it, so the budget is that of the connection.
			Budget: max(regional.DefaultBudget, b.budget),
		})
		if err != nil {
			return r, err
		}
		r.homes = append(r.homes, homeStore{home, b.name, first + len(r.homes)})
		r.fleets = append(r.fleets, nodes)
	}
	if r.home(r.file.Home) == nil {
		return r, fmt.Errorf("--regions: %s: home: no store %s of --stores can lend; hint: name one of Redis or Valkey", s.Regions, r.file.Home)
	}
	return r, nil
}

// home returns the home called name, or the usual one for ""; nil if there is none.
func (r *regions) home(name string) *homeStore {
	if name == "" && r.file != nil {
		name = r.file.Home
	}
	for i := range r.homes {
		if r.homes[i].name == name {
			return &r.homes[i]
		}
	}
	return nil
}

// lends reports whether the store of that name is a home.
func (r *regions) lends(store string) bool { return store != "" && r.home(store) != nil }

// fit returns why a rule cannot hold over the regions, nil if it can or does not ask for it.
func (r *regions) fit(rule *rules.Rule) error {
	if rule.Mode.Regions != rules.RegionsLeased {
		return nil
	}
	if err := r.file.Fit(rule); err != nil {
		return err
	}
	if r.home(rule.Mode.Store) == nil {
		return fmt.Errorf("regions: leased: the store %s does not lend; hint: one of Redis or Valkey in the file of --stores", rule.Mode.Store)
	}
	return nil
}

// lender returns b as a home; nil where it cannot be one. The store of --store is that of this
// region, and that of limits per second has no name in rules.
func (b *backend) lender() regional.Lender {
	if b.name == storefile.Main || b.name == storefile.PerSecond {
		return nil
	}
	lender, ok := b.Store.(regional.Lender)
	if !ok {
		return nil
	}
	return lender
}
