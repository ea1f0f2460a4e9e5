// Package history holds recorded decisions of several nodes against package limit: is there an
// order of all operations on a bucket, each somewhere between its call and its return, in which a
// single bucket would have given every answer, to the bit? That is linearizability, bucket by
// bucket. The search is porcupine's, and the sequential bucket is store.Take.Decide.
//
// It needs to know at which instant of the store's clock an operation was decided, because time is
// an argument of every decision. An Operation therefore has an interval of that clock, of one instant
// where the store has told it. Clock reads it from the answers of takes that were decided in
// the same step, so that nothing is believed but what the contract of stores says.
//
// # Unknown outcomes
//
// An operation whose caller heard nothing may have taken effect once, at any instant of its
// interval, or not at all. In porcupine's terms it has no end. Given to the search like that, it
// would be tried at every place; here it is noted in the state of the bucket at its call, and each
// later operation is also tried with it done before. That admits the same orders, at the cost of the
// few states that agree with what was answered next.
//
// An unknown instant is looked for at the few places where an answer changes: instants.go says why these are
// enough. So an answer is compared exactly even after an operation of which nothing is known.
//
// # Losses
//
// A server that dies may forget the latest writes. Lost says how many hits at least it must
// have forgotten for the history to be possible; a history without losses must be possible with none.
//
// # What it does not check
//
// Groups over several buckets, leases and what nodes decide alone. Limits with a calendar, and buckets one hit
// of which drains in a fraction of a microsecond more or less, are refused: the places where their answers
// change are others.
package history
