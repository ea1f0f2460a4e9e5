package httplimit

import (
	"context"
	"net/http"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/httpanswer"
	"github.com/headgate/headgate/rules"
)

// Checker decides requests[i] into responses[i]. A headgate.Limiter is one, and
// so is any client of a decision service. An error means that nothing was
// decided: a request is malformed (headgate.ErrDescriptor and its kin: 400), or
// the checker could not be reached (Options.FailClosed). Neither slice may be
// kept after it returns, nor what they refer to but for the strings.
type Checker interface {
	Check(ctx context.Context, requests []headgate.Request, responses []headgate.Response) error
}

var _ Checker = (*headgate.Limiter)(nil)

// Generation is a wire form of the RateLimit header fields.
type Generation = httpanswer.Generation

// The generations. The zero value is the current one.
const (
	// Draft8 is the form of drafts 08 to 11: RateLimit and RateLimit-Policy as
	// lists of named items.
	Draft8 = httpanswer.Draft8
	// Draft7 is the form of draft 07: RateLimit as a dictionary.
	Draft7 = httpanswer.Draft7
	// Draft6 is the form of drafts 04 to 06: RateLimit-Limit,
	// RateLimit-Remaining, RateLimit-Reset (delta seconds) and RateLimit-Policy.
	Draft6 = httpanswer.Draft6
	// Draft6Window is Draft6 with the window beside the limit:
	// "RateLimit-Limit: 120;window=60".
	Draft6Window = httpanswer.Draft6Window
	// NoDraft sends none of them.
	NoDraft = httpanswer.NoDraft
)

// ResetFormat is how X-RateLimit-Reset tells time, in whole seconds, rounded up.
type ResetFormat = httpanswer.ResetFormat

// The formats of X-RateLimit-Reset.
const (
	// UnixSeconds is an instant: seconds since the Unix epoch (default).
	UnixSeconds = httpanswer.UnixSeconds
	// DeltaSeconds is the time from now.
	DeltaSeconds = httpanswer.DeltaSeconds
)

// Body is a preset for the body of a denial.
type Body = httpanswer.Body

// The bodies of a denial.
const (
	// Platform is an error object with code, message, retry_after, limit,
	// window and scope (default).
	Platform = httpanswer.Platform
	// Flat is an object of two strings: error and message.
	Flat = httpanswer.Flat
	// Problem is application/problem+json (RFC 9457) with violated-policies.
	Problem = httpanswer.Problem
)

// ExactRetry is the Jitter that lengthens no retry time.
const ExactRetry = httpanswer.ExactRetry

// Answer says what clients are told. The zero value is the default: draft-8 and
// X-RateLimit-* fields, Reset as Unix seconds, platform bodies, and retry times that are
// up to a tenth longer.
type Answer struct {
	// Generation is the form of the RateLimit fields.
	Generation Generation
	// OmitX leaves X-RateLimit-Limit, -Remaining and -Reset out.
	OmitX bool
	// Reset is the format of X-RateLimit-Reset.
	Reset ResetFormat
	// Body is the form of the body of a denial.
	Body Body
	// Jitter lengthens every retry time by a random share of itself, from 0 up
	// to this fraction, so that a crowd that was denied together does not
	// return together. Up to 1; 0 means a tenth, and ExactRetry tells the exact time.
	Jitter float64
	// Random returns a number in [0, 1) for Jitter, from many goroutines; nil
	// means math/rand/v2.
	Random func() float64
	// WindowReset tells the end of the current window as the time of reset. Otherwise that is
	// when the limit is as if unused: with a sliding window up to two windows later.
	WindowReset bool
	// PartitionKey, when not nil, tells by the parameter pk of RateLimit (draft-8) which
	// key is counted, by a keyed hash under this secret.
	PartitionKey []byte
	// DecisionID is the name of the header field that names a decision which an
	// observer has recorded (headgate.Response.ID), such as X-Decision-Id; "" sends
	// none.
	DecisionID string
}

func (a Answer) encoder() (*httpanswer.Encoder, error) {
	return httpanswer.New(httpanswer.Options{
		Generation: a.Generation, OmitX: a.OmitX, Reset: a.Reset,
		Body: a.Body, Jitter: httpanswer.Jitter{Share: httpanswer.ShareOf(a.Jitter), Random: a.Random}, WindowReset: a.WindowReset, PartitionKey: a.PartitionKey, DecisionID: a.DecisionID,
	})
}

