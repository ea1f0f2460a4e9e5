package headgate

import (
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
)

// CallerDomain is the domain of limits that callers name themselves where no
// rule is concerned, such as {"key","limit","window_ms"} over HTTP. In any other
// domain a limit named by the caller counts only if that domain has rules.
const CallerDomain = "headgate.caller"

// Request asks whether one request may pass. All of its descriptors, and all
// limits that they match, are decided together.
type Request struct {
	// Domain is the namespace of the rules; never empty.
	Domain string
	// Descriptors says what the request is limited on; never empty.
	Descriptors []Descriptor
	// Attributes are facts about the request from which a rule may take its
	// cost: "content_length", "header:NAME" (lower case), "claim:NAME".
	Attributes []descriptor.Entry
}

// Descriptor is one list of entries to limit a request on.
type Descriptor struct {
	Entries []descriptor.Entry
	// Hits is the cost of the request here, from 0 to limit.MaxQuota; 0 is a
	// peek.
	Hits int64
	// Op is what to do; the zero value is store.Hit. A refund goes to all limits
	// that a hit would charge, a reset to the innermost rule alone.
	Op store.Op
	// Limit, when not nil, is a limit named by the caller. It decides alone:
	// no rule is matched.
	Limit *limit.Limit
}

// Response answers a Request.
type Response struct {
	// Allowed is the answer.
	Allowed bool
	// DomainKnown is false when no rule has the request's domain.
	DomainKnown bool
	// Verdicts are the limits that were decided, in the order of the
	// descriptors and, within one, from the outermost rule in.
	Verdicts []Verdict
}

// Verdict is what one limit said.
type Verdict struct {
	// Descriptor is the index of the descriptor in the request. A rule that
	// always applies speaks for descriptor 0.
	Descriptor int
	// Rule is the rule that matched, nil for a limit named by the caller.
	Rule *rules.Rule
	// Limit is the limit that decided; nil when the rule is unlimited or
	// Replaced.
	Limit *limit.Limit
	// Name is the name of the limit, "" if it has none.
	Name string
	// Hits is what was asked of the bucket.
	Hits int64
	// Decision is what the limit said, whether it is enforced or not.
	Decision limit.Decision
	// Enforced is false in shadow mode: the decision is reported only.
	Enforced bool
	// Replaced says that another rule of the request took this one's place.
	Replaced bool
	// Degraded says why the store did not decide; the Decision then only has
	// Allowed, by the rule's failure mode, Limit, and when denied RetryAfter.
	Degraded store.Reason
}

// OverLimit reports whether v denies and is enforced.
func (v *Verdict) OverLimit() bool { return v.Enforced && !v.Decision.Allowed }

// Counted reports whether v carries counts: a limit decided it, and the store
// answered.
func (v *Verdict) Counted() bool { return v.Limit != nil && v.Degraded == store.NoReason }

// Observer is told of every decision. It must not block, and must not keep
// either pointer after it returns. It is called from many goroutines.
type Observer interface {
	Decided(req *Request, resp *Response, took time.Duration)
}

// PanicObserver is an Observer that also wants to know when a decision
// panicked. That is a bug, of Headgate or of a store; the request was answered
// by failure mode. The error holds the stack.
type PanicObserver interface {
	Panicked(err error)
}

// Options configures a Limiter.
type Options struct {
	// Store remembers the buckets; required.
	Store store.Store
	// Rules decide; nil means that only limits named by callers count, until
	// SetRules is called.
	Rules *rules.Set
	// Shadow reports every denial and enforces none.
	Shadow bool
	// Observer, when not nil, is told of every decision.
	Observer Observer
	// Now is the clock for rules that are valid for a time only; nil means
	// time.Now. No decision of a limit depends on it.
	Now func() time.Time
	// MaxWaiting bounds the calls of Wait that are held back at one time by
	// limits that shape (leaky_queue); 0 means 10,000.
	MaxWaiting int
}
