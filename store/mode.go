package store

import "time"

// Consistency says how much of a decision is made in the shared store.
type Consistency uint8

const (
	// Exact decides every take in the shared store (default).
	Exact Consistency = iota
	// Leased decides from hits that the node took from the shared bucket in
	// advance. The limit is never exceeded; what is refunded counts as refunded
	// later, by the length of a lease at worst (limit.Lease).
	Leased
	// Synced decides from the node's last view of the shared bucket, and charges
	// there every interval what it has let pass. The excess is bounded.
	Synced
	// Local decides in the node alone, by its share of the limit.
	Local
)

// String returns the word that rules use.
func (c Consistency) String() string {
	return [...]string{"exact", "leased", "synced", "local"}[c]
}

// Regions says how the processes of several regions count a bucket.
type Regions uint8

const (
	// RegionsEach counts in each region for itself (default).
	RegionsEach Regions = iota
	// RegionsLeased decides by hits that were leased from the home of all regions, and by the
	// reserve of this one.
	RegionsLeased
	// RegionsShared decides by the store of this region, which hears of what passed in the
	// others.
	RegionsShared
)

// Bounds and defaults of a Mode.
const (
	// DefaultSyncInterval, MinSyncInterval and MaxSyncInterval are about the
	// time between two exchanges of a synced bucket.
	DefaultSyncInterval = 200 * time.Millisecond
	MinSyncInterval     = 50 * time.Millisecond
	MaxSyncInterval     = 5 * time.Second
	// DefaultLeaseTTL is how long a lease on a bucket that drains (token_bucket,
	// leaky_bucket, gcra) lasts, MinLeaseTTL and MaxLeaseTTL its bounds.
	DefaultLeaseTTL = time.Second
	MinLeaseTTL     = 50 * time.Millisecond
	MaxLeaseTTL     = time.Minute
	// MaxSubBuckets bounds Mode.SubBuckets.
	MaxSubBuckets = 64
)

// Mode says how takes of one rule are decided. It is immutable and shared by takes of the
// rule; nil, and the zero value, mean exact.
type Mode struct {
	// Rule is the id of the rule, for metrics and logs; it comes from
	// configuration only.
	Rule string
	// Main says that the takes are on main limits of the rule, or on what a tenant has in
	// their place, and not on one that only tells what it would do. Layers that measure
	// (store/accuracy) measure these.
	Main bool
	// Consistency is what the rule asks for.
	Consistency Consistency
	// SyncInterval is the time between exchanges of a synced bucket; 0 means
	// DefaultSyncInterval.
	SyncInterval time.Duration
	// LeaseTTL bounds a lease on a bucket that drains; 0 means DefaultLeaseTTL.
	// A lease on a window lasts until the window (the part of sub_windows)
	// ends.
	LeaseTTL time.Duration
	// Whole gives a local bucket the whole limit on every node, not a share.
	Whole bool
	// AutoLease lets an exact bucket be leased while it is hot, where its limit
	// allows leases.
	AutoLease bool
	// SubBuckets spreads a bucket over that many, each with its part of the
	// limit; 0 and 1 mean one.
	SubBuckets int
	// AskAlways keeps denials from being remembered.
	AskAlways bool
	// Store names the store that keeps the bucket, where there are several; "" is the
	// first.
	Store string
	// Regions says how the processes of several regions count; of RegionsLeased, Store is the
	// home ("" is the usual one).
	Regions Regions
}
