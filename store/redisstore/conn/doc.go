// Package conn is the way to the servers of Redis, apart from what is asked there: the
// address and the settings, one connection after the other, the breaker that keeps
// calls away from a server which fails, how long a caller waits, and what the errors of
// Redis mean.
//
//	Server    is one Redis, or the primary that sentinels name
//	Trip      is one exchange: asks the breaker and takes a place
//	Gate      is the breaker of an address; dials go through it as calls do
//	link      keeps a session alive in the background
//	Session   is one connection, from the dial until it breaks; package resp speaks on it
//	finder    asks sentinels which server is the primary
//	Patience  is how long a Take waits, Lateness whether this process is itself late
//
// It promises that no call waits for a connection: without one it fails at once. It
// never repeats what it was told to send.
package conn