// Options configures a Middleware.
type Options struct {
	// Domain is the domain of the rules; required, but with Limits.
	Domain string
	// Limits, in place of a Domain, decide without rules: each of them limits
	// each descriptor. Their periods differ. A nameless one is called by its
	// period where there are several. Two Middlewares over one store share the
	// bucket of equal descriptors and periods; add an entry to keep them apart. One
	// of them may be on concurrency.
	Limits []rules.NamedLimit
	// Identify says what a request is limited on; nil means RemoteAddress.
	Identify Identify
	// Hits is the cost of a request, brought into 0 (a peek, which charges
	// nothing) to limit.MaxQuota; nil means 1. A rule may have its own idea of
	// the cost: see Attributes.
	Hits func(*http.Request) int64
	// Attributes are facts about the request that are passed on, so that rules
	// can take their cost from them: "content_length" and "header:NAME". A
	// header that is given more than once is refused with 400. A body whose
	// length is not known in advance has no content_length.
	Attributes []string

	// SkipPaths are paths that are not limited: as they are, or with all below
	// when they end in a slash. A path with "//", "/./" or "/../" in it is below
	// none. Each begins with a slash.
	SkipPaths []string
	// SkipMethods are methods that are not limited, in capitals.
	SkipMethods []string
	// Skip, when not nil, is asked about the requests that nothing above skips.
	Skip func(*http.Request) bool
	// CountPreflight limits CORS preflight requests too. Without it an OPTIONS
	// request with Origin and Access-Control-Request-Method passes uncounted.
	CountPreflight bool

	// Answer says what clients are told, and AnswerByRule what those are told
	// for whom the rule of that ID speaks. What a rule says itself (`answer`) comes
	// before both.
	Answer       Answer
	AnswerByRule map[string]Answer
	// Denied answers denials in place of the preset bodies. It finds all header
	// fields set but Content-Type, and what to say by FromContext; its status
	// should be Result.Status.
	Denied http.Handler
	// ExposeHeaders adds Access-Control-Expose-Headers to answers to requests
	// with an Origin, so that scripts of other sites can read the fields.
	ExposeHeaders bool
	// Override replaces RateLimit fields that the handler sets by ours, at the
	// price of a wrapped ResponseWriter. It suits reverse proxies, which add the
	// fields of a backend to those that are there. Of two Middlewares that override,
	// the inner one speaks.
	Override bool

	// Challenge is the WWW-Authenticate of requests that say nobody asks
	// (ErrUnidentified), which then are answered with 401. Without it they get
	// 400, as other requests that cannot be identified.
	Challenge string
	// IdentifyStatus, when not nil, chooses the status by the error of Identify:
	// 400 to 499, but 429. See Identity for what there is without it.
	IdentifyStatus func(error) int
	// FailClosed answers 503 when the Checker fails; else such requests pass
	// with Result.Degraded. It has no part in a store that fails: the rules say
	// what happens then.
	FailClosed bool
	// OnError, when not nil, is told of errors of Identify and of malformed
	// requests, which are answered with 4xx, or 500 or 503 where the fault is ours;
	// and of errors of the Checker, with which the request passes or, by FailClosed,
	// is answered with 503. A headgate.Limiter and a client.Checker return none for a
	// store or a server that fails. It must not block.
	OnError func(*http.Request, error)

	// Refund, when not nil, is asked with the status that the handler answered:
	// true gives the hits back. A handler that panics before it answers has
	// status 500, one that hijacks 101. It wraps the ResponseWriter.
	Refund func(status int) bool
	// MaxRefunds bounds the refunds under way at a time, and the releases of slots;
	// 0 means 1000. One more is dropped and counted.
	MaxRefunds int
	// RefundTimeout bounds one refund or release, and so how much later its answer
	// ends; 0 means 100 ms.
	RefundTimeout time.Duration

	// MaxWait bounds the delay of limits that shape (leaky_queue) and of soft limits
	// which is waited out before the handler runs; a request that would wait longer is
	// denied and not charged. 0 means any delay that the limits ask for,
	// negative none.
	MaxWait time.Duration
	// MaxWaiting bounds the requests held back at a time; 0 means 10,000. One
	// more is answered with 503 and not charged.
	MaxWaiting int

	// PassResult puts the Result into the context of the handler (FromContext),
	// at the price of two allocations. Denied always finds it.
	PassResult bool
	// Now is the clock of X-RateLimit-Reset and of tokens; nil means that of the system.
	Now func() time.Time
}
