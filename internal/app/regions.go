package app

import (
	"fmt"
	"maps"
	"slices"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/regionfile"
	"github.com/headgate/headgate/internal/storefile"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/fleet"
	"github.com/headgate/headgate/store/regional"
	"github.com/headgate/headgate/store/totals"
)

// regions is what decides by hits that are leased over regions, or that regions tell each other
// of. The zero value decides nothing: there are no regions.
type regions struct {
	file *regionfile.Regions
	// homes has a store for each backend that can be a home, fleets who leases from each.
	homes  []homeStore
	fleets []*fleet.Fleet
	// shared decides rules of which the regions tell each other; nil where they have no stores.
	// sharedLayer is its number among the layers of the stack.
	shared      *totals.Store
	sharedLayer int
}

// homeStore is one of the homes.
type homeStore struct {
	*regional.Store
	name  string // that of the backend
	layer int    // among the layers of the stack
}

// newRegions puts a layer over each named backend that lends, and one over own, which decides by
// the counters of this region, for what regions tell each other. The layers are numbered from
// first on; live says how many nodes of this region decide, now what time it is.
func newRegions(s *config.Settings, backends []backend, own store.Store, first int, decides bool, live func() int, now func() limit.Micros) (r regions, err error) {
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
		if lender == nil || r.reaches(b.name) {
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
	if r.file.Home != "" && r.home(r.file.Home) == nil {
		return r, fmt.Errorf("--regions: %s: home: no store %s of --stores can lend; hint: name one of Redis or Valkey", s.Regions, r.file.Home)
	}
	if len(r.file.Stores) > 1 {
		r.sharedLayer = first + len(r.homes)
		if r.shared, err = newShared(s, r.file, backends, own, live, now); err != nil {
			return r, fmt.Errorf("--regions: %s: %w", s.Regions, err)
		}
	}
	return r, nil
}

// newShared puts the layer over own that tells the stores of the other regions what passes.
func newShared(s *config.Settings, file *regionfile.Regions, backends []backend, own store.Store, live func() int, now func() limit.Micros) (*totals.Store, error) {
	if err := checkPlaces(s.Region, file.Stores, backends); err != nil {
		return nil, err
	}
	o := totals.Options{Own: own, Interval: file.Exchange, Floor: file.Floor, Nodes: live, Budget: totals.DefaultBudget, Now: now}
	if o.Floor == 0 {
		o.Floor = -1 // every hit is told
	}
	for _, region := range slices.Sorted(maps.Keys(file.Stores)) {
		if region == s.Region {
			continue
		}
		name := file.Stores[region]
		at := slices.IndexFunc(backends, func(b backend) bool { return b.name == name })
		if at < 1 {
			return nil, fmt.Errorf("region %s: there is no store %s in the file of --stores", region, name)
		}
		peer, ok := backends[at].Store.(store.Importer)
		if !ok || backends[at].inMemory() {
			return nil, fmt.Errorf("region %s: the store %s cannot be told what passes here; hint: one of Redis or Valkey", region, name)
		}
		o.Peers = append(o.Peers, totals.Peer{Region: region, Store: peer})
		o.Budget = max(o.Budget, backends[at].budget)
	}
	return totals.New(o)
}

// reaches reports whether the store called name is that of a region.
func (r *regions) reaches(name string) bool {
	if r.file == nil {
		return false
	}
	for _, of := range r.file.Stores {
		if of == name {
			return true
		}
	}
	return false
}

// away reports whether no request waits for the store called name, because it is a home or that
// of another region.
func (r *regions) away(name string) bool { return r.home(name) != nil || r.reaches(name) }

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
	if err := r.file.Fit(rule); err != nil || rule.Mode.Regions != rules.RegionsLeased {
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
	lender, _ := b.Store.(regional.Lender)
	return lender
}
