package app

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/adminapi"
	"github.com/headgate/headgate/internal/apikeys"
	"github.com/headgate/headgate/internal/audit"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/denialog"
	"github.com/headgate/headgate/internal/explain"
	"github.com/headgate/headgate/internal/inquiry"
	"github.com/headgate/headgate/internal/keyname"
	"github.com/headgate/headgate/internal/nodes"
	"github.com/headgate/headgate/internal/promhistory"
	"github.com/headgate/headgate/internal/reach"
	"github.com/headgate/headgate/internal/regionview"
	"github.com/headgate/headgate/internal/telemetry"
	"github.com/headgate/headgate/internal/timeline"
	"github.com/headgate/headgate/internal/topkeys"
	"github.com/headgate/headgate/internal/tracing"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/trace"
)

// watching is all that looks on while this node decides, and what operators see of it.
type watching struct {
	process *process
	node    view.Identity
	hasher  *keyname.Hasher
	events  *audit.Recorder
	keys    *topkeys.Tracker // nil: keys are not told apart
	denials *denialog.Log    // nil: none are logged
	// unmatched tells of requests that no rule limits.
	unmatched *denialog.Unmatched
	reach     *reach.Check
	traces    *tracing.Tracer // nil: there are none
	nodes     *nodes.States
	timeline  *timeline.Timeline // nil: this process decides nothing
	inquiry   *inquiry.Desk      // nil: nodes of this store cannot be asked
	// prometheus is nil where no setting names one.
	prometheus *promhistory.Reader
	regions    *regionWatch
	settings   map[string]string // as settingDigests returns them
	// draining is closed when the end begins.
	draining chan struct{}
}

// watchTimeout bounds how long events and spans may take to leave at the end.
const watchTimeout = 5 * time.Second

// watch makes all that looks on, as settings say.
func (p *process) watch() error {
	w := &watching{process: p, reach: reach.New(p.logger), draining: make(chan struct{}), settings: settingDigests(p.options.Settings)}
	p.watching = w
	var err error
	if w.node, err = p.identify(); err != nil {
		return err
	}
	if w.hasher, err = readKeyHasher(p.settings.AuditHashKey); err != nil {
		return fmt.Errorf("--audit-hash-key: %w", err)
	}
	if p.keys.names == nil {
		p.keys.veil = apikeys.NewVeil(func(key string) string { return w.hasher.Hash(apikeys.Entry, key) })
	}
	watchers := w.watchKeys()
	if err := w.watchEvents(); err != nil {
		return err
	}
	if n := p.settings.DenialLines; n > 0 {
		w.denials = denialog.New(denialog.Options{Logger: p.logger, PerMinute: n, Hasher: w.hasher, ConfigVersion: p.configVersion})
		watchers = append(watchers, w.denials)
	}
	w.unmatched = denialog.NewUnmatched(p.logger)
	watchers = append(watchers, w.unmatched)
	if err := w.watchTraces(); err != nil {
		return err
	}
	if w.traces != nil {
		watchers = append(watchers, w.traces)
	}
	p.observer.rest = append(p.observer.rest, p.keys.veil.Observer(watchers))
	w.watchNodes()
	w.watchTimeline()
	if err := w.watchInquiries(); err != nil {
		return err
	}
	if err := w.watchPrometheus(&p.settings.Prometheus); err != nil {
		return err
	}
	w.watchRegions()
	p.watchServers()
	p.tasks = append(p.tasks, p.metrics.Run)
	p.onDrain = append(p.onDrain, func() { close(w.draining) })
	return nil
}

// identify says which node this is.
func (p *process) identify() (view.Identity, error) {
	name := p.settings.NodeName
	if name == "" {
		host, err := os.Hostname()
		if err != nil {
			return view.Identity{}, fmt.Errorf("name this node: %w; hint: --node-name NAME", err)
		}
		name = host
	}
	b := p.options.Build
	return view.Identity{Name: name, Version: b.Version, Commit: b.Commit, Go: b.Go, Layer: p.settings.Layer, StartedAt: time.Now()}, nil
}

