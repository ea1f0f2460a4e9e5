package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/rules"
)

// merged is what several nodes show, as one: rates and counts add up, what one of them lacks
// all lack, and times are those of the slowest.
func merged(nodes []snapshot) snapshot {
	if len(nodes) == 1 {
		return nodes[0]
	}
	var m snapshot
	var overviews []*view.Overview
	for i := range nodes {
		n := &nodes[i]
		m.Notes = append(m.Notes, n.Notes...)
		if n.Overview != nil {
			overviews = append(overviews, n.Overview)
		}
		if m.Switches == nil {
			m.Switches = n.Switches
		}
		if n.Keys != nil && (m.Keys == nil || n.Keys.Total.Nodes > m.Keys.Total.Nodes) {
			m.Keys = n.Keys // each node shows the keys of all that it knows
		}
		m.Fleet = withFleet(m.Fleet, n.Fleet)
	}
	if len(overviews) == 0 {
		return m
	}
	m.Overview = mergedOverview(overviews)
	m.Notes = append(m.Notes, drift("rules", overviews, func(o *view.Overview) string { return o.Health.Rules.Version })...)
	m.Notes = append(m.Notes, drift("versions of Headgate", overviews, func(o *view.Overview) string { return o.Node.Version })...)
	if m.Keys != nil && m.Keys.Total.Nodes < len(overviews) {
		m.Notes = append(m.Notes, fmt.Sprintf("keys are those of %d of %d nodes", m.Keys.Total.Nodes, len(overviews)))
	}
	return m
}

// drift says which nodes differ in something that is the same in a fleet; nothing where none do.
func drift(of string, list []*view.Overview, what func(*view.Overview) string) []string {
	by := map[string][]string{}
	for _, o := range list {
		by[what(o)] = append(by[what(o)], o.Node.Name)
	}
	if len(by) < 2 {
		return nil
	}
	var parts []string
	for _, value := range slices.Sorted(maps.Keys(by)) {
		parts = append(parts, fmt.Sprintf("%s on %s", cmp.Or(value, "none"), strings.Join(by[value], ", ")))
	}
	return []string{of + " differ: " + strings.Join(parts, "; ")}
}

// withFleet adds what another node knows of all nodes: of a node it is itself that knows best, and
// else who has heard of it last.
func withFleet(known, other *view.Fleet) *view.Fleet {
	if other == nil {
		return known
	}
	sum := &view.Fleet{}
	if known != nil {
		*sum = *known
	}
	sum.Nodes = slices.Clone(sum.Nodes)
	for _, n := range other.Nodes {
		at := slices.IndexFunc(sum.Nodes, func(o view.Node) bool { return o.Name == n.Name && o.StartedAt.Equal(n.StartedAt) })
		switch {
		case at < 0:
			sum.Nodes = append(sum.Nodes, n)
		case n.Self || !sum.Nodes[at].Self && n.At.After(sum.Nodes[at].At):
			sum.Nodes[at] = n
		}
	}
	sum.Live, sum.Error = max(sum.Live, other.Live), cmp.Or(sum.Error, other.Error)
	return sum
}

