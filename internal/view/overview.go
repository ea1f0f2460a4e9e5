package view

import "time"

// Overview is how a node is.
type Overview struct {
	At        time.Time `json:"at"`
	Node      Identity  `json:"node"`
	Health    Health    `json:"health"`
	Requests  Requests  `json:"requests"` // since start
	Rates     Requests  `json:"rates"`    // per second
	Latency   Latency   `json:"latency"`
	Shards    []Shard   `json:"shards"`
	Rules     []Rule    `json:"rules"` // those with the most decisions of late first
	RulesMore int       `json:"rules_more,omitempty"`
	Tiers     []Tier    `json:"tiers"` // by name
	Audit     Audit     `json:"audit"`
	LiveNodes int       `json:"live_nodes"`
	HotKeys   int64     `json:"hot_keys"`
	Memory    *Memory   `json:"memory,omitempty"` // of the memory store
	Drill     *Drill    `json:"drill,omitempty"`  // while one lasts
	// Switches are those in force on this node, in the order of their targets;
	// SwitchesMore is how many there are beside them.
	Switches     []Switch `json:"switches"`
	SwitchesMore int      `json:"switches_more,omitempty"`
}

// Identity says which node it is.
type Identity struct {
	Name      string    `json:"name"`
	Version   string    `json:"version"`
	Commit    string    `json:"commit"`
	Go        string    `json:"go"`
	Layer     string    `json:"layer,omitempty"`
	StartedAt time.Time `json:"started_at"`
}

// Switch is a switch in force, and who has set it when.
type Switch struct {
	Target string `json:"target"` // such as "rule:shop.tenant"; "all" is everything
	State  string `json:"state"`  // on, off, shadow, raised
	// Percent and Tenants say for which share and how many tenants it is; both 0: for all.
	Percent int `json:"percent,omitempty"`
	Tenants int `json:"tenants,omitempty"`
	// Raise is by how many per cent limits are raised.
	Raise  int       `json:"raise,omitempty"`
	Until  time.Time `json:"until,omitzero"`
	Reason string    `json:"reason,omitempty"`
	By     string    `json:"by,omitempty"`
	At     time.Time `json:"at,omitzero"`
}

// Health is what /readyz says.
type Health struct {
	Ready    bool   `json:"ready"`
	Degraded bool   `json:"degraded"`
	Draining bool   `json:"draining"`
	Store    State  `json:"store"`
	Rules    Config `json:"rules"`
	// Tenants is missing where neither tiers nor accounts decide, Documents where there is
	// no database.
	Tenants   *Config `json:"tenants,omitempty"`
	Documents *Config `json:"documents,omitempty"`
	// Replica is missing where the database of tenants that is read is the one that is written to.
	Replica *Replica `json:"replica,omitempty"`
	// Homes is not OK while a home that rules lease from does not answer; missing where there
	// are no regions. A process without its home is ready all the same.
	Homes *State `json:"homes,omitempty"`
}

// State says whether something works, and why not.
type State struct {
	OK     bool   `json:"ok"`
	Reason string `json:"reason,omitempty"`
	Error  string `json:"error,omitempty"`
}

// Config is what is in force of rules, or of what a database says.
type Config struct {
	State
	Version  string    `json:"version,omitempty"`
	LoadedAt time.Time `json:"loaded_at,omitzero"`
	// LastGood says that what was good before is in force, because what is there now is
	// not.
	LastGood bool `json:"last_good,omitempty"`
}

// Replica is how far the replica is that is read in place of the database of tenants.
type Replica struct {
	OK bool `json:"ok"` // it answers
	// LagS is how many seconds old at most its state is, or what was read of it while it does
	// not answer; missing where that is not known.
	LagS *float64 `json:"lag_s,omitempty"`
	// Receiving says that it is connected to its primary, Paused that its replay was paused,
	// Primary that it is a primary itself.
	Receiving bool `json:"receiving"`
	Paused    bool `json:"paused,omitempty"`
	Primary   bool `json:"primary,omitempty"`
	// UnreplayedBytes are received and not replayed yet.
	UnreplayedBytes int64 `json:"unreplayed_bytes"`
	// PrimaryOpened says that the primary has answered since start, so that changes could be made.
	PrimaryOpened bool `json:"primary_opened"`
}