// configVersion is that of the rules in force, "" while there are none.
func (p *process) configVersion() string {
	if set := p.limiter.Rules(); set != nil {
		return set.Version()
	}
	return ""
}

// readKeyHasher returns what keys are hashed by; one that agrees with no other node's
// without a file.
func readKeyHasher(path string) (*keyname.Hasher, error) {
	if path == "" {
		return keyname.Random(), nil
	}
	return keyname.ReadHasher(path)
}

// watchKeys finds the keys with the most requests, if it is to.
func (w *watching) watchKeys() each {
	p := w.process
	if p.settings.TopKeys == 0 {
		return nil
	}
	w.keys = topkeys.New(topkeys.Options{PerRule: p.settings.TopKeys, Hasher: w.hasher})
	p.tasks = append(p.tasks, w.keys.Run)
	p.metrics.WatchTopKeys(func() telemetry.TopKeys {
		s := w.keys.Stats()
		return telemetry.TopKeys{Tracked: s.Tracked, Capacity: s.Capacity, Seen: s.Seen, Evicted: s.Evicted, NewKeys: w.keys.NewKeys()}
	})
	return each{w.keys}
}

// setRules tells which rules are about to be in force.
func (w *watching) setRules(set *rules.Set) {
	if w.keys != nil {
		w.keys.SetRules(set)
	}
	if w.denials != nil {
		w.denials.SetRules(set)
	}
	w.unmatched.SetRules(set)
	if layer := w.process.stack.accuracy; layer != nil {
		layer.Forget(limitsAlike(w.process.limiter.Rules(), set))
	}
	w.reach.SetRules(set)
	w.regions.setRules(set)
}

// watchEvents makes decisions events, and sends them where they are to go.
func (w *watching) watchEvents() error {
	p, s := w.process, w.process.settings
	sinks, err := w.openEventSinks()
	if err != nil {
		return err
	}
	w.events = audit.New(audit.Options{
		Node: w.node.Name, Sample: s.AuditSample, Buffer: s.AuditBuffer, PlainKeys: s.AuditKeys == "plain", Hasher: w.hasher,
		Sinks: sinks, ConfigVersion: p.configVersion, OnError: w.tell("an event of a decision could not be kept"),
	})
	p.tasks = append(p.tasks, w.events.Run)
	p.metrics.WatchAudit(w.events.Stats)
	return nil
}

// watchTraces makes spans of decisions, if they are to go anywhere.
func (w *watching) watchTraces() error {
	p := w.process
	if p.settings.TraceEndpoint == (config.StoreURL{}) {
		return nil
	}
	traces, err := tracing.New(tracing.Options{
		Endpoint: p.settings.TraceEndpoint.Reveal(), Ratio: p.settings.TraceRatio, Node: w.node.Name, Version: w.node.Version,
		OnError: w.tell("spans of decisions were not taken by the collector"),
	})
	if err != nil {
		return fmt.Errorf("--trace-endpoint: %w", err)
	}
	w.traces = traces
	p.metrics.WatchTracing(func() telemetry.Tracing { return telemetry.Tracing(traces.Stats()) })
	return nil
}

// watchNodes has this node tell the others of itself.
func (w *watching) watchNodes() {
	k := w.process.stack
	board, _ := k.backends[0].Store.(store.Board)
	w.nodes = nodes.NewStates(nodes.Options{
		Board: board, Alone: k.backends[0].inMemory(), Live: k.fleet.Live, ID: trace.NewDecisionID(time.Now()).String(),
		Self: w.state, Logger: w.process.logger,
	})
	if w.process.does.Decide { // what others are told of is decisions
		w.process.tasks = append(w.process.tasks, w.nodes.Run)
	}
}

// tell returns what logs trouble, though not each of it.
func (w *watching) tell(message string) func(error) {
	return sometimes(w.process.logger.Error, fewLines, message)
}

// close sends what waits, within ctx, events and spans at once: neither waits for a place
// of the other that is away. No decision may follow.
func (w *watching) close(ctx context.Context) {
	var closing sync.WaitGroup
	if w.events != nil {
		closing.Go(func() {
			if err := w.events.Close(ctx); err != nil {
				w.process.logger.Error("events of decisions were lost at the end", "error", err)
			}
		})
	}
	if w.traces != nil {
		closing.Go(func() {
			if err := w.traces.Close(ctx); err != nil {
				w.process.logger.Warn("spans of decisions were lost at the end", "error", err)
			}
		})
	}
	closing.Wait()
}

