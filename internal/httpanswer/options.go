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
	"slices"
	"strings"
	"sync/atomic"

	"github.com/headgate/headgate/internal/ascii"
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
	// Draft6Window is Draft6 with the window beside the limit, where there is one:
	// "RateLimit-Limit: 120;window=60".
	Draft6Window
	// NoDraft sends none of them.
	NoDraft
)

var generationNames = [...]string{Draft8: "draft-8", Draft7: "draft-7", Draft6: "draft-6", Draft6Window: "draft-6-window", NoDraft: "off"}

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
	// Jitter lengthens every retry time.
	Jitter Jitter
	// PartitionKey, when not nil, makes RateLimit of Draft8 say by its parameter pk
	// which key is counted: two answers about one bucket have the same pk, and nobody
	// without this secret can tell from it who is counted. See partition.go for how it
	// is made.
	PartitionKey []byte
	// WindowReset makes the times of reset those of the end of the current window
	// instead of those at which a limit is as if unused; see limit.WindowEndsAfter.
	WindowReset bool
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
	// decision is how the field of Options.DecisionID is called.
	decision spellings
	scopes   *scopes
	// partitions is nil where no partition keys are told.
	partitions *partitions
}

// New returns an Encoder.
func New(o Options) (*Encoder, error) {
	if int(o.Generation) >= len(generationNames) || int(o.Reset) >= len(resetNames) || int(o.Body) >= len(bodyNames) {
		return nil, fmt.Errorf("answer options: %s, %s, %s; hint: use the constants of this package", o.Generation, o.Reset, o.Body)
	}
	if err := o.Jitter.check(); err != nil {
		return nil, err
	}
	if o.DecisionID != "" && !mayNameDecisions(o.DecisionID) {
		return nil, fmt.Errorf("answer options: decision ID in the header field %.100q; hint: a name that no other field of an answer has, such as X-Decision-Id", o.DecisionID)
	}
	e := &Encoder{options: o, decision: spellingsOf(o.DecisionID), scopes: newScopes()}
	if o.PartitionKey != nil {
		e.partitions = newPartitions(o.PartitionKey)
	}
	return e, nil
}

// mayNameDecisions reports whether name is one of a header field that nothing else
// in an answer is told by.
func mayNameDecisions(name string) bool {
	return ascii.IsToken(name) && !slices.ContainsFunc(answerFields[:], func(taken string) bool { return strings.EqualFold(taken, name) })
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