// Tier is what the quotas of the tenants of a tier have said, since start and per second.
type Tier struct {
	Tier        string  `json:"tier"`
	Allowed     float64 `json:"allowed"`
	Denied      float64 `json:"denied"`
	AllowedRate float64 `json:"allowed_rate"`
	DeniedRate  float64 `json:"denied_rate"`
	// Used is the mean share of their quotas that tenants had used after the requests of
	// late, from 0 to 1, by a sample of them; -1 where none of these is in the sample.
	Used float64 `json:"used"`
}

// Requests are requests by what they were answered: counts, or rates.
type Requests struct {
	Allowed         float64 `json:"allowed"`
	Denied          float64 `json:"denied"` // 429
	DegradedAllowed float64 `json:"degraded_allowed"`
	DegradedDenied  float64 `json:"degraded_denied"` // 503; 429 by the node's own count
	Unmatched       float64 `json:"unmatched"`
	UnknownDomain   float64 `json:"unknown_domain"`
}

// Latency is how long decisions took, in seconds; all are 0 when there were none.
type Latency struct {
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
	Count uint64  `json:"count"`
}

// Shard is one server of a store.
type Shard struct {
	Store     string `json:"store"`
	Addr      string `json:"addr"`
	Connected bool   `json:"connected"`
	Breaker   string `json:"breaker"` // closed, half_open, open
	InFlight  int64  `json:"in_flight"`
	Calls     uint64 `json:"calls"`
	Failures  uint64 `json:"failures"`
	Refused   uint64 `json:"refused"`
}

// Rule is what the limits of a rule have said, since start, and per second.
type Rule struct {
	ID       string   `json:"id"`
	Outcomes Outcomes `json:"outcomes"`
	Rates    Outcomes `json:"rates"`
}

// Outcomes are what limits said, as the label outcome of headgate_decisions_total has
// it.
type Outcomes struct {
	Allowed         float64 `json:"allowed"`
	Denied          float64 `json:"denied"`
	ShadowDenied    float64 `json:"shadow_denied"`
	Replaced        float64 `json:"replaced"`
	DegradedAllowed float64 `json:"degraded_allowed"`
	DegradedDenied  float64 `json:"degraded_denied"`
	LocalAllowed    float64 `json:"local_allowed"`
	LocalDenied     float64 `json:"local_denied"`
	OpenDenied      float64 `json:"open_denied"`
	Skipped         float64 `json:"skipped"`
}

// Audit is what became of events of decisions. Decided is always the sum of Produced,
// Dropped, Buffered and Unsampled.
type Audit struct {
	Decided   uint64      `json:"decided"`
	Unsampled uint64      `json:"unsampled"` // allowed, and not in the sample
	Produced  uint64      `json:"produced"`
	Dropped   uint64      `json:"dropped"`
	Buffered  uint64      `json:"buffered"`
	Sinks     []AuditSink `json:"sinks"`
}

// AuditSink is where events go: a directory or a topic. Its counts are of the events
// that were Produced for all sinks together.
type AuditSink struct {
	Name     string `json:"name"` // without secrets
	Written  uint64 `json:"written"`
	Failed   uint64 `json:"failed"`
	Buffered uint64 `json:"buffered"`
	Error    string `json:"error,omitempty"` // of the last failure, "" since it works again
}

// Memory is how full the memory store is.
type Memory struct {
	Keys     int64 `json:"keys"`
	Bytes    int64 `json:"bytes"`
	MaxBytes int64 `json:"max_bytes"`
}