// shown is what the admin API shows of this node.
func (w *watching) shown() *adminapi.Watch {
	limiter := w.process.keys.names.Limiter(w.process.limiter)
	shown := &adminapi.Watch{
		Overview:      w.overview,
		FleetTimeline: w.fleetTimeline,
		OtherEvents:   w.otherEvents,
		TopKeys:       w.topKeys,
		Fleet:         func() view.Fleet { return w.nodes.Fleet(time.Now()) },
		Accuracy:      w.accuracy,
		HotRaises:     w.process.hot.inForce,
		DualRun:       w.process.shownDualRun,
		Regions:       func() view.Regions { return regionview.Shown(w.regions.now()) },
		Explain: func(ctx context.Context, request headgate.Request) (view.Explanation, error) {
			return explain.Request(ctx, limiter, request)
		},
		Events: w.events,
		Follow: func(f view.EventFilter) (adminapi.Follower, error) { return w.events.Follow(f) },
	}
	if w.timeline != nil {
		shown.Timeline = w.timeline.Between
	}
	if w.prometheus != nil {
		shown.Prometheus = w.prometheus
	}
	if settings := w.process.options.Settings; settings.Settings != nil {
		shown.Settings = func() view.Settings { return settings }
	}
	return shown
}

// topKeys returns the keys with the most requests of this node, of another one, or of all nodes.
func (w *watching) topKeys(q adminapi.KeyQuestion) view.TopKeys {
	top := view.TopKeys{By: q.By, Keys: []view.TopKey{}}
	var lists [][]view.TopKey
	switch {
	case w.keys == nil:
		top.Nodes = 1
	case q.Node == w.node.Name || q.Node == "" && !q.Fleet:
		top.Nodes, top.Keys = 1, append(top.Keys, w.keys.Top(q.By, q.Rule, q.Most)...)
	case q.Node != "":
		lists = w.keysOf(q.By, q.Node)
	default:
		// What a list lacks counts too, so that none may be cut before they are merged.
		lists = [][]view.TopKey{w.keys.Top(q.By, q.Rule, max(q.Most, nodes.MaxKeys))}
		for _, node := range w.nodes.Fleet(time.Now()).Nodes[1:] {
			if node.HashedBy == w.hashedBy() {
				lists = append(lists, node.Top(q.By))
			}
		}
	}
	if lists != nil {
		merged := ofRule(topkeys.Merge(q.By, math.MaxInt, lists...), q.Rule)
		top.Nodes, top.Keys = len(lists), append(top.Keys, merged[:min(q.Most, len(merged))]...)
	}
	return top
}

// keysOf returns what nodes of a name tell of their keys, which this node names as far as it has seen them.
func (w *watching) keysOf(by, name string) (lists [][]view.TopKey) {
	type identity struct{ rule, hash string }
	seen := map[identity]string{}
	for _, own := range [][]view.TopKey{w.keys.Top(view.ByTotal, "", math.MaxInt), w.keys.Top(view.ByDenied, "", math.MaxInt)} {
		for i := range own {
			seen[identity{own[i].Rule, own[i].Hash}] = own[i].Key
		}
	}
	for _, node := range w.nodes.Fleet(time.Now()).Nodes[1:] {
		if node.Name != name {
			continue
		}
		list := slices.Clone(node.Top(by))
		for i := range list {
			list[i].Key = seen[identity{list[i].Rule, list[i].Hash}]
		}
		lists = append(lists, list)
	}
	return lists
}

// hashedBy names the key that keys are hashed by.
func (w *watching) hashedBy() string { return w.hasher.Hash("", "") }

// ofRule returns the keys of one rule; all of them for "".
func ofRule(keys []view.TopKey, rule string) []view.TopKey {
	if rule == "" {
		return keys
	}
	var list []view.TopKey
	for _, k := range keys {
		if k.Rule == rule {
			list = append(list, k)
		}
	}
	return list
}
