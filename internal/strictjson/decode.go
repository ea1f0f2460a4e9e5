package strictjson

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/spelling"
)

// maxDepth bounds how deep arrays and objects are nested where no type does.
const maxDepth = 32

// maxElements bounds an array, for an array of nothing is much smaller than what is
// made of it.
const maxElements = 1 << 20

// Decode reads one JSON value into what out points to, by the json tags of its structs.
// It refuses all that a Scanner refuses, and members that a struct has not under
// exactly that name. A member that is null is as one that is left out. In an error out
// may be half filled.
func Decode(data []byte, out any) *Error {
	w := walker{NewScanner(string(data))}
	w.space()
	if strings.HasPrefix(w.text[w.pos:], "null") {
		w.mark = w.pos
		return w.placed(w.isNot("null", reflect.TypeOf(out).Elem()))
	}
	if err := w.value(reflect.TypeOf(out).Elem(), maxDepth); err != nil {
		return w.placed(err)
	}
	if err := w.End(); err != nil {
		return w.placed(err)
	}
	if err := json.Unmarshal(data, out); err != nil {
		return &Error{What: err.Error()}
	}
	return nil
}

// Valid reports what a Scanner refuses in a text of one JSON value, nil if it refuses
// nothing.
func Valid(data []byte) *Error {
	s := NewScanner(string(data))
	if err := s.Skip(maxDepth); err != nil {
		return s.placed(err)
	}
	return s.placed(s.End())
}

// placed is err with where reading has ended; nil for nil.
func (s *Scanner) placed(err *Error) *Error {
	if err != nil {
		err.Offset = s.mark
	}
	return err
}

// Skip reads any value, of arrays and objects nested depth deep at most.
func (s *Scanner) Skip(depth int) *Error {
	c := s.Next()
	s.mark = s.pos
	switch {
	case (c == '{' || c == '[') && depth <= 0:
		return &Error{What: "nested too deep", Hint: fmt.Sprintf("at most %d arrays and objects in each other", maxDepth)}
	case c == '{':
		return s.Object(func(string) *Error { return s.Skip(depth - 1) })
	case c == '[':
		return s.Array(maxElements, func(int) *Error { return s.Skip(depth - 1) })
	case c == '"':
		_, err := s.Text()
		return err
	case c == '-' || c >= '0' && c <= '9':
		_, err := s.number()
		return err
	case s.Literal("true") || s.Literal("false") || s.Literal("null"):
		return nil
	}
	return s.Wants("a value")
}

// number reads any number, and returns its text.
func (s *Scanner) number() (string, *Error) {
	s.space()
	s.mark = s.pos
	start := s.pos
	for s.pos < len(s.text) && strings.IndexByte("+-.0123456789eE", s.text[s.pos]) >= 0 {
		s.pos++
	}
	text := s.text[start:s.pos]
	if !json.Valid([]byte(text)) {
		return "", &Error{What: "not a JSON number: " + Quoted(text)}
	}
	return text, nil
}

// walker goes through a value as a type has it.
type walker struct{ Scanner }

var (
	timeType        = reflect.TypeFor[time.Time]()
	unmarshalerType = reflect.TypeFor[json.Unmarshaler]()
)

// value goes through one value that is to be of type t.
func (w *walker) value(t reflect.Type, depth int) *Error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	w.space()
	w.mark = w.pos
	if w.Literal("null") {
		return nil // leaves any field as it is
	}
	if t != timeType && (t.Kind() == reflect.Interface || reflect.PointerTo(t).Implements(unmarshalerType)) {
		return w.Skip(depth)
	}
	switch c := w.Next(); {
	case c == '{' && t.Kind() == reflect.Struct && t != timeType:
		return w.fields(t, depth-1)
	case c == '{' && t.Kind() == reflect.Map:
		return w.Object(func(string) *Error { return w.value(t.Elem(), depth-1) })
	case c == '[' && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array):
		return w.Array(maxElements, func(int) *Error { return w.value(t.Elem(), depth-1) })
	case c == '{':
		return w.isNot("an object", t)
	case c == '[':
		return w.isNot("a list", t)
	case c == '"':
		return w.textOf(t)
	case c == '-' || c >= '0' && c <= '9':
		return w.numberOf(t)
	case w.Literal("true"):
		return w.boolOf("true", t)
	case w.Literal("false"):
		return w.boolOf("false", t)
	}
	return w.Wants("a value")
}

