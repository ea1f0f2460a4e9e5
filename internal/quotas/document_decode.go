package quotas

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// decode reads one JSON value strictly. Its errors are *FieldError and name the field
// where there is one.
func decode(data []byte, out any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(out); err != nil {
		if fault := faultIn(data, reflect.TypeOf(out).Elem()); fault != nil {
			return fault
		}
		return wrong("", "%v", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return wrong("", "more than one JSON value")
	}
	return nil
}

// faultIn returns the first field of a JSON value that a Go type has not, or not of
// that kind; nil where there is none before the JSON ends or is broken. Package json
// says of a field in a list only what the list is called, and of one that is unknown
// not even that; so what it has refused is read once more.
func faultIn(data []byte, t reflect.Type) error {
	w := walker{json.NewDecoder(bytes.NewReader(data)), nil}
	w.decoder.UseNumber()
	w.value(t, "")
	return w.fault
}

// walker goes through a JSON value until it finds a fault.
type walker struct {
	decoder *json.Decoder
	fault   error
}

// next returns the next token; ok is false at the end of what can be read.
func (w *walker) next() (token json.Token, ok bool) {
	token, err := w.decoder.Token()
	return token, err == nil
}

var timeType = reflect.TypeFor[time.Time]()

// value goes through one value, which a field at path of type t is to hold. It reports
// whether it may go on.
func (w *walker) value(t reflect.Type, path string) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	token, ok := w.next()
	if !ok {
		return false
	}
	switch token := token.(type) {
	case json.Delim:
		switch {
		case token == '{' && t.Kind() == reflect.Struct && t != timeType:
			return w.object(t, path)
		case token == '[' && t.Kind() == reflect.Slice:
			return w.list(t, path)
		case token == '{':
			return w.isNot(path, "an object", t)
		}
		return w.isNot(path, "a list", t)
	case string:
		if t == timeType {
			if _, err := time.Parse(time.RFC3339, token); err != nil {
				return w.refuse(path, "not a time; hint: as in 2026-12-01T00:00:00Z")
			}
			return true
		}
		return t.Kind() == reflect.String || w.isNot(path, "text", t)
	case json.Number:
		_, err := strconv.ParseInt(token.String(), 10, 64)
		return t.Kind() == reflect.Int64 && err == nil || w.isNot(path, "the number "+shortened(token.String()), t)
	case bool:
		return t.Kind() == reflect.Bool || w.isNot(path, strconv.FormatBool(token), t)
	}
	return true // null leaves any field as it is
}

// object goes through the fields of an object.
func (w *walker) object(t reflect.Type, path string) bool {
	for w.decoder.More() {
		token, ok := w.next()
		name, _ := token.(string)
		if !ok {
			return false
		}
		field, known := fieldNamed(t, name)
		if path != "" {
			name = path + "." + shortened(name)
		} else {
			name = shortened(name)
		}
		if !known {
			return w.refuse(name, "no such field")
		}
		if !w.value(field, name) {
			return false
		}
	}
	_, ok := w.next()
	return ok
}

// list goes through the elements of a list.
func (w *walker) list(t reflect.Type, path string) bool {
	for i := 0; w.decoder.More(); i++ {
		if !w.value(t.Elem(), fmt.Sprintf("%s[%d]", path, i)) {
			return false
		}
	}
	_, ok := w.next()
	return ok
}

// fieldNamed returns the type of the field of a struct with a name in JSON, as package
// json finds it.
func fieldNamed(t reflect.Type, name string) (reflect.Type, bool) {
	for _, f := range reflect.VisibleFields(t) {
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag != "" && strings.EqualFold(tag, name) {
			return f.Type, true
		}
	}
	return nil, false
}

// kinds are what people call what a field holds.
var kinds = map[reflect.Kind]string{
	reflect.String: "text", reflect.Int64: "a whole number", reflect.Bool: "true or false",
	reflect.Slice: "a list", reflect.Struct: "an object",
}

func (w *walker) isNot(path, what string, t reflect.Type) bool {
	kind := kinds[t.Kind()]
	if t == timeType {
		kind = "a time"
	}
	return w.refuse(path, what+" is not "+kind)
}

func (w *walker) refuse(path, problem string) bool {
	w.fault = wrong(path, "%s", problem)
	return false
}

// maxShown bounds what is shown of a name or number that was sent, in bytes.
const maxShown = 64

// shortened is text that was sent as an answer may hold it: of printable ASCII.
func shortened(text string) string {
	quoted := strconv.QuoteToASCII(text[:min(len(text), maxShown)])
	return quoted[1 : len(quoted)-1]
}
