package store

import "errors"

// Reason classifies why a store could not decide. It is a label of metrics,
// logs and degraded answers, so it has few values.
type Reason string

// The reasons. NoReason is the zero value: not degraded.
const (
	NoReason      Reason = ""
	Timeout       Reason = "store_timeout"     // no answer within the budget
	Unavailable   Reason = "store_unavailable" // refused, reset, closed, no route
	Overloaded    Reason = "store_overloaded"  // too many calls in flight
	BreakerOpen   Reason = "store_breaker"     // failed of late, and is not asked for a moment
	Denied        Reason = "store_denied"      // wrong password, no permission, TLS refused
	Full          Reason = "store_full"        // out of memory
	ReadOnly      Reason = "store_readonly"    // a replica answered
	Loading       Reason = "store_loading"     // still reading its data
	Misconfigured Reason = "store_misconfigured"
	Internal      Reason = "internal" // a bug on our side, a panic among them
)

// Error is the error of a Result: what was done, on which store, why it
// failed, and what an operator can do about it.
type Error struct {
	Op     string // "take", "dial", ...
	Store  string // address without credentials
	Reason Reason
	Hint   string // may be empty
	Err    error
}

// Error implements error.
func (e *Error) Error() string {
	s := e.Op + " " + e.Store + ": " + string(e.Reason)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	if e.Hint != "" {
		s += "; hint: " + e.Hint
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ErrMayCount is in the chain of an error of a take whose hits may have been counted all the
// same, although its Reason is another one than Timeout.
var ErrMayCount = errors.New("its hits may have been counted before")

// MayCount reports whether the hits of a take that ended with err may have been counted: the
// answer alone was late, or ErrMayCount is in its chain.
func MayCount(err error) bool { return ReasonOf(err) == Timeout || errors.Is(err, ErrMayCount) }

// ReasonOf returns the Reason of err: that of the *Error in its chain, NoReason
// for nil, Internal for anything else.
func ReasonOf(err error) Reason {
	if err == nil {
		return NoReason
	}
	if e, ok := err.(*Error); ok { // as stores make them: errors.As allocates
		return e.Reason
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	return Internal
}
