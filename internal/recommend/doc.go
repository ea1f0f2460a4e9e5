// Package recommend says which quota a limit might have, by what its keys have asked for.
//
//	uses -> Demand: what each key needed -> Advise: a quota -> Proof: whom that quota denies
//
// Demand goes over all uses once and finds the smallest quota that would have denied each key
// nothing. Advise takes the one that all but a stated share of keys would have got by with, adds
// head-room and rounds up. Proof goes over the same uses again and has package limit decide
// them, so that the shares of keys and of requests that are told of a quota are true ones,
// whatever the algorithm.
//
// Both are pure: time is that of the uses. Each limit stands alone here: what other limits of a
// request deny is counted all the same. What was denied when it was recorded is part of what
// was asked for, because a recommendation by what had passed would only find today's limits.
//
// Keys are bounded. Where there are more, a sample of them is kept, chosen by their hashes:
// what is told of each key of the sample is as exact as without one, because a key is in it from
// its first use on or not at all. See Bounds and Sample.
package recommend
