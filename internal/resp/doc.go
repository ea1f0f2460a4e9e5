// Package resp speaks with Redis over one connection: in the second version of its
// protocol (https://redis.io/docs/latest/develop/reference/protocol-spec), which all
// servers and their relatives know without being asked.
//
// A Pipe carries the commands of many callers, which share writes and reads: what is asked
// while the connection is being written to leaves together. Nothing is ever sent twice.
//
// A server is not trusted: what it says is read piece by piece, within the bounds of this
// package, and what is no answer ends the connection.
package resp
