package client

import (
	"fmt"
	"net/http"
	"time"
)

// EventKind says what a Transport did.
type EventKind uint8

// The kinds of events.
const (
	// Paced: a request is about to wait because little or nothing is left.
	Paced EventKind = iota
	// Blocked: a request is about to wait because the server asked for it.
	Blocked
	// Retried: an answer was refused and the request is sent again after Wait.
	Retried
	// GaveUp: an answer of 429 or 503 is returned though the request could be
	// sent again: after too many retries, without budget, or because Wait is too
	// long.
	GaveUp
	// Refused: a request failed with a *WaitError.
	Refused
)

// String returns the word for k in logs and metrics.
func (k EventKind) String() string {
	if words := [...]string{"paced", "blocked", "retried", "gave_up", "refused"}; int(k) < len(words) {
		return words[k]
	}
	return fmt.Sprintf("event(%d)", uint8(k))
}

// Event is what a Transport did for one request.
type Event struct {
	Kind EventKind
	// Request is the one that the caller sent. It must not be changed.
	Request *http.Request
	// Wait is how long the request waits, or would have to.
	Wait time.Duration
	// Policy is the name of the limit that makes it wait, "" if it has none.
	Policy string
	// Attempt is 0 for the first time that the request is sent.
	Attempt int
	// Status is that of the answer, 0 before there is one.
	Status int
}

// WaitError says that a request was not sent because it would have had to wait
// for too long.
type WaitError struct {
	// Origin is scheme and host.
	Origin string
	// Policy is the name of the limit, "" if it has none.
	Policy string
	// Wait is the time until a request may pass.
	Wait time.Duration
	// Bound is what it is too long for.
	Bound Bound
}

// Bound is what bounds a wait.
type Bound string

// The bounds of a wait.
const (
	// ContextDeadline is the deadline of the request's context.
	ContextDeadline Bound = "the deadline of the request"
	// MaxWaitBound is Transport.MaxWait.
	MaxWaitBound Bound = "MaxWait"
)

// Error implements error.
func (e *WaitError) Error() string {
	limit := "rate limit"
	if e.Policy != "" {
		limit += fmt.Sprintf(" %q", e.Policy)
	}
	hint := "come back after that time"
	if e.Bound == ContextDeadline {
		hint = "give the request more time, or come back"
	}
	return fmt.Sprintf("%s of %s: the next request may pass in %v, which is past %s; hint: %s",
		limit, e.Origin, e.Wait.Round(time.Millisecond), e.Bound, hint)
}
