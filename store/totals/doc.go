// Package totals has each region count a limit in its own store, and tells the stores of the
// other regions what passed here. So a limit holds over all regions with an excess that is
// bounded by what is under way between them, and no request waits for another region.
//
// Notation: limit L, R regions, N nodes in a region, floor f (a part of L), interval T, delay d
// of a total from its node into the store of another region.
//
// # Promise
//
// A request is decided by the store of its region, under the whole limit. That store has
// counted own + heard: what passed in its region, and what it has heard of the others. Let
// unheard be what passed elsewhere and it has not heard of. At the last request that passes,
// wherever that is,
//
//	own + heard <= L, and all that passed is own + heard + unheard,
//
// so the excess is unheard at most: of each node of another region what passed there within
// T + d, and what is below the floor. With D hits a second that pass in the other regions
//
//	excess <= min((R-1) L, D (T + d)) + (R-1) f L
//
// and Rules has what it is at the time. It holds for windows and for buckets: what a bucket
// drains of hits before it has heard of them is less than what it would have drained.
//
// What fails:
//
//   - A region that is cut off counts alone: every region may let L pass, and the excess is
//     L for each window (or each time in which a bucket drains). Once it is back it tells
//     what still weighs. Windows that have ended are not touched. No bucket owes more than L.
//   - Messages that are lost, late, repeated, or overtake each other do nothing: what is told
//     is a count that only grows, and stores add what is new of it in one step (store.Total).
//   - A node that dies takes with it what it has not told. Its successor counts anew.
//   - Clocks of two regions that differ by s begin fixed windows at different times. What passes
//     between the two may be told into the window before, and what passes elsewhere within s
//     belongs to another window there, so that the excess of fixed_window, by the clock of any
//     region, may be D (T + d + 2s), and with s beyond a window all of (R-1) L. Other limits do
//     not begin anew, and lose nothing.
//   - A store that forgets its counts lets its own part pass once more, and what it has heard.
//
// # What is told
//
// A Store keeps a count of each bucket for this process, and each peer (the store of another
// region) is told of it every T if at least f L / N of it are new. Own hits are told, and
// never what was heard: there are no circles. Counts, and not verdicts: each store decides by
// its own limit, so nodes of two regions may disagree about it while rules are rolled out.
//
// What weighs nothing any more is not told (limit.Outstanding, by the clock of this node), so
// that a peer that was away for long does not charge hits of windows that are over. What is
// told late is charged at the time it is heard, and weighs longer by that.
//
// A refund is told, and so is a reset: every store resets its bucket once, and what was counted
// before it is not told any more. What other nodes have counted before the reset and not told
// yet comes after it.
//
// # Bounds
//
// A Store counts up to DefaultMaxBuckets buckets, about 500 bytes and 48 for each peer; what
// passes by further ones is not told, and counted as Crowded. A round tells batches of up to
// 1024 totals, one after the other for each peer, side by side for all peers. A peer keeps a note
// for each bucket and process, about 120 bytes, for as long as a hit weighs and six hours at most.
// Should an answer be lost, and no further one come for six hours, then what was told by that
// message counts twice.
package totals
