package rules

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
)

// MatchMode says which limits of the walked path count.
type MatchMode uint8

const (
	// Leaf counts only the limit of the node that the last entry reaches, as
	// envoyproxy/ratelimit does. It is the default of files that use only
	// that service's keys.
	Leaf MatchMode = iota
	// Path counts every limit on the walked path. It is the default of files
	// that use keys of Headgate.
	Path
)

// Consumption says what a denial does to the other limits of its request.
type Consumption uint8

const (
	// AllOrNothing charges nothing anywhere when one limit denies (default).
	AllOrNothing Consumption = iota
	// Independent charges each limit on its own (default with Envoy
	// compatibility).
	Independent
)

// FailureMode says what happens to a request when the store cannot decide.
type FailureMode uint8

const (
	// Open allows the request, marked degraded (default), up to a bound: a node
	// that by itself has admitted the whole limit denies.
	Open FailureMode = iota
	// Closed denies it, marked degraded (default of sensitive rules).
	Closed
	// FailLocal lets the node decide alone meanwhile, by its share of the limit,
	// marked degraded.
	FailLocal
	// OpenUnbounded allows every request, marked degraded.
	OpenUnbounded
)

// CostSource says where the cost of a request comes from.
type CostSource uint8

const (
	// CostHits is the number of hits that the caller named (default).
	CostHits CostSource = iota
	// CostEntry is the value of the descriptor entry Name. Entries with that
	// key take no part in matching nor in any bucket's key, for all rules of
	// the domain: they measure a request and do not name it.
	CostEntry
	// CostAttribute is the request attribute Name: "content_length",
	// "header:NAME" or "claim:NAME".
	CostAttribute
)

// Cost tells a rule how many hits a request is worth. A value that is missing,
// not a whole number or below 0 counts as 1; a larger one than Max as Max.
type Cost struct {
	Source CostSource
	Name   string
	Max    int64
}

// Of returns the cost that value names: 1 when it is missing, not a whole
// number or negative, and c.Max when it is larger than that.
func (c Cost) Of(value string) int64 {
	cost, err := strconv.ParseUint(value, 10, 64)
	switch {
	case err == nil && cost <= uint64(c.Max):
		return int64(cost)
	case err == nil, errors.Is(err, strconv.ErrRange):
		return c.Max
	}
	return 1
}

// Role says what a limit of a rule is for.
type Role uint8

const (
	// Main limits are those that clients are promised and told of: rate_limit and
	// limits.
	Main Role = iota
	// InFlight bounds the requests in flight (`concurrency`).
	InFlight
	// Secondary guards against abuse that stays within the main limits
	// (`secondary_limits`). Clients are told of it when it denies, not before.
	Secondary
	// Sustained is a secondary limit on time spent in flight: its hits are
	// milliseconds, charged while a request runs and when it ends. It admits a
	// request while one millisecond fits.
	Sustained
	// Banning counts the denials of the rule and denies everything for a while
	// after too many (`ban`). It is the last limit of its rule.
	Banning
	// Candidate limits may take the place of the main ones one day (`candidate`). They
	// count the same requests in buckets of their own, and are enforced, if at all,
	// where the main ones are not: see Trial.
	Candidate
)

// Bounds and defaults of limits that stand beside the main ones.
const (
	// DefaultConcurrency is the limit of concurrency unless a rule says
	// otherwise.
	DefaultConcurrency = 20
	// DefaultHoldTimeout is the timeout of concurrency unless a rule says
	// otherwise, MinHoldTimeout and MaxHoldTimeout what it may be.
	DefaultHoldTimeout = time.Minute
	MinHoldTimeout     = time.Second
	MaxHoldTimeout     = 24 * time.Hour
	// MaxSecondary bounds the secondary limits of one rule: each request takes
	// from all of them.
	MaxSecondary = 16
)

// IsMain reports whether clients are promised and told of limits with that role: of
// candidates where they are enforced.
func (r Role) IsMain() bool { return r == Main || r == Candidate }

// String returns the word for metrics, logs and answers.
func (r Role) String() string {
	return [...]string{"main", "concurrency", "secondary", "sustained", "ban", "candidate"}[r]
}

