package view

import "time"

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
