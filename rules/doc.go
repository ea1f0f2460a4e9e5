// Package rules holds rate limit rules, compiled into an immutable Set, and finds those
// that apply to a request.
//
// Rules stand at the nodes of a tree, which has one level for each entry of a request.
// An entry finds the node with its key and value, else the first pattern in the order of
// the file, else the node with its key alone; there is no way back from a choice. Which
// limits count is said by MatchMode: that of the last entry's node, or all on the way.
//
// Package rulefile makes Sets of files, New those of programs that have no file. The
// package decides nothing. It reads no clock and, but for the time zone database, no
// file.
package rules
