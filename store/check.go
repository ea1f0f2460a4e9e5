package store

import "slices"

// The values of Check.Status, from good to bad.
const (
	// CheckOK is as it should be.
	CheckOK = "ok"
	// CheckWarning works, with a risk that Hint names.
	CheckWarning = "warning"
	// CheckProblem keeps the store from deciding, or from deciding right.
	CheckProblem = "problem"
	// CheckUnknown could not be found out: the user may not ask, most of the
	// time.
	CheckUnknown = "unknown"
)

// Check is one thing that a doctor of a store has looked at.
type Check struct {
	// Name says what was looked at, in one word: "connect", "eviction".
	Name string `json:"name"`
	// Server is the address of the server that was asked; empty when it is about
	// all of them.
	Server string `json:"server,omitempty"`
	// Status is one of CheckOK, CheckWarning, CheckProblem and CheckUnknown.
	Status string `json:"status"`
	// Found is what was found, in a few words.
	Found string `json:"found"`
	// Hint is what to change; it may be empty.
	Hint string `json:"hint,omitempty"`
}

// Report is what the doctor of a store has found.
type Report struct {
	// Store is the address that was given, without credentials.
	Store string
	// Checks are in the order in which they were made. A server whose first
	// checks fail is not asked further.
	Checks []Check
}

// OK reports whether there is no problem. Warnings are none.
func (r *Report) OK() bool {
	return !slices.ContainsFunc(r.Checks, func(c Check) bool { return c.Status == CheckProblem })
}
