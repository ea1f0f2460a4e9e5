// Package headgate is a distributed rate limiter: it decides for every request
// whether it may pass now, counts across all nodes that ask, and says what is
// left and when to come back.
//
// Use a [Keyed] to limit keys by one limit inside your program:
//
//	buckets, err := memstore.New(memstore.Options{})
//	...
//	perUser := headgate.NewKeyed(buckets, limit.Must(limit.PerMinute(100)))
//	if d := perUser.Take(ctx, "user:42", 1); !d.Allowed {
//		// too many requests; d.RetryAfter says how long to wait
//	}
//
// Use a [Limiter] for rules: it matches the descriptors of a request against a
// rule set, asks the store for all limits at once and merges their answers.
// With a Redis store (package redisstore) in place of the memory store, any
// number of processes share one count; each of them joins their fleet (package
// fleet). How often that store is asked is a matter of layers over it (packages
// lease, denial, subbucket) and of the rules; what happens when it does not answer,
// of the rules and of [Options.Fallback]. Without a Fallback, rules of failure mode
// open, which is the default, and local let everything pass then; give a Limiter one
// from package store/local, as headgate serve does.
//
// A rule may also bound how many requests are in flight at one time. Give a
// request a [Request.Hold], drawn by [limit.NewHold]; while it runs, renew what it holds
// before [Response.HoldFor] is over, and release it when it ends, both by
// [Request.Turn] and another Check. A slot whose holder dies is free after its
// timeout, by the store's clock. What else stands beside the main limits of a rule
// needs nothing of the caller: secondary limits, and bans after repeated denials.
// A soft limit denies nothing; [Verdict.Soft] and [Response.Delay] say what it
// asks for.
//
// Neither promises anything about requests that do not ask, and a count is as
// durable as its store: a memory store forgets when the process ends.
package headgate
