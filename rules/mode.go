package rules

import (
	"cmp"
	"fmt"
	"time"
)

// Consistency says how much of a rule's decisions is made in the shared store.
type Consistency uint8

const (
	// Exact decides every request in the shared store (default).
	Exact Consistency = iota
	// Leased decides from hits that a node took from the shared bucket in
	// advance. The limit is never exceeded.
	Leased
	// Synced decides from a node's last view of the shared bucket, and charges
	// there every interval what it has let pass. The excess is bounded.
	Synced
	// Local decides in each node alone.
	Local
)

// String returns the word that rules use.
func (c Consistency) String() string {
	return [...]string{"exact", "leased", "synced", "local"}[c]
}

// Regions says how the processes of several regions count a rule.
type Regions uint8

const (
	// RegionsEach counts in each region for itself (default): the limit holds in each.
	RegionsEach Regions = iota
	// RegionsLeased decides by hits that nodes of all regions lease from the rule's home, and by
	// a reserve of each region: the limit holds over all of them.
	RegionsLeased
	// RegionsShared counts in each region, and has regions tell each other what passed: the limit
	// holds over all of them but for what is under way.
	RegionsShared
)

// String returns the word that rules use.
func (r Regions) String() string { return [...]string{"each", "leased", "shared"}[r] }

// Bounds and defaults of a Mode; those of the stores are the same.
const (
	// DefaultSyncInterval is the sync_interval unless a rule says otherwise,
	// MinSyncInterval and MaxSyncInterval what it may be.
	DefaultSyncInterval = 200 * time.Millisecond
	MinSyncInterval     = 50 * time.Millisecond
	MaxSyncInterval     = 5 * time.Second
	// DefaultLeaseTTL is the lease_ttl unless a rule says otherwise,
	// MinLeaseTTL and MaxLeaseTTL what it may be.
	DefaultLeaseTTL = time.Second
	MinLeaseTTL     = 50 * time.Millisecond
	MaxLeaseTTL     = time.Minute
	// MinSubBuckets and MaxSubBuckets are what sub_buckets may be.
	MinSubBuckets = 2
	MaxSubBuckets = 64
)

// Mode says how the decisions of one rule are made. The zero value is the
// default: exactly, each in the shared store but for hot keys.
type Mode struct {
	Consistency Consistency
	// SyncInterval is the time between exchanges of a synced rule; 0 means
	// DefaultSyncInterval.
	SyncInterval time.Duration
	// LeaseTTL bounds a lease on a limit that drains (token_bucket,
	// leaky_bucket, gcra); 0 means DefaultLeaseTTL. A lease on a window ends
	// with it.
	LeaseTTL time.Duration
	// Whole gives every node the whole limit where nodes decide alone, not a
	// share of it (`local_share: whole`).
	Whole bool
	// HotKeys says what is done for a hot key of an exact rule (`hot_keys`).
	HotKeys HotKeys
	// SubBuckets is the number of buckets that each count is spread over, from
	// MinSubBuckets to MaxSubBuckets; 0 means one.
	SubBuckets int
	// AskAlways asks the store for every decision, also after a denial
	// (`remember_denials: false`).
	AskAlways bool
	// Store names the store that keeps the buckets (`store`); "" is that of the process. With
	// RegionsLeased it is the home; "" is that of the file of regions.
	Store string
	// Regions says how several regions count (`regions`).
	Regions Regions
}

// Leases reports whether the rule asks for hits to be taken in advance. Without a word
// they may be too, see Rule.LeasesHot.
func (m *Mode) Leases() bool { return m.Consistency == Leased || m.HotKeys == HotLease }

// String returns the mode as rules write it, on one line: "exact", "synced
// every 200ms", "leased", "leased for up to 2s", "exact, hot keys leased", "exact,
// each request in the store", "exact in 8 sub-buckets", "local, the whole limit on each node", "exact, in store home".
func (m Mode) String() string {
	text := m.Consistency.String()
	switch {
	case m.Consistency == Synced:
		text += " every " + DurationText(cmp.Or(m.SyncInterval, DefaultSyncInterval))
	case m.Consistency == Leased:
		text += m.ttlText()
	case m.HotKeys == HotLease:
		text += ", hot keys leased" + m.ttlText()
	case m.HotKeys == HotCoalesce:
		text += ", each request in the store"
	case m.Consistency == Local && m.Whole:
		text += ", the whole limit on each node"
	case m.SubBuckets > 0:
		text += fmt.Sprintf(" in %d sub-buckets", m.SubBuckets)
	}
	if m.AskAlways {
		text += ", denials not remembered"
	}
	if m.Store != "" {
		text += ", in store " + m.Store
	}
	if m.Regions != RegionsEach {
		text += ", over all regions " + m.Regions.String()
	}
	return text
}

// ttlText is what the rule says of the time to live of its leases.
func (m *Mode) ttlText() string {
	if m.LeaseTTL == 0 {
		return ""
	}
	return " for up to " + DurationText(m.LeaseTTL)
}
