// Package topkeys finds the keys with the most hits and denials, in bounded memory.
package topkeys
