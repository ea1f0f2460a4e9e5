// Package rlqs answers Envoy's rate limit quota service over gRPC:
// envoy.service.rate_limit_quota.v3.RateLimitQuotaService/StreamRateLimitQuotas, from the
// rules and counters that every other way in has.
//
// Envoy decides by itself there. It sorts requests into buckets, reports every 5 seconds
// what it has let pass and denied of each, and is told in return what each of them may let pass
// until the next report. A bucket of Envoy, the map of its BucketId, becomes one descriptor
// whose entries are sorted by key.
//
// What a stream is told that it may let pass is charged before, so that it counts against
// the limit everywhere: for other streams, other nodes and callers who ask about each request.
// That is a promise. A report settles it: what was not used is given back, what was used
// beyond it is charged, and the next promise is made.
//
//	report -> settle (refund, charge) -> forecast -> divide -> promise (charge) -> answer
//
// A promise is a token bucket as Envoy counts it (lease.go), and is no larger than what the
// limits of the descriptor will let pass within the interval of the reports
// (limit.Limit.Forecast). Where streams want more than there is, it is divided among them by
// max-min fairness: nobody gets more than it wants, and what is left over is for the others.
// Nodes whose streams compete find out how many they are, by a slot that each of them holds in
// the store, and none takes more than its part.
//
// What may pass beyond the limit: the requests of a bucket before it is assigned anything,
// what Envoy lets pass by an assignment after its interval, until its next report or the end
// of the assignment, which is four intervals; what of a promise is used after the window
// that it was charged to has ended; and a hit for each stream where less than a whole one is
// left for it. All but the second are charged later, so that they are missing then.
//
// Everything is bounded: buckets of a stream and of all (maxBuckets, maxLeases), streams
// (maxStreams, and addressStreams from one address), a message by the server, and how long an
// assignment may be left unread (unreadFor).
package rlqs
