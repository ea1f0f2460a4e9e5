// Package pages does what the pages of the documentation say: it runs their commands in the
// order in which a reader meets them, by a real headgate, and compares what they print with what
// the pages show.
//
// In a page, a block of the language console has commands after "$ ", and what they print below
// them; one that is "console shown" is not run. A block of the language sh has commands alone.
// Any other block whose first line names a file after the language, such as ```yaml rules.yaml,
// is that file. What a page shows may leave out the end of a line, whole lines before and
// after, and "..." stands for anything. Times and the like may be others.
//
// Commands that are not run are listed in notRun, each with the reason.
package pages
