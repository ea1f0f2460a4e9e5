// Package vectors holds recorded scripts of what every limit must decide, and
// the language that they are written in. The same scripts replay against
// package limit and against every store, so that all of them make the same
// decisions; a person can read them, and check them by hand.
//
// A script is a text of scenarios, each a life of one bucket:
//
//	# A fixed window lets the burst at its boundary through.
//	scenario boundary burst
//	limit fixed_window 10 per 1m
//	at 12:00:59 hits=10 => allow remaining=0 reset=1s
//	at 12:01:00 hits=10 => allow remaining=0 reset=1m
//	at 12:01:00 hits=1  => deny remaining=0 reset=1m retry=1m
//
// # Lines
//
// "#" begins a comment, at the start of a line or after a space. "scenario" and
// a name begin a scenario with an unused bucket. "limit" names the limit of the
// steps that follow, and may come again: the bucket keeps its state.
//
//	limit ALGORITHM QUOTA per PERIOD [burst=N] [parts=N] [strict] [max_delay=D]
//	                                 [max_queue=N] [count_denied] [for=D]
//	                                 [on_change=carry|proportional|reset] [max_debt=N]
//	limit fixed_window QUOTA per day|week|month|year [zone=ZONE]
//
// "at" is a step: an instant, what is done, and the decision.
//
//	at INSTANT hits=N|refund=N|charge=N => allow|deny|never [limit=N] remaining=N
//	                                       [reset=D] [retry=D] [delay=D]
//	at INSTANT acquire=HOLD|renew=HOLD|release=HOLD => (the same)
//	at INSTANT reset
//
// hits=0 is a peek; a refund, and a charge of hits whether they fit or not, are
// answered as a peek. A hold, which takes, keeps and frees a slot of concurrency,
// is a number; renewing and releasing are answered as a peek too. A charge on a ban
// is a denial. A reset forgets the bucket and is not answered. What a decision does
// not name is 0, and its limit is the quota. Durations are those of Go, and "3d"
// for 72h. An instant is
//
//	12:00:59.25            a time of Monday, 1 June 2026, UTC
//	2026-03-29T00:30:00Z   any other
//	+1.5s, -1h             relative to the step before
//
// Clocks may step back.
//
// # Recording
//
// Write a step without its "=>" part, run the tests of this package with
// -update, and read what has been recorded: it is right when you can say why.
package vectors
