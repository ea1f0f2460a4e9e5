package verdict

// Effect says what it means for the request that a limit denies.
type Effect uint8

const (
	// Enforced: the request is denied (the zero value).
	Enforced Effect = iota
	// AllShadow: it is reported only, because nothing is enforced by this process.
	AllShadow
	// RuleShadow: it is reported only, because the rule is in shadow mode, by itself or by
	// a switch.
	RuleShadow
	// Trial: it is counted only, whatever the rule is. So count a candidate, and a main
	// limit in whose place the candidate is enforced. A limit on trial speaks for nobody.
	Trial
)

// Decider says who decided in the name of a limit.
type Decider uint8

const (
	// ByStore: the store (the zero value).
	ByStore Decider = iota
	// ByLocalShare: this node by its share of the limit, as failure mode local asks. The
	// decision has counts, those of this node.
	ByLocalShare
	// ByLocalWhole: this node by the whole limit, as failure mode open asks, so that it
	// does not let pass more than that. The decision has no counts, because those of one
	// node say nothing about what is left.
	ByLocalWhole
	// ByFailureMode: nobody could, and the failure mode answered.
	ByFailureMode
	// BySkipping: nobody, because another limit of the request is known to deny.
	BySkipping
	// ByReplacement: nobody, because another rule of the request took the place of this
	// one.
	ByReplacement
	// ByReserve: the store of this region, which denied by its reserve of a limit that is
	// leased over regions, because the home of the limit does not answer. The limit may be far
	// from used up.
	ByReserve
)

// OfStore reports whether a store decided.
func (d Decider) OfStore() bool { return d == ByStore || d == ByReserve }

// Local reports whether this node decided.
func (d Decider) Local() bool { return d == ByLocalShare || d == ByLocalWhole }

// PassedOver reports whether nobody looked at the limit.
func (d Decider) PassedOver() bool { return d == BySkipping || d == ByReplacement }

// Outcome is what came of one limit, or of a request as a whole.
type Outcome uint8

const (
	// Allowed: it lets pass (the zero value).
	Allowed Outcome = iota
	// Denied: it denies.
	Denied
	// ShadowDenied: it would deny, were it enforced. Such a request passes.
	ShadowDenied
	// Replaced: another rule of the request took the place of the limit.
	Replaced
	// DegradedAllowed: the store did not decide; the failure mode lets pass, or of a
	// request whatever decided in the place of the store.
	DegradedAllowed
	// DegradedDenied: the same, but it denies.
	DegradedDenied
	// LocalAllowed and LocalDenied: this node decided by its share of the limit.
	LocalAllowed
	LocalDenied
	// OpenDenied: this node denied by the whole limit, in failure mode open.
	OpenDenied
	// Skipped: the limit was not looked at, because another one is known to deny.
	Skipped
	// Unmatched: the domain has rules, and none is for this request.
	Unmatched
	// UnknownDomain: no rule has the domain of the request.
	UnknownDomain

	// Outcomes is how many there are, OfLimits how many a single limit can have: the
	// first ones.
	Outcomes = UnknownDomain + 1
	OfLimits = Unmatched
)

var words = [Outcomes]string{
	"allowed", "denied", "shadow_denied", "replaced", "degraded_allowed", "degraded_denied",
	"local_allowed", "local_denied", "open_denied", "skipped", "unmatched", "unknown_domain",
}

// String returns the word used in metrics and JSON, such as "shadow_denied".
func (o Outcome) String() string { return words[o] }

// outcomes has, for each Decider, what comes of a limit that does not deny its request,
// and of one that does.
var outcomes = [...][2]Outcome{
	ByStore:       {Allowed, Denied},
	ByLocalShare:  {LocalAllowed, LocalDenied},
	ByLocalWhole:  {DegradedAllowed, OpenDenied},
	ByFailureMode: {DegradedAllowed, DegradedDenied},
	BySkipping:    {Skipped, Skipped},
	ByReplacement: {Replaced, Replaced},
	ByReserve:     {Allowed, Denied},
}

// Of returns what came of a limit that let pass or denied. Where the store did not decide,
// a denial that is not enforced counts as leave to pass.
func Of(e Effect, by Decider, allowed bool) Outcome {
	switch {
	case allowed:
		return outcomes[by][0]
	case e == Enforced:
		return outcomes[by][1]
	case by.OfStore():
		return ShadowDenied
	}
	return outcomes[by][0]
}
