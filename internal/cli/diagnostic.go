package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/rulefile"
)

// maxSnippet is the most characters of a line that are shown.
const maxSnippet = 120

// printDiagnostic prints d, the line of the file that it is about with a mark
// below the column, and the hint.
func printDiagnostic(w io.Writer, d rules.Diagnostic, files []rulefile.File) {
	hint := d.Hint
	d.Hint = ""
	printError(w, errors.New(d.String()))
	if line, ok := sourceLine(d, files); ok {
		text, mark := snippet(line, d.Column)
		fmt.Fprintf(w, "%7d | %s\n%7s | %s^\n", d.Line, text, "", strings.Repeat(" ", mark))
	}
	if hint != "" {
		fmt.Fprintf(w, "headgate: hint: %s\n", hint)
	}
}

func sourceLine(d rules.Diagnostic, files []rulefile.File) ([]byte, bool) {
	for _, f := range files {
		if f.Name != d.File {
			continue
		}
		line, _ := f.Line(d.Line)
		return line, len(bytes.TrimSpace(line)) > 0
	}
	return nil, false
}

// snippet returns line as it can be shown on a terminal, and how many
// characters stand before column, which counts characters from 1. What a
// terminal might obey is replaced.
func snippet(line []byte, column int) (text string, mark int) {
	var b strings.Builder
	for n := 0; len(line) > 0 && n < maxSnippet; n++ {
		r, size := utf8.DecodeRune(line)
		line = line[size:]
		switch {
		case r == '\t':
			r = ' '
		case !unicode.IsPrint(r):
			r = utf8.RuneError
		}
		b.WriteRune(r)
	}
	shown := utf8.RuneCountInString(b.String())
	return b.String(), min(max(column-1, 0), shown)
}
