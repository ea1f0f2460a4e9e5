package view

import "time"

// Fleet is what this node knows of all nodes, itself among them.
type Fleet struct {
	Nodes []Node `json:"nodes"`
	// Live is how many nodes the store counts; more than Nodes when some do not tell
	// of themselves.
	Live int `json:"live"`
	// Gone are nodes that told of themselves in the last ten minutes and do not any more, because
	// they have ended or cannot reach the store; by name, 100 at most.
	Gone []GoneNode `json:"gone"`
	// Error says why others are not known of, "" when they are.
	Error string `json:"error,omitempty"`
}

// GoneNode is a node that is not heard of any more, and when it last told of itself.
type GoneNode struct {
	Name    string    `json:"name"`
	Version string    `json:"version"`
	At      time.Time `json:"at"`
}

// Node is what a node tells of itself. It holds no key, only hashes.
type Node struct {
	Identity
	At            time.Time `json:"at"`
	Self          bool      `json:"self,omitempty"`
	ConfigVersion string    `json:"config_version"`
	ConfigAt      time.Time `json:"config_at,omitzero"`
	Ready         bool      `json:"ready"`
	Degraded      bool      `json:"degraded"`
	Draining      bool      `json:"draining"`
	BreakersOpen  int       `json:"breakers_open"`
	// TenantsVersion is that of accounts and tiers, "" without them. Switches is how many are in
	// force, and SwitchesDigest tells apart nodes that have others; "" where there are none.
	TenantsVersion string `json:"tenants_version,omitempty"`
	// Replica is how far the replica is whose accounts and tiers these are; missing without one.
	Replica        *Replica `json:"replica,omitempty"`
	Switches       int      `json:"switches"`
	SwitchesDigest string   `json:"switches_digest,omitempty"`
	// Settings are digests of the values of those settings that are not at their defaults and that
	// alike nodes share, by their names; nil where they are not known.
	Settings map[string]string `json:"settings,omitzero"`
	Requests Requests          `json:"requests"` // since start
	Rates    Requests          `json:"rates"`
	Latency  Latency           `json:"latency"`
	// HashedBy tells keys by which nodes hash keys apart: only the lists of nodes with
	// the same one add up.
	HashedBy string `json:"hashed_by"`
	// TopTotal and TopDenied are the keys with the most requests, without Key.
	TopTotal  []TopKey `json:"top_total"`
	TopDenied []TopKey `json:"top_denied"`
	// Rules are those with the most decisions of late, and RulesMore how many more have decided
	// something; Tiers are quotas summed up by tier.
	Rules     []Rule `json:"rules"`
	RulesMore int    `json:"rules_more,omitempty"`
	Tiers     []Tier `json:"tiers"`
}

// Top returns the keys with the most requests by ByTotal or ByDenied.
func (n *Node) Top(by string) []TopKey {
	if by == ByDenied {
		return n.TopDenied
	}
	return n.TopTotal
}
