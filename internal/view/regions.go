package view

import "time"

// Regions is what a process knows of the limits that hold over several regions: of the homes
// that it leases from, and of the rules that do. A process without regions has no Region.
type Regions struct {
	At     time.Time `json:"at"`
	Node   string    `json:"node"`
	Region string    `json:"region"`
	// Onlooker says that the process does not decide, so that nothing passes by it: what is held and
	// what regions have not heard of is told by the nodes that do.
	Onlooker bool `json:"onlooker,omitempty"`
	// Peers are what the limits of this process hang on beyond its region: the usual home, and
	// those that rules name. By name.
	Peers []RegionPeer `json:"peers"`
	// Rules are those in force that hold over all regions, by id; RulesMore is how many
	// there are beside them.
	Rules     []RegionRule `json:"rules"`
	RulesMore int          `json:"rules_more,omitempty"`
	// Told are the other regions, which are told what passes here by shared rules; by name. There
	// are none where the file of regions names no stores.
	Told []RegionTold `json:"told"`
	// Shared are the rules in force of which regions tell each other, by id; SharedMore is how
	// many there are beside them.
	Shared     []SharedRule `json:"shared"`
	SharedMore int          `json:"shared_more,omitempty"`
}

// Silent returns the names of the peers that do not answer, and Deaf those of the regions that
// cannot be told.
func (r *Regions) Silent() (names []string) {
	for i := range r.Peers {
		if r.Peers[i].State == PeerSilent {
			names = append(names, r.Peers[i].Name)
		}
	}
	return names
}

// Deaf is beside Silent.
func (r *Regions) Deaf() (names []string) {
	for i := range r.Told {
		if r.Told[i].State == PeerSilent {
			names = append(names, r.Told[i].Region)
		}
	}
	return names
}

// RegionTold is another region, as this node knows of it by telling it what passes here.
type RegionTold struct {
	Region string `json:"region"`
	// State is PeerHeard, PeerSilent or PeerUnheard, and Why says what that means; "" of
	// PeerHeard.
	State string `json:"state"`
	Why   string `json:"why,omitempty"`
	// Heard is how long ago its store last answered, and RoundTrip how long that took, in seconds;
	// -1 and 0 where it never has.
	Heard     float64 `json:"heard"`
	RoundTrip float64 `json:"round_trip"`
	// Lag is how old the oldest hit was, of those worth telling, that its store had not heard of
	// in the last round, in seconds; LagBound is beyond what an alert says so.
	Lag      float64 `json:"lag"`
	LagBound float64 `json:"lag_bound"`
	// Unheard is how many hits it had not heard of, over all keys.
	Unheard int64 `json:"unheard"`
	// Totals counts what it was told, Failed what of that was not answered.
	Totals uint64 `json:"totals"`
	Failed uint64 `json:"failed"`
}

// SharedRule is a rule of which regions tell each other, as this node sees it.
type SharedRule struct {
	Rule   string        `json:"rule"`
	Limits []SharedLimit `json:"limits"`
	// Buckets is of how many keys there is a count, and HitsRate how many hits pass on this node a
	// second.
	Buckets  int64   `json:"buckets"`
	HitsRate float64 `json:"hits_rate"`
	// Unheard is how many hits on one key a region had not heard of when it was last told: the
	// most of any key, and To the region. The sum over the nodes of all other regions bounds by
	// how much a region may exceed the limit.
	Unheard int64  `json:"unheard"`
	To      string `json:"to,omitempty"`
	// Hits passed on this node since it started, Back were given back; Resets is how often a
	// bucket was reset here, and Crowded how many takes were not counted, because there was no
	// room.
	Hits    int64  `json:"hits"`
	Back    int64  `json:"back"`
	Resets  int64  `json:"resets"`
	Crowded uint64 `json:"crowded"`
}

// SharedLimit is one limit of a shared rule.
type SharedLimit struct {
	// Limit is as people write it.
	Limit string `json:"limit"`
	// Floor is how many hits on one key a region need not tell, and Most by how many the limit
	// can be exceeded whatever fails.
	Floor int64 `json:"floor"`
	Most  int64 `json:"most"`
}

// States of a RegionPeer: it has answered of late, it has not, and it was not asked yet.
const (
	PeerHeard   = "heard"
	PeerSilent  = "silent"
	PeerUnheard = "unheard"
)