// mergedOverview is how several nodes are together.
func mergedOverview(list []*view.Overview) *view.Overview {
	m := &view.Overview{Health: view.Health{Ready: true, Store: view.State{OK: true}, Rules: view.Config{State: view.State{OK: true}, Version: list[0].Health.Rules.Version}}}
	m.Node = view.Identity{Name: rules.CountText(len(list), "node"), Version: list[0].Node.Version, StartedAt: list[0].Node.StartedAt}
	if len(list) == 1 { // the others do not answer
		m.Node.Name = list[0].Node.Name
	}
	rules, shards := map[string]*view.Rule{}, map[[2]string]*view.Shard{}
	for _, o := range list {
		if o.At.After(m.At) {
			m.At = o.At
		}
		if o.Node.StartedAt.Before(m.Node.StartedAt) {
			m.Node.StartedAt = o.Node.StartedAt
		}
		mergeHealth(&m.Health, o)
		addRequests(&m.Requests, &o.Requests)
		addRequests(&m.Rates, &o.Rates)
		m.Latency.P50, m.Latency.P90, m.Latency.P99 = max(m.Latency.P50, o.Latency.P50), max(m.Latency.P90, o.Latency.P90), max(m.Latency.P99, o.Latency.P99)
		m.Latency.Count += o.Latency.Count
		for i := range o.Rules {
			addRule(rules, &o.Rules[i])
		}
		for i := range o.Shards {
			addShard(shards, &o.Shards[i])
		}
		addAudit(&m.Audit, &o.Audit)
		addMemory(m, o.Memory)
		m.RulesMore, m.LiveNodes = max(m.RulesMore, o.RulesMore), max(m.LiveNodes, o.LiveNodes)
		m.HotKeys += o.HotKeys
		if m.Drill == nil || o.Drill != nil && o.Drill.Here {
			m.Drill = cmp.Or(o.Drill, m.Drill)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(rules)) {
		m.Rules = append(m.Rules, *rules[id])
	}
	for _, s := range shards {
		m.Shards = append(m.Shards, *s)
	}
	return m
}

// mergeHealth makes m no better than o is, and names the node in what is wrong with it.
func mergeHealth(m *view.Health, o *view.Overview) {
	h := &o.Health
	m.Ready, m.Degraded, m.Draining = m.Ready && h.Ready, m.Degraded || h.Degraded, m.Draining || h.Draining
	worse := func(m *view.State, s view.State) {
		if s.OK {
			return
		}
		if text := o.Node.Name + ": " + cmp.Or(s.Error, s.Reason); m.OK {
			*m = view.State{Reason: s.Reason, Error: text}
		} else if !strings.Contains(m.Error, text) {
			m.Error += "; " + text
		}
	}
	worse(&m.Store, h.Store)
	worse(&m.Rules.State, h.Rules.State)
	m.Rules.LastGood = m.Rules.LastGood || h.Rules.LastGood
	for _, part := range []struct{ m, o **view.Config }{{&m.Tenants, &h.Tenants}, {&m.Documents, &h.Documents}} {
		if *part.o == nil {
			continue
		}
		if *part.m == nil {
			*part.m = &view.Config{State: view.State{OK: true}, Version: (*part.o).Version}
		}
		worse(&(*part.m).State, (*part.o).State)
	}
	if h.Homes != nil {
		if m.Homes == nil {
			m.Homes = &view.State{OK: true}
		}
		worse(m.Homes, *h.Homes)
	}
	m.Replica = worseReplica(m.Replica, h.Replica)
}

func addRequests(m, o *view.Requests) {
	m.Allowed += o.Allowed
	m.Denied += o.Denied
	m.DegradedAllowed += o.DegradedAllowed
	m.DegradedDenied += o.DegradedDenied
	m.Unmatched += o.Unmatched
	m.UnknownDomain += o.UnknownDomain
}

func addRule(rules map[string]*view.Rule, o *view.Rule) {
	m := rules[o.ID]
	if m == nil {
		m = &view.Rule{ID: o.ID}
		rules[o.ID] = m
	}
	addOutcomes(&m.Outcomes, &o.Outcomes)
	addOutcomes(&m.Rates, &o.Rates)
}

func addOutcomes(m, o *view.Outcomes) {
	m.Allowed += o.Allowed
	m.Denied += o.Denied
	m.ShadowDenied += o.ShadowDenied
	m.Replaced += o.Replaced
	m.DegradedAllowed += o.DegradedAllowed
	m.DegradedDenied += o.DegradedDenied
	m.LocalAllowed += o.LocalAllowed
	m.LocalDenied += o.LocalDenied
	m.OpenDenied += o.OpenDenied
	m.Skipped += o.Skipped
}

// addShard adds what a node has with a server: it is down, and its breaker open, where one node
// finds it so.
func addShard(shards map[[2]string]*view.Shard, o *view.Shard) {
	m := shards[[2]string{o.Store, o.Addr}]
	if m == nil {
		m = &view.Shard{Store: o.Store, Addr: o.Addr, Connected: true, Breaker: o.Breaker}
		shards[[2]string{o.Store, o.Addr}] = m
	}
	m.Connected = m.Connected && o.Connected
	if states := []string{"closed", "half_open", "open"}; slices.Index(states, o.Breaker) > slices.Index(states, m.Breaker) {
		m.Breaker = o.Breaker
	}
	m.InFlight += o.InFlight
	m.Calls += o.Calls
	m.Failures += o.Failures
	m.Refused += o.Refused
}

func addAudit(m, o *view.Audit) {
	m.Decided += o.Decided
	m.Unsampled += o.Unsampled
	m.Produced += o.Produced
	m.Dropped += o.Dropped
	m.Buffered += o.Buffered
	for i := range o.Sinks {
		s := o.Sinks[i]
		at := slices.IndexFunc(m.Sinks, func(known view.AuditSink) bool { return known.Name == s.Name })
		if at < 0 {
			m.Sinks = append(m.Sinks, s)
			continue
		}
		known := &m.Sinks[at]
		known.Written, known.Failed, known.Buffered, known.Error = known.Written+s.Written, known.Failed+s.Failed, known.Buffered+s.Buffered, cmp.Or(known.Error, s.Error)
	}
}

func addMemory(m *view.Overview, o *view.Memory) {
	if o == nil {
		return
	}
	if m.Memory == nil {
		m.Memory = new(view.Memory)
	}
	m.Memory.Keys += o.Keys
	m.Memory.Bytes += o.Bytes
	m.Memory.MaxBytes += o.MaxBytes
}
