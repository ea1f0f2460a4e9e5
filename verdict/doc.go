// Package verdict has the words in which an answer says what became of a request and of
// each limit that was asked: how a limit counts, who decided in its name, and what came of
// it. Metrics, events, lines of logs and JSON have the same words. It decides nothing.
package verdict
