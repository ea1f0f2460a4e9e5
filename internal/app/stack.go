package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/nodes"
	"github.com/headgate/headgate/internal/storefile"
	"github.com/headgate/headgate/internal/telemetry"
	"github.com/headgate/headgate/internal/wallclock"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/accuracy"
	"github.com/headgate/headgate/store/denial"
	"github.com/headgate/headgate/store/fleet"
	"github.com/headgate/headgate/store/hotkey"
	"github.com/headgate/headgate/store/lease"
	"github.com/headgate/headgate/store/local"
	"github.com/headgate/headgate/store/spread"
	"github.com/headgate/headgate/store/subbucket"
)

// leaveTimeout bounds how long the end of the process waits for the stores to
// take back leases, unless the budget of a request is longer: what they do not take
// back in that time expires there.
const leaveTimeout = time.Second

// stack is the stores and the layers over them, from what limits ask (Store)
// down to what counts (backends):
//
//	accuracy     measures what callers are told, for a sample of keys
//	denials      remembers what was denied
//	spread       sub-buckets
//	regions      hits leased from a home, and the reserve of this region; one for each home,
//	             and what regions tell each other
//	leases       leased, synced and local modes, hot keys; one for each backend
//	backends     Redis, memcached or memory; several by unit and by name
//
// Beside them stands local, which decides by the share of this node, and peeks, which
// operators read.
type stack struct {
	store.Store
	backends []backend
	// places has the index of each backend by its name.
	places   map[string]int
	local    *local.Store
	leases   []*lease.Store // of those backends that lease
	regions  regions
	spread   *subbucket.Store // nil: in memory
	denials  *denial.Store    // nil: denials are not remembered
	accuracy *accuracy.Store  // nil: nothing is measured
	peeks    store.Store      // nil: operators' peeks are as all others
	fleet    *fleet.Fleet
	nodes    *nodes.Count
	longest  time.Duration // the longest budget of a backend
	// wall is the wall clock by which this process decides.
	wall *wallclock.Clock
	// quit ends the heartbeat, gone is closed when it has ended; nil before
	// join.
	quit context.CancelFunc
	gone chan struct{}
}

// newStack opens the stores of s and puts the layers on them. told is told of
// hot keys. Only a process that decides is one of the nodes among which limits are divided.
func newStack(s *config.Settings, decides bool, told *hotReporter) (*stack, error) {
	wall := new(wallclock.Clock)
	backends, err := openBackends(s, wall)
	if err != nil {
		return nil, err
	}
	k := &stack{
		wall:     wall,
		backends: backends,
		places:   make(map[string]int, len(backends)),
		nodes:    nodes.Remember(s.Nodes, s.StateDir),
	}
	for i := range backends {
		k.places[backends[i].name] = i
		k.longest = max(k.longest, backends[i].budget)
	}
	k.fleet = fleet.Join(fleet.Options{
		Roster: rosterOfAll(backends, s.Regions != ""), Onlooker: !decides, Static: s.Nodes, Initial: k.nodes.Initial,
		OnBeat: func(live int, err error) { k.nodes.Beat(time.Now(), live, err) },
	})
	if k.local, err = local.New(local.Options{Nodes: k.fleet.Live}); err != nil {
		return nil, errors.Join(fmt.Errorf("open the local store: %w", err), closeAll(backends))
	}
	layers := make([]store.Store, len(backends))
	for i := range backends {
		layers[i] = k.overBackend(&backends[i], s, told)
	}
	if k.regions, err = newRegions(s, backends, layers[0], len(layers), decides, k.fleet.Live, wall.Micros); err != nil {
		return nil, errors.Join(err, closeAll(backends))
	}
	for i := range k.regions.homes {
		layers = append(layers, k.regions.homes[i].Store)
	}
	if k.regions.shared != nil {
		layers = append(layers, k.regions.shared)
	}
	if k.peeks, err = k.overReplicas(layers); err != nil {
		return nil, errors.Join(err, closeAll(backends))
	}
	k.Store = layers[0]
	if len(layers) > 1 {
		if k.Store, err = spread.New(k.layerOf, layers...); err != nil {
			return nil, errors.Join(err, closeAll(backends))
		}
	}
	if !backends[0].inMemory() {
		k.spread = subbucket.New(k.Store)
		k.Store = k.spread
	}
	if s.DenialMemory > 0 && !backends[0].inMemory() {
		k.denials = denial.New(k.Store, denial.Options{MaxEntries: s.DenialMemory, Longest: s.DenialTime, OnAnswered: k.noteAnswered, Sharer: sharerOf(&backends[0])})
		k.Store = k.denials
	}
	if s.AccuracySample > 0 {
		if k.accuracy, err = accuracy.New(k.Store, accuracy.Options{Sample: s.AccuracySample}); err != nil {
			return nil, errors.Join(err, closeAll(backends))
		}
		k.Store = k.accuracy
	}
	return k, nil
}