// RegionPeer is a store, or a process, of which the limits of this process have to hear.
type RegionPeer struct {
	// Name is that in the file of stores; Kind is "home".
	Name string `json:"name"`
	Kind string `json:"kind"`
	// State is PeerHeard, PeerSilent or PeerUnheard, and Why says what that means; "" of
	// PeerHeard.
	State string `json:"state"`
	Why   string `json:"why,omitempty"`
	// Heard is how long ago the last answer came, in seconds; -1 where none ever has.
	Heard float64 `json:"heard"`
	// RoundTrip is how long the last answer took, and Renewal how long questions for leases took
	// of late in the mean, in seconds; 0 where there was none.
	RoundTrip float64 `json:"round_trip"`
	Renewal   float64 `json:"renewal"`
	// LagBound is the round trip, in seconds, beyond which leases end before the next are here:
	// half of the shortest lease of its rules; 0 where no rule leases from it.
	LagBound float64 `json:"lag_bound"`
	// EpochAge is for how long the home has forgotten nothing, in seconds, and Epochs how
	// often that began anew.
	EpochAge float64 `json:"epoch_age"`
	Epochs   uint64  `json:"epochs"`
	// Asked counts what it was asked for, Failed what it did not answer.
	Asked  uint64 `json:"asked"`
	Failed uint64 `json:"failed"`
	// Nodes is how many nodes of all regions lease from it, as this one last heard.
	Nodes int `json:"nodes"`
	// Held is how many hits this node may let pass by its leases.
	Held int64 `json:"held"`
}

// States of a RegionRule: its limits are leased, they are not because the home may have
// forgotten something, the home has not answered the last question, it is away, and it was not
// asked yet.
const (
	RuleLeased    = "leased"
	RuleOnReserve = "on_reserve"
	RuleWaiting   = "waiting"
	RuleCutOff    = "cut_off"
	RuleUnheard   = "unheard"
)

// RegionRule is a rule whose limits hold over all regions, as this node sees it. Counts are of
// hits on this node since it started, rates are per second of late.
type RegionRule struct {
	Rule string `json:"rule"`
	// Regions is the word of the rule: "leased". Peer is the home.
	Regions string `json:"regions"`
	Peer    string `json:"peer"`
	// State is RuleLeased, RuleOnReserve, RuleWaiting, RuleCutOff or RuleUnheard, and Why says
	// what that means; "" of RuleLeased.
	State  string        `json:"state"`
	Why    string        `json:"why,omitempty"`
	Limits []RegionLimit `json:"limits"`
	// Buckets is how many keys this node holds hits of, or has of late, and Held how many hits.
	Buckets int64 `json:"buckets"`
	Held    int64 `json:"held"`
	// ReserveLeft is which part of it the reserve had left of late, for the key that had the
	// least, from 0 to 1; -1 where nobody has asked it.
	ReserveLeft float64 `json:"reserve_left"`
	// Granted counts hits that the home has lent: Used passed, Returned went back, Lost could
	// be used by nobody.
	Granted  int64 `json:"granted"`
	Used     int64 `json:"used"`
	Returned int64 `json:"returned"`
	Lost     int64 `json:"lost"`
	// TakenRate is hits lent by the home; LeasedRate, ReserveRate and DeniedRate are takes by
	// leases, by the reserve, and denied.
	TakenRate   float64 `json:"taken_rate"`
	LeasedRate  float64 `json:"leased_rate"`
	ReserveRate float64 `json:"reserve_rate"`
	DeniedRate  float64 `json:"denied_rate"`
	// Unused is which part of the hits that were lent in the last minute nobody could use, from 0
	// to 1; -1 where none were lent.
	Unused float64 `json:"unused"`
	// Excess is by how many hits more have passed than were lent, as this node has measured
	// it since it started; Bound is how many the rule promises at most.
	Excess int64 `json:"excess"`
	Bound  int64 `json:"bound"`
	// Leased, Reserved and Denied count the takes whose rates stand above.
	Leased   uint64 `json:"leased"`
	Reserved uint64 `json:"reserved"`
	Denied   uint64 `json:"denied"`
}

// RegionLimit is one limit of a rule, and how it is cut, in hits a period.
type RegionLimit struct {
	// Limit is as people write it.
	Limit string `json:"limit"`
	// Home is what the home lends, Reserve that of this region, and Others those of all others,
	// of which nothing is used here.
	Home    int64 `json:"home"`
	Reserve int64 `json:"reserve"`
	Others  int64 `json:"others"`
}
