// Package redisstore keeps buckets in Redis, so that any number of Headgates
// share one count, exactly: in a single Redis, in the primary that sentinels
// name, or in a cluster.
//
// A Take is one call of one script, which reads Redis's own clock, decides as
// package limit does, and writes; nothing happens between its steps. So the
// counts are exact for as long as Redis keeps what it has acknowledged. A
// failover to a replica that lags forgets hits, and so does a restart without
// persistence: then the stores bring back what they remember of the buckets
// (Options.Remembered), each bucket with the first call for it. An eviction
// forgets for good, and then more pass. Give Headgate a Redis of its own with
// maxmemory-policy noeviction, and one built for 64 bits: the store refuses
// another.
//
// A Take ends within the Budget of the Options whatever Redis does, and while there is time
// to answer its caller (store.AnswerBy). What could
// not be decided by then carries a *store.Error with a store.Reason. A call
// whose answer was lost is never repeated, because it may have been counted (whoever
// asked for a slot of concurrency may ask again: the same hold gets no second one); and
// the script refuses to count when it runs only after the deadline of its
// caller, so that a Redis which was frozen for a while does not count what
// was answered without it. What Redis provably did not run is made again: once
// where it asks for a little patience, up to three times where it sends the call
// to another server.
//
// # From a Take to a server
//
//	Take      divides a batch by hash tag, in a cluster (package spread)
//	shard     is one server: joins the Takes of many callers (package coalesce)
//	call      is one script call, and the few ways in which it is made again
//	memory    remembers the latest states of buckets, seed brings them back
//	router    knows which shard has which hash slots of a cluster
//
// Package conn has the connections below, package resp speaks the protocol of Redis on
// them, package doctor checks a server.
//
// # A node of a fleet
//
// A program that counts here joins a fleet (package fleet) with the Store as its
// Options.Roster, and runs it. By that heartbeat nodes know how many they are, and that
// all of them read window counters as integers, for which Redis needs about half of the
// time. Without it counts are as exact.
//
// # Connection
//
// The store connects in the background, with pauses that grow to a second, and
// works again by itself after Redis does. No call waits for a connection:
// without one it fails at once. So it does while the breaker of the server is
// open, which three failures in a row open, or too many slow or failed ones. A new
// connection, whose server has just answered, begins with a closed breaker; where the
// connection has stayed, the breaker tries after pauses that grow to 4 s and a tenth.
//
// With sentinels, each dial asks all of them and believes the newest answer; so
// does the store every second while it is connected, because a message about a
// failover can be missed, and it leaves a server that is the primary no more.
//
// In a cluster the slots are looked up every five to ten seconds, when a call is
// redirected, and when a server is lost, until all are reached again. MOVED and
// ASK are followed within the deadline. A call whose buckets lie on both sides of
// a slot that is being moved is divided into calls of one bucket each.
//
// The user needs +evalsha +eval +time +get +set +incrby +del +strlen +getrange +append
// +pexpire and ~<prefix>*; for the roster, the board and tools +pttl +zadd +zcard +zrem
// +zremrangebyscore +zrevrange +zscore; for registers +hget +hset; in a cluster
// +cluster|slots and +asking too. With +role and +info the store can tell more about a wrong address, with
// +cluster|info it prefers servers of a cluster that are up to date. By +info it
// also tells a connection that broke from a server that has another history;
// without it every new connection is told of what is remembered.
//
// # Replicas
//
// They take no part in that: what is decided, and what is remembered for a failover, is of
// the primary alone. Peeks (Store.Peeks) is another Store over the same buckets, for
// operators who may be told what was so a moment ago. Its user needs +info, and in a
// cluster +readonly.
//
// # Layout of the keys
//
// A bucket is one string, named by the prefix ("hg:") and 16 raw bytes: the
// first 128 bits of the SHA-256 of Take.Key. So names are short, nobody can
// choose one, and two buckets share one with a probability that can be ignored
// (one in 10^18 among 10^10 keys).
//
// In a cluster there is a hash tag between the two, "hg:{0a}...", one of 128 that
// follows from the first byte of the hash. Buckets of one tag are in one slot, so
// that one call can carry many; the tags lie evenly over the slots. The raw bytes
// may by chance hold braces, which does no harm: the first pair counts. What a
// bucket has beside its state is in its slot by the same tag.
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
//	9 and 14 bytes for each    concurrency: its end and its hold, high byte first,
//	slot                       the slot that ends first in front; no spaces
//	10 START COUNT UNTIL       ban
//	11 CAPACITY X Y and one    what the limit was, and the state, of limits with an
//	of the others              on_change other than carry: Decision.Limit, and num and
//	                           den of a bucket, or the period and 0, or a calendar's
//	                           unit and 1
//
// Before the last number of kinds 1 and 2 stands the period of the windows: one zero
// for a minute, two for an hour, three for a day, four for a second, or a word such as
// 15m or month; nothing where it has no such form (limit.Per).
//
// A window counter may also be one integer of 16 digits: see packed.go. All read such, and
// write them from when the roster says that every live node counts in them (Attend): so a
// fleet of two versions never misreads, and it is back at text within a heartbeat when an
// older one joins.
//
// Where several limits count in one bucket, its value is "11 *" and for each of them, up
// to eight, " CAPACITY X Y ENDS SINCE LENGTH:" and its state in LENGTH bytes; the one that
// was touched last is in front. ENDS is until when it is kept, SINCE are the hits that the
// others were charged since it was touched.
//
// Beside the bucket, "<name>leases" has the leases on it, and "<prefix>nodes" the
// nodes that are alive, "<prefix>readers" those of them that count in integers.
// "<prefix>board" has the nodes that tell of themselves, and
// what each says is in a string named by the prefix, 16 raw bytes of the SHA-256 of
// its name, and "board". A value that Swap keeps is in "<name>kept", as a bucket of its key
// is named: the instant until which it stands, a space, and the value.
// "<prefix>shared" is what nodes share: a salt of 16 bytes, and for each thing a name of
// 16, its end in 16 digits, a length in 3, and a text.
//
// Instants and lengths are microseconds, instants since 1970. Every key has a
// time to live in milliseconds: until it is as if unused, rounded up, and one
// second for clocks that step. What does not have this form counts as unused
// and is overwritten. Peeks and denials write nothing, except where denied hits
// count or where a clock that stepped back must be put in order (see
// limit.Decide).
package redisstore
