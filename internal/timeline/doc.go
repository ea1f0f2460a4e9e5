// Package timeline remembers what a node has answered: the last hour by the second, and the last
// week by the minute. It takes 660 kB, however much is answered; the minutes are kept in a file of
// 444 kB, if one is named, so that a restart does not end them.
//
// Counts come as sums since the start, once a second. What was counted since the sum before belongs to
// the second and the minute of the clock in which it is told; a second in which nobody looked, because
// the process had no processor, is part of the next one that is known.
//
// If the clock is set back, what lies in its future is forgotten. If it is set forward, the time
// between is not known.
package timeline
