// Package topkeys finds the keys with the most requests and those with the most denials,
// rule by rule, in memory that does not grow with the number of keys.
//
// # What is counted
//
// A request counts once for each rule and descriptor that decided it, whatever its
// hits, so that one request which asks for a million of them hides nobody. It counts as
// denied where an enforced limit of the rule said no, of whatever role; what the failure
// mode answered for a store that could not decide is counted among the total alone, because
// no limit spoke. What is unlimited, peeks, refunds, charges and the like do not count, nor
// do limits that only watch, were replaced, or were not looked at.
//
// # Space-Saving
//
// Each rule has two summaries of Options.PerRule keys, one by all decisions and one by
// denials (Metwally, Agrawal, El Abbadi: Efficient Computation of Frequent and Top-k
// Elements in Data Streams, ICDT 2005). A key that is not in a full summary takes the
// place of the one with the smallest count, and takes over that count, which is the most
// that the newcomer may have had before: it is its error. So a count is never too small,
// nor too large by more than its error; the error is at most N/PerRule, where N is all
// that the rule has counted; and every key with more than N/PerRule is there.
//
// # Sampling
//
// The keys that are looked at have a budget for each second, and a request has as many as
// rules decide it. Where a node decides more, one of every k requests is looked at, each by
// a throw of the dice, so that no pattern of traffic can hide; it counts as k. Denials have a budget of their own, so that a single denial on a
// quiet node is seen, and a flood of allowed requests hides none. A count from samples is
// off by a standard deviation of at most the square root of k times the count, beside
// its error.
//
// # Fading
//
// Counts lose half in every halfLife, so that a list is of late: a steady key's count
// tends to halfLife/ln 2 of its rate, 433 seconds of it.
//
// # Merging
//
// Lists of several nodes are added up (Agarwal et al.: Mergeable Summaries, PODS 2012):
// counts and errors add, and a key that one list lacks may have there what the list says
// of those it lacks.
//
// # Different keys
//
// How many different keys a rule has seen in a minute is estimated from the smallest
// hashes of those that were looked at (bottom-k, as in Bar-Yossef et al.: Counting
// Distinct Elements in a Data Stream, RANDOM 2002). Where requests are sampled, no
// estimate from the sample can be better than by a factor of the square root of k
// (Charikar et al.: Towards Estimation Error Guarantees for Distinct Values, PODS 2000),
// and theirs is used: a key that was seen once stands for the square root of k keys,
// others for one.
package topkeys
