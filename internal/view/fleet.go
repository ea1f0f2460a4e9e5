package view

import "time"

// Fleet is what this node knows of all nodes, itself among them.
type Fleet struct {
	Nodes []Node `json:"nodes"`
	// Live is how many nodes the store counts; more than Nodes when some do not tell
	// of themselves.
	Live int `json:"live"`
	// Error says why others are not known of, "" when they are.
	Error string `json:"error,omitempty"`
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
	Rates         Requests  `json:"rates"`
	Latency       Latency   `json:"latency"`
	// HashedBy tells keys by which nodes hash keys apart: only the lists of nodes with
	// the same one add up.
	HashedBy string `json:"hashed_by"`
	// TopTotal and TopDenied are the keys with the most requests, without Key.
	TopTotal  []TopKey `json:"top_total"`
	TopDenied []TopKey `json:"top_denied"`
}

// Top returns the keys with the most requests by "total" or "denied".
func (n *Node) Top(by string) []TopKey {
	if by == "denied" {
		return n.TopDenied
	}
	return n.TopTotal
}
