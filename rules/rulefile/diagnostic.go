package rulefile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/headgate/headgate/rules"
)

// split returns the errors and the warnings of d.
func split(d []rules.Diagnostic) (errs, warnings []rules.Diagnostic) {
	for i := range d {
		if d[i].Severity == rules.SeverityError {
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
	diagnostics []rules.Diagnostic
}

func (r *reporter) errorf(at position, hint, format string, args ...any) {
	r.report(rules.SeverityError, at, hint, fmt.Sprintf(format, args...))
}

func (r *reporter) warnf(at position, hint, format string, args ...any) {
	r.report(rules.SeverityWarning, at, hint, fmt.Sprintf(format, args...))
}

func (r *reporter) report(s rules.Severity, at position, hint, message string) {
	if len(r.diagnostics) >= maxDiagnostics {
		return
	}
	r.diagnostics = append(r.diagnostics, rules.Diagnostic{
		File: r.file, Line: at.line, Column: at.column,
		Severity: s, Message: message, Hint: hint,
	})
}

// failed reports whether an error was collected.
func (r *reporter) failed() bool { return r.failedSince(0) }

// failedSince reports whether an error was collected after the first n
// diagnostics.
func (r *reporter) failedSince(n int) bool {
	return slices.ContainsFunc(r.diagnostics[n:], func(d rules.Diagnostic) bool { return d.Severity == rules.SeverityError })
}

// wordsOf joins the names of a list of words for hints: "a, b or c".
func wordsOf(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
