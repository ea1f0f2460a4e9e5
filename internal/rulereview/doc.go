// Package rulereview says what other rules would do before they are in force: how they differ
// from those of today, how their unit tests go, and how the requests that a node remembers would
// have been answered.
//
// It decides nothing itself. The limiter that decides real requests is asked, in memory and in
// virtual time, by packages that are there for the command line too: rules/diff, rules/ruletest
// and internal/replay.
package rulereview
