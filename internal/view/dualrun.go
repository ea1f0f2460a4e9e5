package view

import "time"

// DualRun is what a dual run beside an existing rate limit service has found. Where there is none
// Of is "".
type DualRun struct {
	// Of names the old service, Since says when the dual run began, and At is when this was
	// counted.
	Of    string    `json:"of"`
	Since time.Time `json:"since"`
	At    time.Time `json:"at"`
	// Verdict is what to make of it: "wait", "look" or "go"; "" where there is none. Why says why.
	Verdict string `json:"verdict"`
	Why     string `json:"why"`
	DualRunCounts
	// Causes are how many answers differ by each cause.
	Causes []DualRunCause `json:"causes"`
	// Places are where answers differ, those with the most first: 200 at most.
	Places []DualRunPlace `json:"places"`
	// Examples are the newest of each cause: 10 at most of one.
	Examples []DualRunExample `json:"examples"`
}

// DualRunCounts are how answers compare.
type DualRunCounts struct {
	// Compared answers were compared; Different are those of them that decide otherwise, and
	// DifferentInPart those in which a status does and the whole does not.
	Compared        uint64 `json:"compared"`
	Different       uint64 `json:"different"`
	DifferentInPart uint64 `json:"different_in_part"`
	// OldDenied and OwnDenied are what each of the two has denied of them.
	OldDenied uint64 `json:"old_denied"`
	OwnDenied uint64 `json:"own_denied"`
	// OldFailed answers of the old service were errors, OwnFailed decisions of Headgate; Skipped
	// requests were not compared because too many were.
	OldFailed uint64 `json:"old_failed"`
	OwnFailed uint64 `json:"own_failed"`
	Skipped   uint64 `json:"skipped"`
}

// DualRunCause is a cause for which answers differ, and how many do.
type DualRunCause struct {
	Cause string `json:"cause"`
	Count uint64 `json:"count"`
}

// DualRunPlace is where answers differ.
type DualRunPlace struct {
	Domain string `json:"domain"`
	// Keys are the keys of the entries of the descriptor, with commas between.
	Keys  string `json:"keys"`
	Cause string `json:"cause"`
	Count uint64 `json:"count"`
}

// DualRunExample is an answer that differs.
type DualRunExample struct {
	At     time.Time `json:"at"`
	Cause  string    `json:"cause"`
	Domain string    `json:"domain"`
	Keys   string    `json:"keys"`
	// Hash is that of the descriptor, as in events.
	Hash string `json:"hash"`
	// Decides says that one of the two lets the request pass and the other does not.
	Decides bool   `json:"decides"`
	Old     string `json:"old"`
	Own     string `json:"own"`
}
