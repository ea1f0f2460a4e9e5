// Package denialog writes a log line of some denials: what was asked, which limit said no,
// and why. It is for those who look into a log and wonder who is denied; metrics count, and
// events of the audit are complete. Unmatched does the same for requests that pass because
// no rule applies to them.
//
// # How many
//
// A rule has a budget of lines for each minute, and so have all rules together. What is
// beyond it is counted, and the next line of the rule says how many there were. A minute
// begins with a line, so that two minutes' worth may be written in less than one, where the
// one ends and the next begins.
//
// # What it costs
//
// Of an allowed request it only looks whether each limit allowed it. A denial beyond the
// budget costs a look-up and an addition, and no lock. A line is put together where the
// request is decided, and written by a goroutine of its own: who reads the log slowly
// holds no request back, and loses lines.
//
// # What it tells
//
// Keys are hashed. Whatever else a line has of a request is printable and bounded, so that
// nobody can forge a line or speak to the terminal of who reads it.
package denialog
