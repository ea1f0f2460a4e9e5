// Package loadgen asks a server for decisions at times that do not depend on its answers (an open
// loop), and says what came of it: which answers, how late, and whether more was let pass than the
// rules may.
//
// A latency is counted from the time at which a request was to be sent, and not from that at which
// it could be: a server that stalls for a second makes the requests of that second late, and a
// generator that waits for it would hide that.
package loadgen
