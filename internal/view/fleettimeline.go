package view

import "time"

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
