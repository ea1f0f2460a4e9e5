// Package yamlfile reads YAML that an operator writes, strictly: bounded, one
// document, no unknown and no repeated keys, and errors that begin with the file, the
// line and the column.
//
// What an error may repeat of a file is one rule for all of them. A file may hold secrets, and
// a line that is broken may have one anywhere. So an error names places and
// keys that are known, or nearly are, and never a value: see In. The files in which no secret can stand
// say so by Show: of them an error has the line too, and the names of keys that
// nobody knows. Those are rules, rule tests, tiers, costs and regions.
package yamlfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"go.yaml.in/yaml/v4"

	"github.com/headgate/headgate/internal/excerpt"
	"github.com/headgate/headgate/internal/regular"
)

// ErrEmpty is returned by Parse for a text without a document.
var ErrEmpty = errors.New("empty")

// Error is an error at a place of a file.
type Error struct {
	Path string // "" unless the text is that of a file
	// Line and Column count from 1, the column in characters; 0 is not known.
	Line, Column int
	// Err says what is wrong, and has no value of the file.
	Err error
	// shown says it where the text may be shown; nil is as Err.
	shown   error
	excerpt excerpt.Excerpt
}

// Error implements error.
func (e *Error) Error() string {
	place := e.Path
	switch {
	case e.Line == 0:
	case e.Path == "":
		place = fmt.Sprintf("line %d", e.Line)
	case e.Column == 0:
		place = fmt.Sprintf("%s:%d", e.Path, e.Line)
	default:
		place = fmt.Sprintf("%s:%d:%d", e.Path, e.Line, e.Column)
	}
	if place == "" {
		return e.Err.Error()
	}
	return fmt.Sprintf("%s: %v", place, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Excerpt returns the line with a mark below the place, for a terminal; "" for a file that may
// hold secrets, and where there is none.
func (e *Error) Excerpt() string { return e.excerpt.String() }

// In returns err as an error of the file at path, which may hold secrets. It is nil for nil.
func In(path string, err error) error {
	if err == nil {
		return nil
	}
	if at, ok := errors.AsType[*Error](err); ok {
		return &Error{Path: path, Line: at.Line, Column: at.Column, Err: at.Err}
	}
	return &Error{Path: path, Err: err}
}

// Show returns err as an error of a text in which no secret can stand; path is "" where it is
// none of a file. The error may repeat anything of it. It is nil for nil.
func Show(path string, text []byte, err error) error {
	at, ok := errors.AsType[*Error](err)
	if !ok {
		if path == "" {
			return err
		}
		return In(path, err)
	}
	e := &Error{Path: path, Line: at.Line, Column: at.Column, Err: at.Shown(), excerpt: excerpt.Of(text, at.Line, at.Column)}
	if path == "" {
		e.Path = at.Path
	}
	return e
}

// Shown returns what is wrong as it may be said of a text in which no secret can stand.
func (e *Error) Shown() error {
	if e.shown != nil {
		return e.shown
	}
	return e.Err
}

// At returns an error at the place of n. What it says must have no value of a file that may
// hold secrets.
func At(n *yaml.Node, format string, args ...any) error {
	return &Error{Line: n.Line, Column: n.Column, Err: fmt.Errorf(format, args...)}
}

// Read returns the bytes of a file that has at most limit of them.
func Read(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, &Error{Path: path, Err: fmt.Errorf("larger than %d bytes; hint: is this the right file?", limit)}
	}
	return data, nil
}

// ReadFollowed is Read of a file that is read again and again. It refuses what is no regular
// file: who waits for the writer of a pipe would never learn what the file says afterwards.
func ReadFollowed(path string, limit int64) ([]byte, error) {
	if _, err := regular.Stat(path); err != nil {
		return nil, err
	}
	return Read(path, limit)
}

// Parse decodes the one document of data into out. Its errors are of type *Error, but for
// ErrEmpty.
func Parse(data []byte, out any) error {
	loader, err := yaml.NewLoader(bytes.NewReader(data), yaml.WithKnownFields(), yaml.WithUniqueKeys())
	if err != nil {
		return err
	}
	if err := loader.Load(out); errors.Is(err, io.EOF) {
		return ErrEmpty
	} else if err != nil {
		return first(err, treeOf(data), out)
	}
	var next yaml.Node
	if err := loader.Load(&next); !errors.Is(err, io.EOF) {
		return &Error{Line: next.Line, Column: next.Column, Err: errors.New("more than one document; hint: delete the line ---")}
	}
	return nil
}

// treeOf returns the nodes of a text, nil where it is no YAML.
func treeOf(data []byte) *yaml.Node {
	loader, err := yaml.NewLoader(bytes.NewReader(data))
	if err != nil {
		return nil
	}
	var root yaml.Node
	if loader.Load(&root) != nil {
		return nil
	}
	return &root
}

// Node decodes n into out.
func Node(n *yaml.Node, out any) error {
	if err := n.Load(out, yaml.WithKnownFields(), yaml.WithUniqueKeys()); err != nil {
		return first(err, n, out)
	}
	return nil
}

// first returns the first fault.
func first(err error, root *yaml.Node, out any) error {
	if all := Faults(err, root, out); len(all) > 0 {
		return all[0]
	}
	return &Error{Err: errors.New("it cannot be read"), shown: err}
}
