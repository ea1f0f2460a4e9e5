package view

import "time"

// Timeline is what a node has answered over time, in steps of one length, the oldest first. A step of
// which nothing is known, because the node did not run or its clock was moved, is not among Points.
type Timeline struct {
	// Step is the length of a step in seconds.
	Step   int64           `json:"step"`
	Points []TimelinePoint `json:"points"`
}

// TimelinePoint is one step.
type TimelinePoint struct {
	// At is when it begins, a whole number of steps since 1970.
	At time.Time `json:"at"`
	// Known is of how many seconds Requests are. It is less than the step where the node did not run
	// for a part of it, and in the last step, which is not over.
	Known int64 `json:"known"`
	// Requests are counts.
	Requests Requests `json:"requests"`
	// P50 and P99 are how long decisions took, in seconds: the highest of the step, of the values of
	// a minute each.
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}