// rosters are those of several backends. The first says how many nodes there are; to the
// others it matters who they are too.
type rosters []store.Roster

// Attend implements store.Roster.
func (r rosters) Attend(ctx context.Context, node string, ttl time.Duration) (live int, err error) {
	for _, other := range r[1:] {
		// The store itself is watched elsewhere; a heartbeat that is lost changes nothing.
		_, _ = other.Attend(ctx, node, ttl)
	}
	return r[0].Attend(ctx, node, ttl)
}

// rosterOfAll returns where nodes that share backends find each other; nil if they cannot.
// Where there are regions, homes have rosters of their own.
func rosterOfAll(backends []backend, regional bool) store.Roster {
	var all rosters
	for i := range backends {
		if regional && backends[i].lender() != nil {
			continue
		}
		roster := rosterOf(&backends[i])
		if i == 0 && roster == nil {
			return nil
		}
		if roster != nil {
			all = append(all, roster)
		}
	}
	return all
}

// rosterOf returns where nodes that share b find each other; nil if they cannot.
func rosterOf(b *backend) store.Roster {
	if b.inMemory() {
		return nil
	}
	roster, _ := b.Store.(store.Roster)
	return roster
}

// overBackend returns the layer that decides b's buckets by the modes of their
// rules. A store in memory has nothing to relieve, and one that hands out no
// leases cannot be relieved: there, only the local mode is apart.
func (k *stack) overBackend(b *backend, s *config.Settings, told *hotReporter) store.Store {
	leaser, ok := b.Store.(store.Leaser)
	if !ok || b.inMemory() {
		// It fails for no stores, and for too many.
		apart, err := spread.New(isLocal, b.Store, k.local)
		if err != nil {
			return b.Store
		}
		return apart
	}
	l := lease.New(lease.Options{
		Store: leaser,
		Local: k.local,
		Nodes: k.fleet.Live,
		Hot:   hotkey.New(hotkey.Options{Nodes: k.fleet.Live}),
		OnHot: told.report,
		// What comes through other nodes takes effect here as soon as after a denial.
		MaxHotPause: min(lease.DefaultHotPause, cmp.Or(s.DenialTime, lease.DefaultHotPause)),
		// Who lets requests wait for long lets what is behind them wait as long.
		Budget: max(lease.DefaultBudget, b.budget),
	})
	b.leases = l
	k.leases = append(k.leases, l)
	return l
}

// modesAreExact says why leased and synced rules are decided exactly, "" if they
// are not.
func (k *stack) modesAreExact() string {
	switch {
	case len(k.leases) == len(k.backends):
		return ""
	case k.backends[0].inMemory():
		return "the counters are in this process"
	}
	return "the store hands out no leases"
}

// layerOf returns the index of the layer that decides t: that of its home, where it is leased
// over regions, else that of its backend.
func (k *stack) layerOf(t *store.Take) int {
	if t.Mode == nil {
		return k.placeOf(t)
	}
	switch t.Mode.Regions {
	case store.RegionsLeased:
		if home := k.regions.home(t.Mode.Store); home != nil {
			return home.layer
		}
	case store.RegionsShared:
		if k.regions.shared != nil {
			return k.regions.sharedLayer
		}
	}
	return k.placeOf(t)
}

// placeOf returns the index of the backend that keeps the bucket of t: the one that its rule
// names, else that of its unit. Rules that name none there is are not in force.
func (k *stack) placeOf(t *store.Take) int { return k.place(storeOf(t), t.Limit) }

// place is placeOf for a limit of a rule that names a store, or "".
func (k *stack) place(name string, l *limit.Limit) int {
	if name == "" {
		if l.Period != time.Second || l.Calendar != nil {
			return 0
		}
		name = storefile.PerSecond
	}
	return k.places[name]
}

// named returns the names of the backends beside the first, as text.
func (k *stack) named() string {
	var names []string
	for i := range k.backends[1:] {
		names = append(names, k.backends[1+i].name)
	}
	return strings.Join(names, ", ")
}