// NamedLimit is one of the limits of a rule.
type NamedLimit struct {
	*limit.Limit
	// Name is what answers call this limit: the `name` of its rate_limit or of its
	// entry of secondary_limits, else empty.
	Name string
	// Role says what it is for.
	Role Role

	ordinal int // of keys, see numberLimits
}

// Rule limits (or frees) the requests that reach its Node. Rules are immutable once New
// has taken them.
type Rule struct {
	// ID identifies the rule in metrics, logs and answers: its Name when it has
	// one, else its domain and composite path ("edge.tenant_acme.op").
	// Built from configuration only, it is unique in a Set: rules that share a
	// name go by their paths, and equal paths are numbered ("#2"). New sets it.
	ID string
	// Name is what the file calls the rule, "" for nothing. Rules that always apply have
	// one, and no two of a domain the same.
	Name string
	// Domain is the domain of the rule.
	Domain string
	// Limits has at least one element, but none when Unlimited, and none of its own
	// where Tenant: the main ones, then the candidates, that on concurrency, the
	// secondary and sustained ones, and the ban last.
	Limits []NamedLimit
	// Unlimited lets every request pass without counting.
	Unlimited bool
	// Shadow decides and reports but does not enforce.
	Shadow bool
	// Quota is Envoy's quota_mode: the request is over only when all of its
	// quota descriptors are.
	Quota bool
	// Always marks a rule that applies to every request of its domain, though
	// no descriptor reaches it.
	Always bool
	// Tenant says that the last entry which reaches the rule names a tenant: what
	// its account or its tier says takes the place of the main limits, here and in
	// the rules below.
	Tenant bool
	// Sensitive marks a rule that guards something that must not be guessed
	// (login, payment): it fails closed unless told otherwise.
	Sensitive bool
	// Failure says what happens when the store cannot decide.
	Failure FailureMode
	// Mode says how the decisions of the rule are made.
	Mode Mode
	// Cost says where the number of hits comes from.
	Cost Cost
	// HoldEntry, when not "", is the key of the descriptor entry whose value names
	// the request towards limits on concurrency (`concurrency.hold`). New makes it the
	// same for all rules of the domain that have such limits. Entries with that key take
	// no part in matching nor in any bucket's key.
	HoldEntry string
	Telling
	Change
	Validity
	// Replaces names the limits that do not apply when this rule matched.
	Replaces []string
	// Metadata is returned as dynamic metadata to Envoy.
	Metadata map[string]any
	// DetailedMetric and ShareThreshold are Envoy's. So is value_to_metric, which the nodes of
	// the path have, because it may stand at a level without a rule: see ValueLevels.
	DetailedMetric, ShareThreshold bool
	// File and Line say where the rule stands.
	File string
	Line int

	compiled
}

// Telling is what those whom a rule limits are told, and whom a lack of room hits first.
// The zero Telling leaves that to the way in.
type Telling struct {
	// Soft, when not nil, says what happens above a share of each main limit.
	Soft *Soft
	// Answer, when not nil, says how clients are told of a denial by this rule;
	// where the rule says nothing it has what the file says for its rules.
	Answer *Answer
	// Priority is the word for how late the requests of the rule are shed when
	// there are too many: "p0" to "p3", "" for none of its own.
	Priority string
}

// Change says how the limits of a rule change. With the zero Change they stay as they are, and
// what was used still counts when a file brings other limits.
type Change struct {
	// Carry says what becomes of what was used when a main, candidate or secondary limit
	// changes, or a quota of a tenant that is decided by the rule.
	Carry limit.Carry
	// MaxDebt bounds the hits that are charged beyond a main or candidate limit, or such
	// a quota; 0 leaves the bound that limit.Charge names.
	MaxDebt int64
	// Trial, when not nil, says whom the candidate limits are enforced for.
	Trial *Trial
	// Schedule has the shifts in their order: of those in force at one time, the first
	// one counts.
	Schedule Schedule
	// HotRaise says when the limits of hot keys are raised.
	HotRaise HotRaise
}

