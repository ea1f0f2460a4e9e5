package grpclimit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/admission"
	"github.com/headgate/headgate/internal/httpanswer"
	"github.com/headgate/headgate/rules"
)

// Checker decides requests[i] into responses[i]. A headgate.Limiter is one, and
// so is any client of a decision service. An error means that nothing was
// decided: a request is malformed (headgate.ErrDescriptor and its kin), or the
// checker could not be reached (Options.FailClosed). Neither slice may be kept
// after it returns, nor what they refer to but for the strings.
type Checker interface {
	Check(ctx context.Context, requests []headgate.Request, responses []headgate.Response) error
}

var _ Checker = (*headgate.Limiter)(nil)

// Generation is a wire form of the RateLimit fields, as in package httplimit.
type Generation = httpanswer.Generation

// ExactRetry is the Jitter that lengthens no retry time.
const ExactRetry = httpanswer.ExactRetry

// The generations. The zero value is the current one.
const (
	// Draft8 is the form of drafts 08 to 11: ratelimit and ratelimit-policy as
	// lists of named items.
	Draft8 = httpanswer.Draft8
	// Draft7 is the form of draft 07: ratelimit as a dictionary.
	Draft7 = httpanswer.Draft7
	// Draft6 is the form of drafts 04 to 06: ratelimit-limit,
	// ratelimit-remaining, ratelimit-reset and ratelimit-policy.
	Draft6 = httpanswer.Draft6
	// Draft6Window is Draft6 with the window beside the limit:
	// "ratelimit-limit: 120;window=60".
	Draft6Window = httpanswer.Draft6Window
	// NoDraft sends none of them.
	NoDraft = httpanswer.NoDraft
)

// ErrUnidentified is wrapped by an Identify for a call that says nothing of who
// asks: UNAUTHENTICATED.
var ErrUnidentified = errors.New("the call does not say who asks")

// Call is what an Identify is told of a call.
type Call struct {
	// FullMethod is "/package.Service/Method".
	FullMethod string
	// Stream says that this is the opening of a stream or one of its messages.
	Stream bool
	// Message is the request of a unary call or a message of a stream; nil for
	// the opening of one. It must not be kept or changed.
	Message any
	// Target is what a client dialled; empty on a server.
	Target string
}

// Identify returns the descriptors that a call is limited on; none lets it pass
// without counting. An error that wraps ErrUnidentified is UNAUTHENTICATED,
// another one INVALID_ARGUMENT. It is called from many goroutines.
type Identify func(ctx context.Context, c Call) ([][]descriptor.Entry, error)

// RemoteAddress is an Identify by the peer of the connection, under the entry
// key remote_address: an IPv4 address, or the /64 of an IPv6 address.
func RemoteAddress(ctx context.Context, _ Call) ([][]descriptor.Entry, error) {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return nil, fmt.Errorf("%w: no peer", ErrUnidentified)
	}
	address, ok := admission.RemoteAddress(p.Addr.String())
	if !ok {
		return nil, fmt.Errorf("%w: peer address %q; hint: listeners that are not TCP need an Identify of their own", ErrUnidentified, p.Addr)
	}
	return [][]descriptor.Entry{{{Key: admission.RemoteAddressKey, Value: address}}}, nil
}

// TargetKey is the entry key of Target.
const TargetKey = "target"

// Target is an Identify by what a client dialled, under the entry key target.
func Target(_ context.Context, c Call) ([][]descriptor.Entry, error) {
	return [][]descriptor.Entry{{{Key: TargetKey, Value: c.Target}}}, nil
}

// defaultSkip are the services that are not limited unless Options.Skip says
// otherwise: a server that denies its health check is taken out of service.
var defaultSkip = []string{
	"/grpc.health.v1.Health/",
	"/grpc.reflection.v1.ServerReflection/",
	"/grpc.reflection.v1alpha.ServerReflection/",
}