func (w *walker) textOf(t reflect.Type) *Error {
	text, err := w.Text()
	switch {
	case err != nil:
		return err
	case t == timeType:
		if _, parseErr := time.Parse(time.RFC3339, text); parseErr != nil {
			return &Error{What: "not a time", Hint: "as in 2026-12-01T00:00:00Z"}
		}
		return nil
	case t.Kind() != reflect.String:
		return w.isNot("text", t)
	}
	return nil
}

func (w *walker) numberOf(t reflect.Type) *Error {
	text, err := w.number()
	if err != nil {
		return err
	}
	var fault error
	switch t.Kind() {
	case reflect.Int, reflect.Int64, reflect.Int32:
		_, fault = strconv.ParseInt(text, 10, t.Bits())
	case reflect.Float64:
		_, fault = strconv.ParseFloat(text, 64)
	default:
		return w.isNot("the number "+shortened(text), t)
	}
	switch {
	case errors.Is(fault, strconv.ErrRange) && t.Kind() != reflect.Float64:
		most := int64(math.MaxInt64) >> (64 - t.Bits())
		return &Error{What: "the number " + shortened(text) + " is out of range", Hint: fmt.Sprintf("from %d to %d", -most-1, most)}
	case fault != nil:
		return w.isNot("the number "+shortened(text), t)
	}
	return nil
}

func (w *walker) boolOf(word string, t reflect.Type) *Error {
	if t.Kind() != reflect.Bool {
		return w.isNot(word, t)
	}
	return nil
}

// fields goes through the members of an object.
func (w *walker) fields(t reflect.Type, depth int) *Error {
	known := fieldsOf(t)
	return w.Object(func(name string) *Error {
		field, ok := known[name]
		if !ok {
			return unknown(name, known)
		}
		return w.value(field, depth)
	})
}

// unknown is the error of a member that a struct has not.
func unknown(name string, known map[string]reflect.Type) *Error {
	for other := range known {
		if strings.EqualFold(other, name) {
			return &Error{What: "no such field", Hint: "names are in lower case: " + other}
		}
	}
	if near := spelling.Nearest(name, maps.Keys(known)); near != "" {
		return &Error{What: "no such field", Hint: fmt.Sprintf("did you mean %q?", near)}
	}
	return &Error{What: "no such field", Hint: "there are " + strings.Join(slices.Sorted(maps.Keys(known)), ", "), stranger: written(name)}
}

// structs are the fields of struct types by their names in JSON, of which there are as
// many as the code has.
var structs sync.Map // reflect.Type to map[string]reflect.Type

func fieldsOf(t reflect.Type) map[string]reflect.Type {
	if kept, ok := structs.Load(t); ok {
		return kept.(map[string]reflect.Type)
	}
	known := make(map[string]reflect.Type)
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && name != "-" && !(f.Anonymous && name == "") {
			known[cmp.Or(name, f.Name)] = f.Type
		}
	}
	structs.Store(t, known)
	return known
}

// kinds are what people call what a field holds.
var kinds = map[reflect.Kind]string{
	reflect.String: "text", reflect.Int64: "a whole number", reflect.Int: "a whole number", reflect.Int32: "a whole number",
	reflect.Float64: "a number", reflect.Bool: "true or false",
	reflect.Slice: "a list", reflect.Array: "a list", reflect.Struct: "an object", reflect.Map: "an object",
}

func (w *walker) isNot(what string, t reflect.Type) *Error {
	kind := kinds[t.Kind()]
	if t == timeType {
		kind = "a time"
	}
	return &Error{What: what + " is not " + kind}
}

// shortened is a number that was sent as an error may repeat it.
func shortened(text string) string { return text[:min(len(text), maxEcho)] }