// Validity is the time in which a rule applies: always, for the zero Validity.
type Validity struct {
	// ValidFrom and ValidUntil bound the time in which the rule applies,
	// [from, until); the zero time means no bound.
	ValidFrom, ValidUntil time.Time
}

// compiled is what New makes of a rule.
type compiled struct {
	index  int // among the rules of the Set
	domain *Domain
	node   *Node // nil for Always
	// way are the nodes that lead to the rule, one for each level; nil for Always.
	way      []*Node
	keyStart []byte
	// tenantStart is the keyStart of the quotas of tenants; nil unless Tenant.
	tenantStart []byte
	// shares says that a node of way is Shared.
	shares bool
	// timetable is nil when the rule has no schedule.
	timetable *timetable
	// derived remembers the quotas of tenants as rules make them; nil where the domain
	// has no tenants.
	derived *derivedLimits
	// raises remembers limits that operators have raised, of all rules of the Set.
	raises *derivedLimits
}

// Index returns the position of r among the Rules of its Set.
func (r *Rule) Index() int { return r.index }

// Match returns how the walk to r counts: that of its domain.
func (r *Rule) Match() MatchMode { return r.domain.Match }

// Consumption returns what a denial of r does to the other limits of its
// request: that of its domain.
func (r *Rule) Consumption() Consumption { return r.domain.Consumption }

// Node returns the node that r stands at, nil for a rule that always applies.
func (r *Rule) Node() *Node { return r.node }

// Way returns the nodes that lead to r, one for each entry, r's own last; nil for a rule
// that always applies. The caller must not change the slice.
func (r *Rule) Way() []*Node { return r.way }

// Path returns what the entries that reach r must be, level by level, as
// envoyproxy/ratelimit writes it in its statistics: "key_value", or "key" where any value
// goes. It is made of configuration only, and empty for a rule that always applies.
func (r *Rule) Path() []string {
	var path []string
	for _, n := range r.way {
		path = append(path, n.Composite())
	}
	return path
}

// ShowsValues reports whether the statistics of envoyproxy/ratelimit tell requests of r apart by
// their values (detailed_metric, and value_to_metric of r or a level above).
func (r *Rule) ShowsValues() bool {
	return r.DetailedMetric || slices.ContainsFunc(r.way, func(n *Node) bool { return n.ValueToMetric })
}

// ValueLevels returns the levels of the path of r at which those statistics show the values of
// requests because value_to_metric asks for it, as Path writes them.
func (r *Rule) ValueLevels() []string {
	var levels []string
	for _, n := range r.way {
		if n.ValueToMetric {
			levels = append(levels, n.Composite())
		}
	}
	return levels
}

// MetricPath appends to dst the path of r in those statistics, for a request of which it has
// matched the first depth of entries: with the values of the request where that is asked for,
// but for values that share a bucket.
func (r *Rule) MetricPath(dst []string, entries []descriptor.Entry, depth int) []string {
	level := 0
	for i := range entries[:min(depth, len(entries))] {
		e := &entries[i]
		if r.domain != nil && r.domain.Aside(e.Key) || level >= len(r.way) {
			continue
		}
		if n := r.way[level]; (r.DetailedMetric || n.ValueToMetric) && !n.Shared {
			dst = append(dst, compositeText(e.Key, e.Value))
		} else {
			dst = append(dst, n.Composite())
		}
		level++
	}
	return dst
}

// LimitOf returns the first limit of r that has a role, nil if there is none.
func (r *Rule) LimitOf(role Role) *limit.Limit {
	for i := range r.Limits {
		if r.Limits[i].Role == role {
			return r.Limits[i].Limit
		}
	}
	return nil
}

// InForce reports whether the rule applies at now(). The clock is only read when there
// is a bound.
func (v *Validity) InForce(now func() time.Time) bool {
	if v.ValidFrom.IsZero() && v.ValidUntil.IsZero() {
		return true
	}
	t := now()
	return !t.Before(v.ValidFrom) && (v.ValidUntil.IsZero() || t.Before(v.ValidUntil))
}
