// Package drill says what a drill is: a fault that nodes rehearse on themselves while they
// serve, for a bounded time, and what it does to decisions. It has the words, the bounds and
// the sums, and no clock, no store and no connection: package rehearsal has those.
//
// A node that takes part goes through a Course: it begins when it hears of an Order, it ends
// when its time is over by the monotonic clock, when it is told to, or when decisions fail,
// and a Report says what has been seen meanwhile.
package drill
