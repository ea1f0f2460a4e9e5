package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Severity says what a Diagnostic means for the file that it is about.
type Severity uint8

const (
	// SeverityError refuses the rules.
	SeverityError Severity = iota
	// SeverityWarning loads them; they may not do what their author meant.
	SeverityWarning
)

// String returns "error" or "warning".
func (s Severity) String() string {
	return [...]string{"error", "warning"}[s]
}

// Diagnostic says what is wrong with a rule file, where, and what to do.
type Diagnostic struct {
	// File is the name of the file as it was given to Load; "" when no file is
	// at fault.
	File string
	// Line and Column count from 1; 0 means that the whole file is meant.
	Line, Column int
	Severity     Severity
	// Message is what is wrong.
	Message string
	// Hint is what to do about it; it may be empty.
	Hint string
}

// String returns "file:line:column: message; hint: what to do".
func (d Diagnostic) String() string {
	var b strings.Builder
	if d.File != "" {
		b.WriteString(d.File)
		if d.Line > 0 {
			fmt.Fprintf(&b, ":%d:%d", d.Line, d.Column)
		}
		b.WriteString(": ")
	}
	if d.Severity == SeverityWarning {
		b.WriteString("warning: ")
	}
	b.WriteString(d.Message)
	if d.Hint != "" {
		b.WriteString("; hint: ")
		b.WriteString(d.Hint)
	}
	return b.String()
}

// Errors are all errors of all files that Load was given, in the order of the
// files and lines. It is the type of the errors that Load returns.
type Errors []Diagnostic

// Error returns the errors, one on each line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i := range e {
		lines[i] = e[i].String()
	}
	return strings.Join(lines, "\n")
}

// SortDiagnostics orders by file, line and column, and keeps the order of what
// stands in one place.
func SortDiagnostics(d []Diagnostic) {
	slices.SortStableFunc(d, func(a, b Diagnostic) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// RowsFile is the File of rules that are made of rows of a database; their Line is the ID
// of their first row.
const RowsFile = "rate_limit_rules"

// RowError says why a row does not count.
type RowError struct {
	// ID is that of the row.
	ID int64
	// Column is what is wrong with it; "" when it is the row as a whole.
	Column string
	// Problem is what is wrong, Hint what to do about it.
	Problem, Hint string
}

// Error returns "rate_limit_rules id=7: window_ms: what is wrong; hint: what to do".
func (e RowError) Error() string {
	text := fmt.Sprintf("%s id=%d: ", RowsFile, e.ID)
	if e.Column != "" {
		text += e.Column + ": "
	}
	text += e.Problem
	if e.Hint != "" {
		text += "; hint: " + e.Hint
	}
	return text
}
