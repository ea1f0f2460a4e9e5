package rulefile

import (
	"strings"

	"github.com/headgate/headgate/rules"
)

// unfit says which rules cannot be decided; rows that make such a rule were left out.
func unfit(set *rules.Set, fit func(*rules.Rule) error) rules.Errors {
	if fit == nil {
		return nil
	}
	var all rules.Errors
	for _, r := range set.Rules() {
		if err := fit(r); err != nil {
			message, hint := hinted(err)
			all = append(all, rules.Diagnostic{File: r.File, Line: r.Line, Column: 1, Severity: rules.SeverityError, Message: "rule " + r.ID + ": " + message, Hint: hint})
		}
	}
	rules.SortDiagnostics(all)
	return all
}

// hinted divides an error into what is wrong and the hint.
func hinted(err error) (message, hint string) {
	message, hint, _ = strings.Cut(err.Error(), "; hint: ")
	return message, hint
}
