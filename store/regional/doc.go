// Package regional decides by hits that nodes of many regions lease from a home far away, and
// by a reserve that each region counts for itself, so that a limit holds over all regions
// and no request waits for another one.
//
// Notation: limit L, reserve rho (a part of L), weight w of a region (of a sum of 1), N nodes
// of all regions, R the time of a round trip to the home.
//
// # Promise
//
// What all regions together let pass stays within the bound that the limit has when one
// store decides every hit. Nothing that fails between the regions, in a node or at the home
// changes that:
//
//   - The limit is cut (Layout.CutFor) into (1 - rho) L for the home and w rho L for each
//     region. The parts are limits of their own, they add up to L, and a hit passes by one of
//     them.
//   - Of the home's part only that passes which was leased: a grant is a deduction, and what
//     store.Leaser promises holds for messages that are late, lost or repeated, for holders that
//     die or return late, and for clocks that differ (limit.Lease). The home never lends what is
//     reserved, because that is no part of its limit.
//   - A region's part is counted in its own store, which asks nobody. A region that is cut off
//     spends what it holds, until that ends, and its reserve, and nothing else.
//   - A home that may have forgotten grants begins another epoch (store.Chronicler). A grant is
//     used only if the home was in one epoch from before the question until after the answer,
//     and in a new epoch nothing is asked for until what passed by grants of the old one no
//     longer counts (Cut.Fence).
//
// What is not covered: a region whose own store forgets what it has counted may let its
// reserve pass once more; a home put back to an older state while its server runs on does not
// know it; and two layouts in force at one time may have reserves that add up to more.
//
// # Price
//
// Of the reserves of regions with no demand nothing is used: (1 - w) rho L when all demand is
// in one region. What nodes hold is kept from the others: at most 1/(2N) of what remains for
// each lease, unless one take needs more, about two seconds of demand or ten R, whichever is
// longer; it goes back when it was not used for a second (for longer where takes are seldom or were
// denied), and is lost when its holder dies or is cut off, until the window ends. In the first 2 R of a window, in which leases are under way, there is the reserve
// alone. The home does not lend its last hit.
//
// # What a take does
//
//   - A Hit passes by what is held, or by the reserve; it is not divided between the two.
//   - A peek says what is held, what the home had left when it was last asked, and what is
//     left of the reserve; so does Remaining of all answers. RetryAfter is when hits could be
//     here from the home, or of the reserve, whichever is first.
//   - A Refund goes to the leases that are held here as far as they have let so much pass, and
//     else to the reserve of this region. Where that has nothing to take back, it is lost: other
//     regions never pass more for it.
//   - A Charge is counted the same way: by what is held, and else in the reserve, which may owe it.
//   - A Reset empties the reserve of this region and the home's part, and drops what this node
//     holds. It alone asks the home, and fails where that does not answer. Other nodes may
//     still use what they hold, other regions their reserves.
//   - A dry run looks at what is held for each take by itself, and asks for nothing.
//
// Takes that are all or nothing may be decided by both: what is held is deducted first, the
// reserve is asked for the rest as one group, and what was deducted is put back when that is
// denied.
//
// # Bounds
//
// The node holds rights of up to DefaultMaxBuckets keys, and asks the home in batches of 128
// by four goroutines at most, about once in two seconds for each key that is in demand. Keys
// that are asked for less than once a second have the reserve, as long as it lasts. A lease lasts
// for a minute at most, because the home remembers store.MaxLeases of them for a key.
package regional
