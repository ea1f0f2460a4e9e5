// Package view is what operators see of a node, as JSON: the admin API answers it, the
// web dashboard and the terminal show it, and nodes post Node to each other. It is types
// only.
//
// Counts are since the start of the process; rates are per second, over the last
// RateSpan. Durations are in seconds, instants as RFC 3339. Lists are never null, and
// bounded by whoever makes them.
package view

import "time"

// RateSpan is the time that rates are of.
const RateSpan = 10 * time.Second

// LatencySpan is the time that latencies are of.
const LatencySpan = time.Minute
