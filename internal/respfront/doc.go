// Package respfront answers checks in the protocol of Redis, so that whoever has a client of
// Redis needs no other one:
//
//	> CL.THROTTLE user123 15 30 60
//	1) (integer) 0     0 passes, 1 is limited
//	2) (integer) 16    the limit: max_burst + 1
//	3) (integer) 15    what is left
//	4) (integer) -1    seconds until it would pass; -1 where it passes, or never can
//	5) (integer) 2     seconds until the limit is as if unused
//
//	> HEADGATE.CHECK api_platform api_key=abc123 HITS 2
//
// CL.THROTTLE is that of redis-cell, by the arguments, the answer and the rounding of it: the
// caller names the limit. HEADGATE.CHECK asks the rules that are in force. Beside them there is
// what clients send when they connect, and nothing that stores anything.
//
// Commands that have come together (a pipeline) are decided together, by one question to the
// Checker: whatever can be read without waiting is one batch. Answers go out in the order of the
// commands.
//
// The protocol is https://redis.io/docs/latest/develop/reference/protocol-spec/, in versions 2
// and 3.
package respfront
