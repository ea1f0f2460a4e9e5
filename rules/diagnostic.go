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
	if s == SeverityWarning {
		return "warning"
	}
	return "error"
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

// sortDiagnostics orders by file, line and column, and keeps the order of what
// stands in one place.
func sortDiagnostics(d []Diagnostic) {
	slices.SortStableFunc(d, func(a, b Diagnostic) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// split returns the errors and the warnings of d.
func split(d []Diagnostic) (errs, warnings []Diagnostic) {
	for i := range d {
		if d[i].Severity == SeverityError {
			errs = append(errs, d[i])
		} else {
			warnings = append(warnings, d[i])
		}
	}
	return errs, warnings
}

// position is a place in a file; the zero value is the whole file.
type position struct{ line, column int }

// reporter collects what is wrong with one file.
type reporter struct {
	file        string
	diagnostics []Diagnostic
}

func (r *reporter) errorf(at position, hint, format string, args ...any) {
	r.report(SeverityError, at, hint, fmt.Sprintf(format, args...))
}

func (r *reporter) warnf(at position, hint, format string, args ...any) {
	r.report(SeverityWarning, at, hint, fmt.Sprintf(format, args...))
}

func (r *reporter) report(s Severity, at position, hint, message string) {
	if len(r.diagnostics) >= maxDiagnostics {
		return
	}
	r.diagnostics = append(r.diagnostics, Diagnostic{
		File: r.file, Line: at.line, Column: at.column,
		Severity: s, Message: message, Hint: hint,
	})
}

// failed reports whether an error was collected.
func (r *reporter) failed() bool { return r.failedSince(0) }

// failedSince reports whether an error was collected after the first n
// diagnostics.
func (r *reporter) failedSince(n int) bool {
	return slices.ContainsFunc(r.diagnostics[n:], func(d Diagnostic) bool { return d.Severity == SeverityError })
}
