// Package memcachestore keeps buckets in memcached. It is a limited store, for
// those who run memcached and nothing else; where there is a choice,
// store/redisstore is better in every respect.
//
// # What it can
//
// fixed_window (calendar windows too) and sliding_window. Other algorithms are
// refused: by Supports, which is for whoever puts rules in force, and by an error of each take; and so is
// an on_change other than carry, whose states are longer than it writes. A limit that
// changes keeps what was used, as elsewhere.
// Counts are exact: whatever many processes do at one time, a bucket never lets
// more pass than its limit, because every change is a compare-and-swap of the whole
// value.
//
// # What it costs
//
// A take that changes its bucket is two round trips, one that is denied or peeks
// is one, and the takes of a batch share theirs. When two processes change one
// bucket at one time, one of them must read it again: a hot bucket costs more
// trips the more processes want it, up to the budget, and then ends with an
// error. Inside a process those that have lost wait in line.
//
// # What it does not promise
//
//   - Memcached tells no time, so that the clock of this machine counts. The
//     clocks of all nodes must agree: a node whose clock is ahead opens a window
//     early by as much for all. A clock that steps back continues the window
//     that it finds.
//   - Memcached has no step that changes several keys. A group is read and
//     decided first, so that a denial seldom has anything to give back; when a
//     bucket was changed meanwhile and denies then, what the group has charged
//     elsewhere is given back. For these round trips others may see the group as
//     used. What cannot be given back within the budget stays charged and is
//     counted in Stats.Unreturned. A group never lets too much pass.
//   - Memcached drops the values that were not used for longest when it is full,
//     and all of them at a restart. Their counts begin anew. Give it memory
//     enough; `-M` has it refuse instead, which shows as store.Full. The same goes
//     for the values of Swap, which stand by the clock of this machine too.
//   - A memcached that takes no more connections (-c) is asked over those that there are,
//     and calls wait for one within their budget. A process that has none gets an error.
//   - Buckets are spread over several servers by rendezvous hashing. One that
//     fails is not replaced by another, as that one would begin its counts anew:
//     the takes of its buckets end with an error, all others are decided. All
//     nodes must name the servers alike; one more moves its share of the buckets.
//
// An outcome that is unknown (a write without an answer) is an error of its take,
// and is never tried again: it may have been charged.
package memcachestore
