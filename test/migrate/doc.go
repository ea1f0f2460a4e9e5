// Package migrate runs the pages of docs/migrate as a reader does: the files that a page shows are
// written, its commands are run and must say what stands below them, and what it serves is asked.
//
// In a page a block of code whose first line has a name after the language is a file of that name.
// A block of the language console has commands, each after "$ ", and below a command parts of what
// it says; `console shown` is one that needs more than a machine of its own, and is not run. A
// command that serves is started by the test of the page, at free ports.
package migrate
