// Package repeat says what is remembered of a check that carries an id, so that a repeat of
// it gets the same answer: under which key, what a claim on it is, and how an answer is
// written. Whoever decides and remembers is elsewhere: see headgate.Limiter.CheckOnce.
package repeat
