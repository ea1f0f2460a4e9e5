// Package importer turns the rate limits of other programs into a rule file of Headgate,
// and into a rule test that shows what the rules allow.
//
// Each source is a file of this package. It reads what it understands into a tree of
// descriptors; what it cannot carry over becomes a Note with the line and the reason. One
// writer makes the rule file out of the tree, and what was written is loaded again: no
// import returns rules that would be refused.
//
// The package does not run what it reads: no file is included, no variable resolved, and
// no program asked.
package importer