// storeOf returns the store that the rule of t names.
func storeOf(t *store.Take) string {
	if t.Mode == nil {
		return ""
	}
	return t.Mode.Store
}

// fallback returns what decides where the backends do not answer: local, which goes on
// from what this node has last heard of a bucket.
func (k *stack) fallback() store.Store {
	return k.local.Fallback(func(t *store.Take, now limit.Micros) (limit.State, bool) {
		if b := &k.backends[k.placeOf(t)]; b.recall != nil {
			return b.recall(t.Key, t.Limit, now)
		}
		return limit.State{}, false
	})
}

// watch adds what the layers count to metrics.
func (k *stack) watch(metrics *telemetry.Metrics) {
	if read := k.backends[0].memory; read != nil {
		metrics.WatchMemory(read)
	}
	metrics.WatchShards(k.shards)
	for i := range k.regions.homes {
		metrics.WatchRegions(k.regions.homes[i].name, k.regions.homes[i].Stats)
	}
	if len(k.leases) > 0 {
		metrics.WatchLeases(func() lease.Stats { return sumLeases(k.leases) })
	}
	metrics.WatchFleet(k.fleet.Stats)
	if k.spread != nil {
		metrics.WatchSubBuckets(k.spread.Stats)
	}
	if k.denials != nil {
		metrics.WatchDenials(k.denials.Stats)
	}
}

// shards returns what metrics tell of the servers of all backends.
func (k *stack) shards() []telemetry.Shard {
	var all []telemetry.Shard
	for _, s := range k.shardStates() {
		all = append(all, s.Shard)
	}
	return all
}

// shardStates returns the state of the servers of all backends.
func (k *stack) shardStates() []shardState {
	var all []shardState
	for i := range k.backends {
		b := &k.backends[i]
		if b.shards == nil {
			continue
		}
		for _, s := range b.shards() {
			s.Store, s.Away = b.name, k.regions.away(b.name)
			all = append(all, s)
		}
	}
	return all
}

// ping asks every store whether it can decide, and returns why one cannot. Where there are
// regions nobody waits for a home: a region that is cut off from it goes on.
func (k *stack) ping(ctx context.Context) error {
	for i := range k.backends {
		if k.regions.away(k.backends[i].name) {
			continue
		}
		switch err, name := k.backends[i].ping(ctx), k.backends[i].name; {
		case err != nil && name == storefile.Main:
			return fmt.Errorf("the store: %w", err)
		case err != nil:
			return fmt.Errorf("store %s: %w", name, err)
		}
	}
	return nil
}

// join begins the heartbeat by which other nodes know of this one, and what it tells
// them of denials.
func (k *stack) join(logger *slog.Logger) {
	k.nodes.Logger = logger
	if k.nodes.Static || rosterOf(&k.backends[0]) != nil {
		k.nodes.Tell()
	}
	ctx, quit := context.WithCancel(context.Background())
	k.quit, k.gone = quit, make(chan struct{})
	go func() {
		defer close(k.gone)
		var others sync.WaitGroup
		if k.denials != nil {
			others.Go(func() { k.denials.Share(ctx) })
		}
		for i, f := range k.regions.fleets {
			others.Go(func() { f.Run(ctx) })
			others.Go(func() { k.regions.homes[i].Watch(ctx) })
		}
		if k.regions.shared != nil {
			others.Go(func() { k.regions.shared.Run(ctx) })
		}
		k.fleet.Run(ctx)
		others.Wait()
	}()
}

// patience is how long leave may take.
func (k *stack) patience() time.Duration { return max(leaveTimeout, k.longest) }

// leave gives back what this node holds of the shared store, so that others may
// use it at once, leaves the fleet and closes the stores. No take may follow.
func (k *stack) leave(logger *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), k.patience())
	defer cancel()
	for i := range k.regions.homes {
		if err := k.regions.homes[i].Drain(ctx); err != nil {
			logger.Warn("what was leased from the home of other regions was not given back; it expires by itself", "home", k.regions.homes[i].name, "error", err)
		}
	}
	if k.regions.shared != nil {
		if err := k.regions.shared.Drain(ctx); err != nil {
			logger.Warn("other regions were not told of what passed here last", "error", err)
		}
	}
	for _, l := range k.leases {
		if err := l.Drain(ctx); err != nil {
			logger.Warn("leases were not given back; they expire by themselves", "error", err)
		}
	}
	if k.quit != nil {
		k.quit()
		<-k.gone
	}
	if err := k.Close(); err != nil {
		logger.Warn("close the store", "error", err)
	}
}
