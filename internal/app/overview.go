package app

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/headgate/headgate/internal/nodes"
	"github.com/headgate/headgate/internal/switchboard"
	"github.com/headgate/headgate/internal/telemetry"
	"github.com/headgate/headgate/internal/view"
)

const (
	// shownRules bounds the rules of an overview, and shownShards its servers.
	shownRules, shownShards = 500, 512
	// shownSwitches bounds the switches of an overview.
	shownSwitches = 20
)

// breakerNames are the states of breakers as people read them, by their number.
var breakerNames = [...]string{"closed", "half_open", "open"}

// overview returns how this node is.
func (w *watching) overview() view.Overview {
	p := w.process
	r := p.health.report()
	o := view.Overview{
		At: time.Now(), Node: w.node, Health: healthOf(r), Shards: shardsOf(p.stack.shards()),
		Audit: w.events.Stats(), LiveNodes: p.stack.fleet.Live(), HotKeys: int64(sumLeases(p.stack.leases).Hot),
		Drill: r.Drill,
	}
	o.Health.Homes = w.regions.health()
	held := p.health.held()
	o.Switches, o.SwitchesMore = switchesOf(held[:min(len(held), shownSwitches)]), max(len(held)-shownSwitches, 0)
	p.metrics.Overview(&o, shownRules)
	if read := p.stack.backends[0].memory; read != nil {
		m := read()
		o.Memory = &view.Memory{Keys: m.Keys, Bytes: m.Bytes, MaxBytes: m.MaxBytes}
	}
	return o
}

// state returns what this node tells the others of itself: hashes, and no key.
func (w *watching) state() view.Node {
	p := w.process
	var o view.Overview
	p.metrics.Overview(&o, nodes.MaxRules)
	r := p.health.report()
	held := p.health.held()
	n := view.Node{
		Identity: w.node, At: time.Now(), ConfigVersion: r.Rules.Version, ConfigAt: r.Rules.LoadedAt,
		Ready: r.Ready, Degraded: r.Degraded, Draining: r.Draining,
		Requests: o.Requests, Rates: o.Rates, Latency: o.Latency, HashedBy: w.hashedBy(),
		TopTotal: w.nameless(view.ByTotal), TopDenied: w.nameless(view.ByDenied),
		Rules: o.Rules, RulesMore: o.RulesMore, Tiers: o.Tiers[:min(len(o.Tiers), nodes.MaxTiers)],
		Switches: len(held), SwitchesDigest: switchesDigest(held), Settings: w.settings,
	}
	if r.Tenants != nil {
		n.TenantsVersion, n.Replica = strconv.FormatInt(r.Tenants.Version, 10), r.Tenants.Replica
	}
	for _, s := range p.stack.shards() {
		if breakerNames[s.Breaker] == "open" {
			n.BreakersOpen++
		}
	}
	return n
}

// switchesOf are switches as people see them.
func switchesOf(held []switchboard.Held) []view.Switch {
	shown := []view.Switch{}
	for i := range held {
		s := &held[i]
		shown = append(shown, view.Switch{
			Target: s.Target.String(), State: s.State.String(), Percent: s.Percent, Tenants: len(s.Tenants), Raise: s.Raise,
			Until: s.Until, Reason: s.Reason, By: s.Actor, At: s.At,
		})
	}
	return shown
}

// switchesDigest is the same for nodes that obey the same switches; "" for none.
func switchesDigest(held []switchboard.Held) string {
	if len(held) == 0 {
		return ""
	}
	sum := sha256.New()
	for i := range held {
		s := &held[i]
		fmt.Fprintf(sum, "%q %v %d %d %d %q\n", s.Target, s.State, s.Percent, s.Raise, s.Until.UnixMicro(), s.Tenants)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// nameless returns the keys of this node with the most decisions, without the keys; their
// hashes stay.
func (w *watching) nameless(by string) []view.TopKey {
	keys := []view.TopKey{}
	if w.keys != nil {
		keys = append(keys, w.keys.Top(by, "", nodes.MaxKeys)...)
	}
	for i := range keys {
		keys[i].Key = ""
	}
	return keys
}

func shardsOf(shards []telemetry.Shard) []view.Shard {
	shown := []view.Shard{}
	for _, s := range shards[:min(len(shards), shownShards)] {
		shown = append(shown, view.Shard{
			Store: s.Store, Addr: s.Addr, Connected: s.Connected, Breaker: breakerNames[s.Breaker],
			InFlight: s.InFlight, Calls: s.Calls, Failures: s.Failures, Refused: s.Refused,
		})
	}
	return shown
}

// healthOf is what /readyz says, as operators see it elsewhere.
func healthOf(r report) view.Health {
	h := view.Health{Ready: r.Ready, Degraded: r.Degraded, Draining: r.Draining, Store: r.Store, Rules: r.Rules}
	if t := r.Tenants; t != nil {
		h.Tenants = &view.Config{State: view.State{OK: t.OK, Error: t.Error}, Version: strconv.FormatInt(t.Version, 10), LastGood: t.FromFile}
		h.Replica = t.Replica
	}
	if d := r.Documents; d != nil {
		h.Documents = &view.Config{State: view.State{OK: d.OK}, Version: strconv.FormatInt(d.Version, 10)}
		for _, refused := range d.Refused {
			h.Documents.Error = cmp.Or(h.Documents.Error, fmt.Sprintf("%s %s: %s", refused.Kind, refused.Name, refused.Error))
		}
	}
	return h
}
