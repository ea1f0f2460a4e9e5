// Package yamlfile reads YAML that an operator writes, strictly: bounded, one
// document, no unknown and no repeated keys, and errors that begin with the file and
// the line.
package yamlfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/headgate/headgate/internal/spelling"
)

// ErrEmpty is returned by Parse for a text without a document.
var ErrEmpty = errors.New("empty")

// Error is an error at a line of a file.
type Error struct {
	Path string // "" unless the text is that of a file
	Line int    // 0: not known
	Err  error
}

// Error implements error.
func (e *Error) Error() string {
	switch {
	case e.Path == "" && e.Line == 0:
		return e.Err.Error()
	case e.Path == "":
		return fmt.Sprintf("line %d: %v", e.Line, e.Err)
	case e.Line == 0:
		return fmt.Sprintf("%s: %v", e.Path, e.Err)
	}
	return fmt.Sprintf("%s:%d: %v", e.Path, e.Line, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// In returns err as an error of the file at path. It is nil for nil.
func In(path string, err error) error {
	if err == nil {
		return nil
	}
	if at, ok := errors.AsType[*Error](err); ok {
		return &Error{path, at.Line, at.Err}
	}
	return &Error{path, 0, err}
}

// At returns an error at the line of n.
func At(n *yaml.Node, format string, args ...any) error {
	return &Error{"", n.Line, fmt.Errorf(format, args...)}
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
		return nil, &Error{path, 0, fmt.Errorf("larger than %d bytes; hint: is this the right file?", limit)}
	}
	return data, nil
}

// Parse decodes the one document of data into out.
func Parse(data []byte, out any) error {
	loader, err := yaml.NewLoader(bytes.NewReader(data), yaml.WithKnownFields(), yaml.WithUniqueKeys())
	if err != nil {
		return err
	}
	if err := loader.Load(out); errors.Is(err, io.EOF) {
		return ErrEmpty
	} else if err != nil {
		return first(err, out)
	}
	if err := loader.Load(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return errors.New("more than one document; hint: delete the line ---")
	}
	return nil
}

// Node decodes n into out.
func Node(n *yaml.Node, out any) error {
	if err := n.Load(out, yaml.WithKnownFields(), yaml.WithUniqueKeys()); err != nil {
		return first(err, out)
	}
	return nil
}

// first returns the first thing that is wrong with what was to be decoded into out, in place
// of the library's list.
func first(err error, out any) error {
	var many *yaml.LoadErrors
	var one *yaml.LoadError
	switch {
	case errors.As(err, &many) && len(many.Errors) > 0:
		one = many.Errors[0]
	case !errors.As(err, &one):
		return err
	}
	what := Plain(one.Message)
	if field := noField.FindStringSubmatch(one.Message); field != nil {
		known := map[string]bool{}
		addKeys(known, reflect.TypeOf(out), 0)
		if near := spelling.Nearest(field[1], maps.Keys(known)); near != "" {
			what += fmt.Sprintf("; hint: did you mean %q?", near)
		}
	}
	return &Error{"", one.Mark.Line, errors.New(what)}
}

// maxDepth bounds how deep types are looked into; none of a file refers to itself.
const maxDepth = 8

// addKeys adds the keys that a type is decoded from.
func addKeys(known map[string]bool, t reflect.Type, depth int) {
	if depth > maxDepth {
		return
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		addKeys(known, t.Elem(), depth+1)
	case reflect.Struct:
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			if name != "" && name != "-" {
				known[name] = true
			}
			if f.IsExported() || f.Anonymous {
				addKeys(known, f.Type, depth+1)
			}
		}
	}
}

var (
	noField = regexp.MustCompile(`^field (.*) not found in type \S+$`)
	noPlace = regexp.MustCompile("^cannot construct (!!\\S+ `.*`) into \\S+$")
)

// Plain says what is wrong, in a message of the YAML library, without the names of Go
// types, which say nothing to who wrote the file.
func Plain(message string) string {
	return noPlace.ReplaceAllString(noField.ReplaceAllString(message, `unknown key "$1"`), "$1 is of the wrong kind or out of range")
}
