// Package httpanswer turns a headgate.Response into what an HTTP client is told:
// a status, header fields and a body. Every way in that speaks HTTP uses it, and
// so does the gRPC one for the headers that it asks its proxy to add.
//
// Summarize takes the numbers out of the response once; AppendFields and
// AppendBody then write them in the chosen shapes, so that they cannot
// contradict each other. Nothing here reflects, and AppendFields allocates once.
//
// The RateLimit fields follow drafts of the IETF HTTPAPI working group
// (draft-ietf-httpapi-ratelimit-headers), which still change; the generation is
// therefore an option and no conformance is claimed.
package httpanswer

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
)

// Generation is a wire form of the RateLimit header fields.
type Generation uint8

// The generations. The zero value is the current one.
const (
	// Draft8 is the form of drafts 08 to 11: RateLimit-Policy and RateLimit as
	// lists of named items.
	Draft8 Generation = iota
	// Draft7 is the form of draft 07: RateLimit as a dictionary.
	Draft7
	// Draft6 is the form of drafts 04 to 06: RateLimit-Limit,
	// RateLimit-Remaining, RateLimit-Reset (delta seconds) and RateLimit-Policy.
	Draft6
	// NoDraft sends none of them.
	NoDraft
)

var generationNames = [...]string{Draft8: "draft-8", Draft7: "draft-7", Draft6: "draft-6", NoDraft: "off"}

// String returns the name used in settings.
func (g Generation) String() string { return nameOf(generationNames[:], uint8(g)) }

// ParseGeneration is the inverse of String.
func ParseGeneration(name string) (Generation, error) {
	i, err := indexOf(generationNames[:], "header generation", name)
	return Generation(i), err
}

// ResetFormat is how X-RateLimit-Reset tells time.
type ResetFormat uint8

// The formats of X-RateLimit-Reset, both in whole seconds, rounded up.
const (
	// UnixSeconds is an instant: seconds since the Unix epoch (default).
	UnixSeconds ResetFormat = iota
	// DeltaSeconds is the time from now.
	DeltaSeconds
)

var resetNames = [...]string{UnixSeconds: "unix", DeltaSeconds: "delta"}

// String returns the name used in settings.
func (r ResetFormat) String() string { return nameOf(resetNames[:], uint8(r)) }

// ParseResetFormat is the inverse of String.
func ParseResetFormat(name string) (ResetFormat, error) {
	i, err := indexOf(resetNames[:], "reset format", name)
	return ResetFormat(i), err
}

// Body is a preset for the body of a denial.
type Body uint8

// The bodies of a denial.
const (
	// Platform is an error object with code, message, retry_after, limit,
	// window and scope (default).
	Platform Body = iota
	// Flat is an object of two strings: error and message.
	Flat
	// Problem is application/problem+json (RFC 9457) with violated-policies.
	Problem
)

var bodyNames = [...]string{Platform: "platform", Flat: "flat", Problem: "problem"}

// String returns the name used in settings.
func (b Body) String() string { return nameOf(bodyNames[:], uint8(b)) }

// ParseBody is the inverse of String.
func ParseBody(name string) (Body, error) {
	i, err := indexOf(bodyNames[:], "body preset", name)
	return Body(i), err
}

// problemTypePrefix starts the problem types of draft-ietf-httpapi-ratelimit-headers,
// which are not registered yet.
const problemTypePrefix = "https://iana.org/assignments/http-problem-types#"

// Options says what clients are told. The zero value is the default: draft-8
// and X-RateLimit-* fields, Reset as Unix seconds, platform bodies, no jitter.
type Options struct {
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
	// return together. From 0 (none) to 1.
	Jitter float64
	// Random returns a number in [0, 1) for Jitter, from many goroutines; nil
	// means math/rand/v2.
	Random func() float64
	// DecisionID is the name of the header field that names a decision which has a
	// headgate.Response.ID; "" sends none.
	DecisionID string
}

// Encoder writes answers. It is safe for concurrent use.
type Encoder struct {
	options Options
	// policy is the RateLimit-Policy that answers had of late, and misses counts
	// those that had another one.
	policy atomic.Pointer[memo]
	misses atomic.Uint32
}

// New returns an Encoder.
func New(o Options) (*Encoder, error) {
	if int(o.Generation) >= len(generationNames) || int(o.Reset) >= len(resetNames) || int(o.Body) >= len(bodyNames) {
		return nil, fmt.Errorf("answer options: %s, %s, %s; hint: use the constants of this package", o.Generation, o.Reset, o.Body)
	}
	if !(o.Jitter >= 0 && o.Jitter <= 1) {
		return nil, fmt.Errorf("answer options: jitter %v; hint: a fraction from 0 to 1", o.Jitter)
	}
	if o.DecisionID != "" && !mayNameDecisions(o.DecisionID) {
		return nil, fmt.Errorf("answer options: decision ID in the header field %.100q; hint: a name that no other field of an answer has, such as X-Decision-Id", o.DecisionID)
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	return &Encoder{options: o}, nil
}

// mayNameDecisions reports whether name is one of a header field that nothing else
// in an answer is told by.
func mayNameDecisions(name string) bool {
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return !slices.ContainsFunc(answerFields[:], func(taken string) bool { return strings.EqualFold(taken, name) })
}

func nameOf(names []string, i uint8) string {
	if int(i) < len(names) {
		return names[i]
	}
	return fmt.Sprintf("unknown(%d)", i)
}

func indexOf(names []string, what, name string) (int, error) {
	for i, n := range names {
		if n == name {
			return i, nil
		}
	}
	return 0, fmt.Errorf("unknown %s %q; hint: one of %q", what, name, names)
}
