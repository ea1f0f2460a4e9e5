// Package lease decides most takes in this process though the buckets are
// shared: from hits that it took from the shared store in advance (leased), from
// its last view of the bucket (synced), or by its share of the limit (local). It
// also leases buckets that are asked for exactly while they are hot, where their
// Mode allows it. Each take says by its Mode how it is decided; takes without one
// pass through.
//
// Notation: limit L per window W (for buckets that drain: burst L), N nodes, k = 2.
//
// # Leased: never more than the limit
//
// Promise: what the fleet lets pass stays within the bound that the limit has when
// the store decides every hit; the price is that a hit may be denied, for W/100 and
// 10 s at most, though up to 3 L/100 are left (see Pauses).
//
// A grant is a deduction, so what is leased cannot pass twice. A lease is counted
// from before it was asked for, on the monotonic clock less 500 µs for each second,
// and looked at for every decision; when the wall clock and the monotonic clock
// part by more than 100 ms all leases are dropped, because the machine may have been
// suspended.
//
//   - Size. A lease is what the node expects to need: its demand over the time
//     that is left, at most twice the last lease that was used up, half of one that
//     was not. The store grants at most 1/(k N) of what remains there.
//   - Ahead. The next lease is asked for in the background before the last is used
//     up; many buckets share a call. Only when there is nothing left does a take
//     wait for it, and then for 10 ms or four round trips at most.
//   - Direct. Where a lease is not worth it (few hits expected, fewer than 2 k N
//     left) the store decides hit by hit, so that none is denied for rounding.
//   - Pauses. A sliding window, sub-windows or a bucket that drains gets back what
//     it lacks bit by bit: G hits in a pause of W/100, at most 10 s, so that G is
//     L/100 where W is up to 1,000 s. Going hit by hit for what is left when that
//     is less than G would cost a call for each. Instead, where G >= 2 N, a node
//     that has used its lease up denies for one pause, in which the fleet gathers G
//     hits, and shares those by leases. A pause begins with less than 2 G left, so
//     that a hit can be denied though up to 3 G are, beside what nodes give back
//     and, of sub-windows, a part that is over; what was not used stays there.
//     RetryAfter is the end of the pause, or when as many hits can be there, if
//     that is later; other nodes may be faster then. (Ten nodes that ask for twice
//     a sliding window of 100,000 a minute make 0.4 calls per 100 decisions so, and
//     leave 1.0 % of it unused; hit by hit it were 28 calls, and nothing.) Where G
//     is less, and for fixed windows, a node remembers a denial for as long as the
//     store said that it lasts, but at most for the pause (of fixed windows up to
//     eight times that when nothing comes back), because other nodes may give back
//     what they hold.
//   - Return. A bucket that is idle gives back what it holds, and so do Drain and
//     Close. A lease that is used up ends with the next question, so that the store
//     remembers two or three for each node, however long the window. A crashed node
//     loses what it held, on the safe side: at most 1/(k N) of what remained for
//     each lease, until the window ends.
//   - Failure. While the store fails, nodes use up what they hold; then takes carry
//     its error.
//
// Calls: to drain a limit once takes about k N (1 + ln(L/(k N))) of them. Where
// demand is at or above a limit that comes back bit by bit, it is about 2 N for each
// G hits that pass.
//
// # Synced: a bounded excess
//
// Promise: in one window the fleet lets at most min((N-1) L, D (T + d)) pass beyond
// L, where D is the demand of the fleet per second, T the interval between two
// exchanges and d the time that an exchange takes.
//
// What a node lets pass is charged at the next exchange, whether it still fits or
// not. The bucket may so owe hits, and nothing passes until they are paid back:
// for buckets that drain the excess happens once, and the long-run rate is that of
// the limit. What a sliding window or sub-windows have too much weighs on what
// comes next for as long as they remember it; a fixed window starts afresh, and
// hits of one that is over are not charged to the next. An exchange that
// fails is sent again, so that hits may count twice but none is forgotten. While the
// store fails, a node goes on with its last view for ten intervals, in which it can
// let pass what that view had left; then takes carry the store's error.
//
// # Local: no store at all
//
// Promise: see package local.
//
// # Groups
//
// Takes that are all or nothing may be of different modes. What can be decided here
// is deducted first, the rest is asked of the store as one group, and what was
// deducted is put back when the rest is denied. Where a take that was not asked
// belongs to a group that is denied here, its result is Skipped.
//
// # What decisions say
//
// Limit is exact. Remaining is what this node may let pass at once and what the
// store had left when it was last asked: other nodes may have taken that since.
// ResetAfter is the store's last answer less the time since. RetryAfter of a denial
// from memory is when the store will be asked again, or later.
//
// # Dry runs
//
// A dry run says what this node would let pass of the hits that it holds, or by its
// last view of a synced bucket, and as this package says it. Whatever does not fit
// there is asked of the store as if it were exact: that says when it has room by
// itself, while a hit may be denied by a pause, or let pass by hits that other nodes
// give back. No lease is asked for, and no key becomes hot.
//
// # What is always asked
//
// Slots of concurrency belong to requests, and a ban counts no hits: neither can be
// leased or summed up. The store decides on them whatever the mode is, unless that
// is local, and they never count as hot.
//
// # Refunds, resets and new limits
//
// Refunds, resets and peeks go to the store. What is refunded may pass as if it had
// been refunded later, by the length of a lease at most (see limit.Lease): the store
// cannot tell the hits that are refunded from those that are leased. So what passes
// beyond the bound is never more than what was refunded within that time. A reset
// drops what this node holds; other nodes may still use what they hold.
//
// When a rule changes its limit, the lease under the old one is given back. What a
// synced bucket has not charged yet is charged under the new one before that is
// used, and hits wait for it as they do for a lease.
package lease