// Options configures a Server or a Client. What only one of them has says so.
type Options struct {
	// Domain is the domain of the rules; required, but with Limits.
	Domain string
	// Limits, in place of a Domain, decide without rules: each of them limits
	// each descriptor. Their periods differ. A nameless one is called by its
	// period where there are several. Those who share a store share the bucket
	// of equal descriptors and periods; add an entry to keep them apart. One of them
	// may be on concurrency.
	Limits []rules.NamedLimit
	// Identify says what a call is limited on; nil means RemoteAddress for a
	// Server and Target for a Client.
	Identify Identify
	// Hits is the cost of a call or message, brought into 0 (a peek, which
	// charges nothing) to limit.MaxQuota; nil means 1.
	Hits func(ctx context.Context, c Call) int64
	// Messages limits each message of a stream too: on a Server those received,
	// on a Client those sent. They share the slots of their stream; one that they
	// take where the stream has none ends by its timeout.
	Messages bool
	// Skip names what is not limited: "/package.Service/Method", or all of
	// "/package.Service/". nil means health checks and reflection; an empty list
	// nothing.
	Skip []string

	// Generation is the form of the RateLimit fields that a Server sends.
	Generation Generation
	// OmitX leaves the x-ratelimit fields out, and OmitFields all of them.
	OmitX, OmitFields bool
	// Jitter lengthens every retry time by a random share of itself, from 0 up
	// to this fraction, at most 1. 0 means a tenth, and ExactRetry tells the exact time.
	Jitter float64

	// FailClosed answers UNAVAILABLE when the Checker fails; else such calls
	// pass. It has no part in a store that fails: the rules say what happens
	// then.
	FailClosed bool
	// OnError, when not nil, is told of errors of Identify and of malformed calls, which are
	// refused; and of errors of the Checker, with which the call passes or, by FailClosed,
	// is answered UNAVAILABLE. It must not block.
	OnError func(ctx context.Context, c Call, err error)
	// Refund, when not nil, is asked with the code that a call ended with: true
	// gives the hits of a unary call, or of the opening of a stream, back. Only a
	// Server has it.
	Refund func(codes.Code) bool
	// MaxRefunds bounds the refunds under way at a time, and the releases of slots;
	// 0 means 1000. One more is dropped and counted.
	MaxRefunds int
	// RefundTimeout bounds one refund or release; 0 means 100 ms.
	RefundTimeout time.Duration

	// MaxWait bounds the delay of limits that shape (leaky_queue) which is
	// waited out; a call that would wait longer is denied and not charged. 0
	// means any delay that the limits ask for, negative none.
	MaxWait time.Duration
	// Patience is how long a Client waits for a limit that denies, trying again
	// when it said, before it fails with RESOURCE_EXHAUSTED itself. 0 fails at
	// once. Only a Client has it; the context of the call bounds it too.
	Patience time.Duration
	// MaxWaiting bounds the calls held back at a time; 0 means 10,000. One more
	// is denied and not charged.
	MaxWaiting int
	// Now is the clock of x-ratelimit-reset; nil means time.Now.
	Now func() time.Time
}

// checkSkip refuses what no call can match, which would be limited unawares.
func checkSkip(skip []string) error {
	for _, name := range skip {
		service, method, ok := strings.Cut(strings.TrimPrefix(name, "/"), "/")
		if !ok || !strings.HasPrefix(name, "/") || service == "" || strings.Contains(method, "/") {
			return fmt.Errorf("skip %q; hint: /package.Service/Method, or /package.Service/ for all of its methods", name)
		}
	}
	return nil
}

// skipped reports whether skip names the method.
func skipped(skip []string, fullMethod string) bool {
	if slices.Contains(skip, fullMethod) {
		return true
	}
	service := fullMethod[:strings.LastIndexByte(fullMethod, '/')+1]
	return service != "" && slices.Contains(skip, service)
}

// Stats is what a Server or Client has counted since it was made.
type Stats struct {
	// Allowed, Denied (RESOURCE_EXHAUSTED) and Unavailable are the outcomes,
	// of calls and of messages; of a Client with Patience one for each try.
	Allowed, Denied, Unavailable uint64
	// Skipped counts calls and messages that were not limited.
	Skipped uint64
	// Refused counts those that could not be identified or were malformed, and
	// GaveUp those whose context ended while they were held back.
	Refused, GaveUp uint64
	// Failed counts errors of the Checker that FailClosed, or its absence,
	// answered; those calls are in Unavailable or Allowed too.
	Failed uint64
	// Delayed counts how often one was held back, and Waiting how many are now.
	Delayed uint64
	Waiting int
	// Refunded counts calls whose hits were given back, RefundsDropped those for
	// which that failed or was too much at a time.
	Refunded, RefundsDropped uint64
	// Held is how many calls in flight hold slots of limits on concurrency, or have
	// their time counted. Renewed and RenewalsFailed count how often that was
	// renewed; Released counts calls whose slots were freed at their end,
	// ReleasesDropped those for which that failed for as long as they last: such
	// slots end by their timeout.
	Held                      int
	Renewed, RenewalsFailed   uint64
	Released, ReleasesDropped uint64
}
