package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/headgate/headgate/internal/excerpt"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/rulefile"
)

// printDiagnostic prints d, the line of the file that it is about with a mark
// below the column, and the hint.
func printDiagnostic(w io.Writer, d rules.Diagnostic, files []rulefile.File) {
	hint := d.Hint
	d.Hint = ""
	printError(w, errors.New(d.String()))
	for _, f := range files {
		if f.Name == d.File {
			_, _ = io.WriteString(w, coverCredentials(excerpt.Of(f.Data, d.Line, d.Column).String()))
			break
		}
	}
	if hint != "" {
		fmt.Fprintf(w, "headgate: hint: %s\n", hint)
	}
}
