// Package trace has the names by which a decision is found again: that of the span
// which asked for it, as the header field traceparent carries it, and an ID of its own.
// It names and records nothing: recording is a matter of whoever watches decisions.
package trace
