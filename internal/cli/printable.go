package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// printable writes text for a terminal, without what a terminal would obey: the
// names in rule files, and what servers answer, may hold anything.
type printable struct{ w io.Writer }

// Write implements io.Writer. Control characters, except ends of lines and
// tabulators, are replaced.
func (p printable) Write(text []byte) (int, error) {
	shown := bytes.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return utf8.RuneError
		}
		return r
	}, text)
	if _, err := p.w.Write(shown); err != nil {
		return 0, err
	}
	return len(text), nil
}

// oneLine returns text of others for a cell of a table, where an end of a line would
// pass for another row: what is not printable is replaced.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return utf8.RuneError
	}, text)
}

// printReport prints a report in one piece, as JSON or as text.
func printReport(w io.Writer, asJSON bool, report any, text func(io.Writer) error) error {
	if asJSON {
		return printJSON(w, report)
	}
	var b bytes.Buffer
	if err := text(&b); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}

// printJSON prints a value as JSON that people can read, too.
func printJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

// noBecauseOf is the answer no where some things are bad, which it tells.
func noBecauseOf(bad []error) error {
	if len(bad) == 0 {
		return nil
	}
	return &codeError{exitNo, errors.Join(bad...)}
}

// printLines prints each element of list as a line of JSON.
func printLines[T any](w io.Writer, list []T) error {
	encoder := json.NewEncoder(w)
	for i := range list {
		if err := encoder.Encode(&list[i]); err != nil {
			return err
		}
	}
	return nil
}
