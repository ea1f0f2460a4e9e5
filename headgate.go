package headgate

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/trace"
	"github.com/headgate/headgate/trial"
	"github.com/headgate/headgate/verdict"
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
	// Hold names the request towards limits on concurrency, so that it can renew
	// and release its slots, and so that asking twice takes no second one: see
	// limit.NewHold. 0 is for whoever will not tell when the request ends: it takes no
	// slot, and those limits only say whether one is free.
	Hold limit.Hold
	// Attributes are facts about the request from which a rule may take its
	// cost: "content_length", "header:NAME" (lower case), "claim:NAME".
	Attributes []descriptor.Entry
	// Origin is what is known of who sent the request, for observers.
	Origin Origin
	// Receipt, when not nil, connects a charge with its refunds. For a charge (store.Charge)
	// Check writes into it which buckets were charged, and when. For a refund (store.Refund) it
	// gives hits back only to those buckets: not to limits of other rules, nor to limits that were
	// switched off at the charge, nor to a later window. Only Check and CheckOnce look at it.
	Receipt *Receipt
}

// Origin is what is known of who sent a request, for those who watch decisions. Nothing
// is decided by it. The zero value is that of a request of which nothing is known.
type Origin struct {
	// ClientIP is the address of the client; the zero value where it is not known.
	ClientIP netip.Addr
	// UserAgent is what the client calls itself: any bytes, of any length.
	UserAgent string
	// Trace is the trace that the request is part of.
	Trace trace.Parent
	// Front names the way in by which the request came: the name of a Door. "" is a
	// call inside of the program.
	Front string
}

// Descriptor is one list of entries to limit a request on.
type Descriptor struct {
	Entries []descriptor.Entry
	// Hits is the cost of the request here, from 0 to limit.MaxQuota; 0 is a
	// peek.
	Hits int64
	// Op is what to do; the zero value is store.Hit. A refund goes to all limits
	// that a hit would charge, a reset to the innermost rule alone.
	//
	// store.Charge charges what has been used already, such as bytes that were sent,
	// whether it fits or not: what is too much is a debt that is paid back before
	// anything passes again. It is never denied; slots, time in flight and bans do
	// not take part.
	//
	// store.Renew and store.Release are for a request that is in flight: they keep
	// and free its slots (Request.Hold), and charge Hits, here the milliseconds
	// since it was admitted or last renewed, to limits on sustained concurrency.
	// Other limits do not take part in them.
	Op store.Op
	// Limit, when not nil, is a limit named by the caller. It decides alone:
	// no rule is matched. In a domain without rules it does not count and the
	// request passes: without rules, the Domain is CallerDomain.
	Limit *limit.Limit
}

// Response answers a Request.
type Response struct {
	// Allowed is the answer.
	Allowed bool
	// DomainKnown is false when no rule has the request's domain.
	DomainKnown bool
	// ID names the decision where Options.Recorder keeps it.
	ID trace.DecisionID
	// Hold is Request.Hold, or what a descriptor entry named (rules.Rule.HoldEntry),
	// when the request holds slots of limits on concurrency, or its time in flight
	// counts: it must be renewed before HoldFor is over while it runs, and released
	// when it ends, also where the store did not answer (Degraded). Else it is 0; a
	// request that is denied holds nothing.
	Hold limit.Hold
	// HoldFor is the shortest timeout of what is held.
	HoldFor time.Duration
	// Verdicts are the limits that were decided, in the order of the
	// descriptors and, within one, from the outermost rule in.
	Verdicts []Verdict
}

