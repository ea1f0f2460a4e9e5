package view

// TopKeys are the keys with the most requests, of one order.
type TopKeys struct {
	By   string   `json:"by"` // ByTotal or ByDenied
	Keys []TopKey `json:"keys"`
	// Nodes is how many nodes the counts are of.
	Nodes int `json:"nodes"`
}

// The orders of lists of keys: most requests first, or most denials.
const (
	ByTotal  = "total"
	ByDenied = "denied"
)

// BothTopKeys are the keys with the most requests, in both orders.
type BothTopKeys struct {
	Total  TopKeys `json:"total"`
	Denied TopKeys `json:"denied"`
}

// TopKey is a key of a rule. Counts are of decisions, one for each request, of the last
// minutes: they fade. That which the list is ordered by is no less than the truth less
// Error, no more than the truth plus Error, but for what sampling adds.
type TopKey struct {
	Rule string `json:"rule"`
	// Hash names the key towards those who may not see it: a keyed hash, the same as
	// in events.
	Hash string `json:"hash"`
	// Key is the key as people write descriptors, "" for those who may not see it, and
	// where only other nodes have seen it.
	Key    string  `json:"key,omitempty"`
	Total  float64 `json:"total"`
	Denied float64 `json:"denied"`
	Error  float64 `json:"error"`
	// Unlisted is the most that a key of the rule may have which the list lacks, for
	// those who add lists up.
	Unlisted float64 `json:"unlisted,omitempty"`
}
