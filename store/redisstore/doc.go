// Package redisstore keeps buckets in one Redis, so that any number of
// Headgates share one count, exactly.
//
// Each Take is one call of one script, which reads Redis's own clock, decides
// as package limit does, and writes; nothing happens between its steps. So the
// counts are exact for as long as Redis keeps what it has acknowledged: a
// failover to a replica that lags, or an eviction, forgets hits, and then more
// pass. Give Headgate a Redis of its own with maxmemory-policy noeviction,
// and one built for 64 bits: the store refuses another.
//
// A Take ends within the Budget of the Options whatever Redis does. What could
// not be decided by then carries a *store.Error with a store.Reason. A call
// whose answer was lost is never repeated, since it may have been counted; and
// the script refuses to count when it runs only after the deadline of its
// caller, so that a Redis which was frozen for a while does not count what
// was answered without it.
//
// # Connection
//
// The store connects in the background, with pauses that grow to a second, and
// works again by itself soon after Redis does. No call waits for a connection:
// without one it fails at once.
//
// # Layout of the keys
//
// A bucket is one string, named by the prefix ("hg:") and 16 raw bytes: the
// first 128 bits of the SHA-256 of Take.Key. So names are short, nobody can
// choose one, and two buckets share one with a probability that can be ignored
// (one in 10^18 among 10^10 keys). The slot of a key in a cluster is that of
// its name; that the hash may by chance hold a pair of braces does no harm,
// because every bucket is a single key and no two need the same slot. A prefix
// with a hash tag ("{hg}:") puts all of them into one.
//
// The value is text: the kind of the state (1 + the number of the algorithm)
// and the fields of limit.State in decimal, with spaces between.
//
//	1 START CURRENT PREVIOUS   sliding_window
//	2 START COUNT              fixed_window
//	3 START PART C0 C1 ...     sub_windows, the newest part first
//	4 and 7 bytes for each hit sliding_log: the instant, high byte first, oldest
//	                           first; no spaces
//	5 TAT PART                 token_bucket; 6 leaky_bucket, 7 leaky_queue and
//	                           8 gcra likewise
//
// Instants and lengths are microseconds, instants since 1970. Every key has a
// time to live in milliseconds: until it is as if unused, rounded up, and one
// second for clocks that step. What does not have this form counts as unused
// and is overwritten. Peeks and denials write nothing, except where denied hits
// count or where a clock that stepped back must be put in order (see
// limit.Decide).
package redisstore