// Verdict is what one limit said.
type Verdict struct {
	// Descriptor is the index of the descriptor in the request. A rule that
	// always applies speaks for descriptor 0.
	Descriptor int
	// Rule is the rule that matched, nil for a limit named by the caller. For a quota
	// of a tenant where no rule stands it is the one that names the tenant.
	Rule *rules.Rule
	// Limit is the limit that decided; nil when the rule or the quota is unlimited,
	// or another rule replaces it. Of a top-up it is its hits, once in its term.
	Limit *limit.Limit
	// Raised is by how many per cent Limit is raised for a time, 0 where it is not.
	Raised int
	// Name is the name of the limit, "" if it has none.
	Name string
	// Tenant is the number of leading entries of the descriptor of which the last one
	// names the tenant; 0 where none is concerned. Depth is the number of those that
	// the limit counts by; 0 of a rule that always applies.
	Tenant, Depth int
	// Tier is the tier of the tenant that the descriptor names, "" where it names none
	// or there are no tiers.
	Tier string
	// Hits is what was asked of the bucket.
	Hits int64
	// Decision is what the limit said, whether it is enforced or not.
	Decision limit.Decision
	// Degraded says why the store did not decide; store.NoReason where it did, or nobody
	// had to.
	Degraded store.Reason
	// Role says what the limit is for; of a limit named by the caller it is
	// rules.Main.
	Role rules.Role
	// Source says where the limit comes from: the rule, or in place of its main limits
	// the tier or an override of the tenant. An unlimited quota has no Limit. Where the
	// quota denied, and the burst pool or a top-up of the tenant has let the request
	// pass, it is that, and so are Limit, Name and Decision.
	Source tenant.Source
	// Effect says whether a denial by the limit is one of the request.
	Effect verdict.Effect
	// By says who decided. By the failure mode, the Decision only has Allowed, Limit,
	// Delay, and when denied RetryAfter and Never; by the whole limit of this node those
	// too. Where nobody looked at the limit it only has Allowed and Limit.
	By verdict.Decider
}

// Entries returns the entries of req, which v is about, that the limit of v counts by:
// none for a rule that always applies, and where req is nil. They are in dst's array, or
// in that of req.
func (v *Verdict) Entries(dst []descriptor.Entry, req *Request) []descriptor.Entry {
	if req == nil || v.Descriptor < 0 || v.Descriptor >= len(req.Descriptors) {
		return nil
	}
	entries := req.Descriptors[v.Descriptor].Entries
	switch {
	case v.Rule == nil && v.Limit == nil:
		return nil
	case v.Rule == nil:
		return entries
	}
	return v.Rule.CountedEntries(dst, entries, min(v.Depth, len(entries)))
}

// Enforced reports whether the request is denied when v denies.
func (v *Verdict) Enforced() bool { return v.Effect == verdict.Enforced }

// OverLimit reports whether v denies and is enforced.
func (v *Verdict) OverLimit() bool { return v.Effect == verdict.Enforced && !v.Decision.Allowed }

// Denied reports whether v denies by its rule, also where nothing is enforced by this
// process (Options.Shadow).
func (v *Verdict) Denied() bool {
	return (v.Effect == verdict.Enforced || v.Effect == verdict.AllShadow) && !v.Decision.Allowed
}

// Counted reports whether v carries counts: a limit decided it, by the store or by
// the share of this node in its place.
func (v *Verdict) Counted() bool {
	return v.Limit != nil && (v.By.OfStore() || v.By == verdict.ByLocalShare)
}

// decided reports whether a limit decided v, by the store or in its place.
func (v *Verdict) decided() bool {
	return v.Limit != nil && (v.By.OfStore() || v.By.Local())
}

// Guessed reports whether nothing decided v: the store could not, nobody could in
// its place, and the failure mode alone answered.
func (v *Verdict) Guessed() bool { return v.By == verdict.ByFailureMode }

// TookPart reports whether v is of a limit that was looked at and may speak for the
// request: neither replaced nor skipped, nor on trial.
func (v *Verdict) TookPart() bool { return v.Effect != verdict.Trial && !v.By.PassedOver() }

// Outcome returns what came of the limit.
func (v *Verdict) Outcome() verdict.Outcome { return verdict.Of(v.Effect, v.By, v.Decision.Allowed) }

// Observer is told of every decision. It must not block, and must not change what it is
// told, nor keep either pointer, nor any string of the request, after it returns: some
// ways in use their memory again. It is called from many goroutines. A panic of it is not
// recovered: it leaves Check, after the request was decided and charged.
// took is how long the call took that brought the request, negative (NotTimed) where that
// was not measured: of calls that take less than 20 us only one in 16 is timed, and
// stands for the others. Each call with a trace that is recorded is timed.
type Observer interface {
	Decided(req *Request, resp *Response, took time.Duration)
}

