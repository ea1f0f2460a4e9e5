package headgate

import (
	"context"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
)

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
	// Hits is the cost of the request here; 0 is a peek.
	Hits int64
	// Op is what to do; the zero value is store.Hit.
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
	// Allowed, by the rule's failure mode, and Limit.
	Degraded store.Reason
}

// OverLimit reports whether v denies and is enforced.
func (v *Verdict) OverLimit() bool { return v.Enforced && !v.Decision.Allowed }

// Decisive returns the verdict that speaks for descriptor i of the request, or
// for all of them when i is negative: when one denies, the denying one with the
// longest retry-after (one that can never pass before all); else the one with
// the smallest remaining, of equals the longest reset. Nil means that nothing
// limited it.
func (r *Response) Decisive(i int) *Verdict { panic("to be written") }

// Degraded returns the reason of the first verdict that the store did not
// decide, or store.NoReason.
func (r *Response) Degraded() store.Reason { panic("to be written") }

// Observer is told of every decision. It must not block, and must not keep
// either pointer after it returns.
type Observer interface {
	Decided(req *Request, resp *Response, took time.Duration)
}

// Limiter decides requests by a set of rules and a store. It is safe for
// concurrent use.
type Limiter struct{}

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
}

// New returns a Limiter.
func New(o Options) (*Limiter, error) { panic("to be written") }

// SetRules swaps the rules in whole; requests under way finish with the old.
func (l *Limiter) SetRules(s *rules.Set) { panic("to be written") }

// Rules returns the rules in force, nil if there are none.
func (l *Limiter) Rules() *rules.Set { panic("to be written") }

// Check decides requests[i] into responses[i]; the slices have the same length.
// The verdict slices of the responses are reused. An error names a malformed
// request (see ErrNoDomain and its kin) and means that nothing was decided or
// charged; a failing store is never an error but a degraded response.
func (l *Limiter) Check(ctx context.Context, requests []Request, responses []Response) error {
	panic("to be written")
}
