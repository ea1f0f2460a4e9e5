// Package dualrun stands Headgate beside the rate limit service that it is to replace. Envoy asks
// Headgate and gets the answer of the old service, as that gave it: statuses, header fields,
// errors, and fields that nobody knows here. Meanwhile Headgate decides the same request by its
// own rules, in a store of its own, and what differs is counted and told with its cause.
//
//	request -> old service -> answer, as it came
//	        \> own decision -> compare -> report
//
// No answer waits for the own decision. Where too many of those are under way (maxUnderWay)
// requests are not compared, and counted.
//
// The comparison (compare.go) is of values alone. Everything that is kept is bounded: examples
// of each cause, places, decisions under way.
package dualrun