// Recorder keeps decisions, so that they can be looked up. It is bound as an Observer is,
// and told of every decision before that, so that observers know its name.
type Recorder interface {
	// Record returns the name of the decision; the zero value where it is not kept.
	Record(req *Request, resp *Response, took time.Duration) trace.DecisionID
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
	// Fallback decides the takes that Store could not, where the rule's failure mode
	// is local (by this node's share of the limit) or open, the default (by the whole
	// limit: their Mode is Whole). nil lets them pass, all of them and without a bound;
	// only failure mode closed denies then. Package store/local has one. See
	// Limiter.LacksFallback.
	Fallback store.Store
	// OnPassed, when not nil, is told of each take that Fallback has counted by this node's
	// share, because Store failed with err: what passed, was charged or given back and that
	// Store does not know of. It is called on the path of such decisions, must not block
	// and must not keep t. Package store/reconcile has one.
	OnPassed func(t *store.Take, err error)
	// KeyRaises, when not nil, says which keys are raised because they are hot.
	KeyRaises KeyRaises
	// Rules decide; nil means that only limits named by callers count, until
	// SetRules is called.
	Rules *rules.Set
	// Shadow reports every denial and enforces none.
	Shadow bool
	// Recorder, when not nil, keeps decisions, and names them (Response.ID).
	Recorder Recorder
	// Observer, when not nil, is told of every decision.
	Observer Observer
	// Now is the clock for rules, shifts of schedules, tiers and overrides that are in
	// force for a time only, for candidates, and for reservations, which begin and end by
	// it; nil means time.Now. No other decision of a limit depends on it. Whoever gives the
	// store a clock of its own, as a test does, gives the same one here.
	Now func() time.Time
	// OnRollBack, when not nil, is told once when this node stops enforcing the
	// candidate of a rule by itself. It must not block: it is called from Check, in no
	// lock.
	OnRollBack func(trial.Report)
	// MaxWaiting bounds the calls of Wait that are held back at one time by
	// limits that shape (leaky_queue), and the calls of CheckOnce that wait for the answer of
	// another one; 0 means 10,000, and less than 0 is refused.
	MaxWaiting int
	// Answers remembers the answers to checks with an id (Limiter.CheckOnce); nil means
	// Store, where that is a store.Swapper.
	Answers store.Swapper
	// AnswersAwaited is how long a check waits for the answer to the one that it repeats,
	// while that is being decided: a few times as long as the store may take; 0 means
	// 250 ms, and less than 0 is refused.
	AnswersAwaited time.Duration
}

// Malformed requests. Check wraps them with the place at fault.
var (
	ErrNoDomain      = errors.New("rate limit domain must not be empty")
	ErrNoDescriptors = errors.New("rate limit descriptor list must not be empty")
	ErrDescriptor    = errors.New("malformed descriptor")
	ErrHits          = errors.New("hits out of range")
	ErrHold          = errors.New("hold out of range")
)

// ErrQueueFull is returned by Wait when too many calls are waiting already.
var ErrQueueFull = errors.New("wait: too many calls are being held back; hint: raise Options.MaxWaiting or lower max_delay of the rule")

// validate refuses what must not reach the rules or the store.
func (r *Request) validate() error {
	if r.Domain == "" {
		return fmt.Errorf("%w; hint: that of the rules, or %s for limits without rules", ErrNoDomain, CallerDomain)
	}
	if len(r.Descriptors) == 0 {
		return fmt.Errorf("%w; hint: name at least one thing that the request is limited on", ErrNoDescriptors)
	}
	if len(r.Descriptors) > descriptor.MaxDescriptors {
		return fmt.Errorf("%w: %d descriptors; hint: at most %d in one request", ErrDescriptor, len(r.Descriptors), descriptor.MaxDescriptors)
	}
	if r.Hold > limit.MaxHold {
		return fmt.Errorf("%w: %d; hint: 1 to %d, as limit.NewHold draws, or 0", ErrHold, r.Hold, int64(limit.MaxHold))
	}
	for i := range r.Descriptors {
		if err := r.Descriptors[i].validate(); err != nil {
			return fmt.Errorf("descriptor %d: %w", i, err)
		}
	}
	return nil
}

func (d *Descriptor) validate() error {
	if err := descriptor.Validate(d.Entries); err != nil {
		return fmt.Errorf("%w: %w", ErrDescriptor, err)
	}
	if d.Hits < 0 || d.Hits > limit.MaxQuota {
		return fmt.Errorf("%w: %d; hint: 0 (a peek) to %d", ErrHits, d.Hits, int64(limit.MaxQuota))
	}
	switch d.Op {
	case store.Hit, store.Refund, store.Reset, store.Charge, store.Renew, store.Release:
		return nil
	}
	return fmt.Errorf("%w: unknown operation %d", ErrDescriptor, d.Op)
}
