// Package limit decides whether hits may pass a rate limit. It is arithmetic
// and nothing else: no clock, no lock, no store, no network, no log.
//
// A Spec says what a person wants, New turns it into a Limit, and Decide takes
// the Limit, the State of one bucket, the present instant and a number of hits,
// and returns the state to store and a Decision. The caller keeps the State
// where it likes (package store names several places) and must see to it that
// reading, deciding and writing of one bucket happen as one step.
//
// # Algorithms
//
// Ten algorithms share the one Decide; each has a file of its own with its
// formula and the source of it. Eight count hits. SlidingWindow is the default and right for most
// limits: two counters, no burst at the window's edge. FixedWindow suits quotas
// that people read on a calendar; SubWindows and SlidingLog promise that no
// window of any phase exceeds the quota; TokenBucket and GCRA let a burst pass
// and then a steady stream; LeakyBucket and LeakyQueue space hits evenly.
//
// The other two count something else, by functions of their own, and only ask
// Decide. Concurrency has slots for requests in flight: each Acquires one under
// a name of its own, Renews it while it runs, and Releases it; who falls silent
// loses it after a time. Ban counts denials, by Charge, and denies everything for
// a time after too many.
//
// # Numbers
//
// All state and all arithmetic are whole microseconds and whole hits, exact:
// a product is never rounded before it is divided. The one rounding rule is
// that counts of what is used and times to wait round up, and what remains
// rounds down, so that an answer never promises more than Decide will give.
// Everything stays below 2^53, so that a script whose only numbers are doubles
// can make the same decisions.
//
// # What it does not promise
//
// A SlidingWindow admits at most Quota*(1+t/Period) in any interval of length
// t, so up to twice the quota in one Period, spread out; a FixedWindow admits
// twice the quota around a window's edge, at once. Concurrency takes whoever has
// been silent for a Period for gone, at work or not. Changing a limit, its
// Algorithm too, carries over what was used, on the careful side: for a while after
// it, less may pass than if the limit had always been the new one. (Spec.Carry says
// otherwise; carry.go has how.) Instants before 1970 count as 1970, and after 2112 as
// that year.
package limit
