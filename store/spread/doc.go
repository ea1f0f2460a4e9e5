// Package spread decides the takes of one batch in several places: the slots of
// a cluster, or several stores.
//
// Each place, a part, gets its takes in their order and in one batch, and the
// parts are asked side by side. Only groups, which are all or nothing, need more
// than that when their takes fall into several parts. Such a group is decided in
// two steps:
//
//  1. Each part decides the hits of the group as a group of its own. Refunds,
//     resets, charges, renewals and releases are only peeks.
//  2. If a part denied, the others give back at once what they have charged, and
//     the slots of concurrency that they gave. If all passed, what was left for
//     later is done.
//
// So a group never charges one part and not the other for long, and never lets
// more pass than the limits do. The price is that for the time of one trip
// others see the group as used, and may be denied for it. Decided one batch after
// the other it answers as one store does, with three exceptions in such groups. A
// hit that follows something else of its own bucket is decided without it. What a
// refund cannot give back is not given back: the hits of a limit with another
// algorithm, which end with the first hit of the new one, and those of a counter
// that has reached its bound of 2^51. And a hold that had its slot before loses it
// with a group that is denied, until it renews it.
//
// Dry runs charge nothing, so there is nothing to give back: all are asked again
// without the hits of a group that was denied elsewhere, and answer as one store does.
//
// What was charged right before the edge of a window and would be given back
// after it stays charged, because the hits of others would be given back in its
// place.
//
// An error belongs to the takes of its part. The other parts of a group keep
// what they have charged then: whether the request passes is a matter of the
// caller's failure mode, not of the store. What was left for later is not done when
// a hit could not be decided, and carries its error.
package spread
