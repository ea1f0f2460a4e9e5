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

// Prometheus says whether a process can ask a Prometheus what nodes have answered.
type Prometheus struct {
	Configured bool `json:"configured"`
}

// PrometheusTimeline is what nodes have answered over time as a Prometheus tells it, added up, in steps of
// one length, the oldest first. A step of which it knows nothing is not among Points.
type PrometheusTimeline struct {
	// Step is the length of a step in seconds.
	Step   int64             `json:"step"`
	Points []PrometheusPoint `json:"points"`
}

// PrometheusPoint is one step, which is over.
type PrometheusPoint struct {
	// At is when it begins.
	At time.Time `json:"at"`
	// Rates are requests per second.
	Rates Requests `json:"rates"`
	// P50 and P99 are how long decisions took, in seconds, over all nodes; 0 where there were none.
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// FleetTimeline is what several nodes have answered over time, added up, in steps of one length, the
// oldest first. A step of which no node knows anything is not among Points.
type FleetTimeline struct {
	// Step is the length of a step in seconds.
	Step   int64        `json:"step"`
	Points []FleetPoint `json:"points"`
	// Nodes are those that there should be in the sum, by name.
	Nodes []TimelineNode `json:"nodes"`
	// Error says why other nodes could not be asked, "" when they could.
	Error string `json:"error,omitempty"`
}

// FleetPoint is one step of several nodes.
type FleetPoint struct {
	// At is when it begins, a whole number of steps since 1970.
	At time.Time `json:"at"`
	// Requests are counts, and Rates the sum of what each node has answered per second of those that
	// it knows of.
	Requests Requests `json:"requests"`
	Rates    Requests `json:"rates"`
	// P50 and P99 are how long decisions took, in seconds: the highest of any node.
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	// Nodes is how many nodes know of the step, and Whole says that all of them know the whole of it; of
	// the last step, which is not over, that they know of it.
	Nodes int  `json:"nodes"`
	Whole bool `json:"whole"`
}

// TimelineNode is a node in the sum, or one that is missing in it.
type TimelineNode struct {
	Name string `json:"name"`
	// Answered says that the node has told what it knows. Without, nothing of it is in the sum.
	Answered bool `json:"answered"`
	// GoneAt is when a node was heard of last that is not any more; missing for others.
	GoneAt time.Time `json:"gone_at,omitzero"`
	// From is the first step of the range of which the node knows something, missing where it knows of
	// none, and Gaps are how many steps it knows nothing of after that.
	From time.Time `json:"from,omitzero"`
	Gaps int       `json:"gaps"`
}
