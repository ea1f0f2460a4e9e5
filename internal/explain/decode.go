package explain

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
)

// maxAttributes is the number of attributes of one request, as of POST /v1/check.
const maxAttributes = 32

// fieldError says what is wrong with a body.
type fieldError struct {
	// Field is the path of what is at fault, such as "descriptors[0].hits"; "body" for
	// the body as a whole.
	Field   string `json:"field"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// Error returns all of it in one line.
func (e *fieldError) Error() string {
	text := e.Field + ": " + e.Message
	if e.Hint != "" {
		text += "; hint: " + e.Hint
	}
	return text
}

// decode reads a body. Members that it does not know are refused, as are those that are
// there twice: what is explained is what was meant.
func decode(body []byte) (headgate.Request, *fieldError) {
	var r headgate.Request
	if !utf8.Valid(body) {
		return r, &fieldError{"body", "not UTF-8", ""}
	}
	top, bad := object(body, "body", "domain", "descriptors", "attributes")
	if bad != nil {
		return r, bad
	}
	if bad = read(top, "domain", &r.Domain, "a string"); bad != nil {
		return r, bad
	}
	if r.Domain == "" {
		return r, &fieldError{"domain", "missing", "the domain of the rules that shall decide"}
	}
	var list []json.RawMessage
	if bad = read(top, "descriptors", &list, "an array"); bad != nil {
		return r, bad
	}
	if n := len(list); n == 0 || n > descriptor.MaxDescriptors {
		return r, &fieldError{"descriptors", countOf(n), fmt.Sprintf("1 to %d", descriptor.MaxDescriptors)}
	}
	for i, raw := range list {
		d, bad := decodeDescriptor(raw, fmt.Sprintf("descriptors[%d]", i))
		if bad != nil {
			return r, bad
		}
		r.Descriptors = append(r.Descriptors, d)
	}
	r.Attributes, bad = decodeAttributes(top)
	return r, bad
}

func countOf(n int) string {
	if n == 0 {
		return "none"
	}
	return strconv.Itoa(n) + " of them"
}

// decodeDescriptor reads one descriptor: entries or, as the command line writes it,
// descriptor; hits are 1 where they are left out.
func decodeDescriptor(raw []byte, at string) (headgate.Descriptor, *fieldError) {
	d := headgate.Descriptor{Hits: 1}
	members, bad := object(raw, at, "entries", "descriptor", "hits")
	if bad != nil {
		return d, bad
	}
	field := "entries"
	if _, isText := members["descriptor"]; isText {
		field = "descriptor"
		d.Entries, bad = decodeText(members)
	} else {
		d.Entries, bad = decodeEntries(members)
	}
	if bad == nil {
		bad = read(members, "hits", &d.Hits, "a whole number")
	}
	if bad == nil && (d.Hits < 0 || d.Hits > limit.MaxQuota) {
		bad = &fieldError{"hits", fmt.Sprintf("%d is out of range", d.Hits), fmt.Sprintf("0 to %d", int64(limit.MaxQuota))}
	}
	if bad == nil {
		if err := descriptor.Validate(d.Entries); err != nil {
			bad = &fieldError{Field: field, Message: err.Error()}
		}
	}
	if bad != nil {
		bad.Field = at + "." + bad.Field
	}
	return d, bad
}

func decodeText(members map[string]json.RawMessage) ([]descriptor.Entry, *fieldError) {
	if _, both := members["entries"]; both {
		return nil, &fieldError{"descriptor", "beside entries", "two ways to write the same; send one of them"}
	}
	var text string
	if bad := read(members, "descriptor", &text, "a string"); bad != nil {
		return nil, bad
	}
	entries, err := descriptor.Parse(text)
	if err != nil {
		return nil, &fieldError{Field: "descriptor", Message: err.Error()}
	}
	return entries, nil
}

func decodeEntries(members map[string]json.RawMessage) ([]descriptor.Entry, *fieldError) {
	var list []json.RawMessage
	if _, there := members["entries"]; !there {
		return nil, &fieldError{"entries", "missing", "an array of objects of key and value"}
	}
	if bad := read(members, "entries", &list, "an array"); bad != nil {
		return nil, bad
	}
	if len(list) > descriptor.MaxEntries {
		return nil, &fieldError{"entries", countOf(len(list)), fmt.Sprintf("at most %d", descriptor.MaxEntries)}
	}
	var entries []descriptor.Entry
	for i, raw := range list {
		at := fmt.Sprintf("entries[%d]", i)
		pair, bad := object(raw, at, "key", "value")
		if bad != nil {
			return nil, bad
		}
		var e descriptor.Entry
		if bad = read(pair, "key", &e.Key, "a string"); bad == nil {
			bad = read(pair, "value", &e.Value, "a string")
		}
		if bad != nil {
			bad.Field = at + "." + bad.Field
			return nil, bad
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func decodeAttributes(top map[string]json.RawMessage) ([]descriptor.Entry, *fieldError) {
	var facts map[string]string
	if bad := read(top, "attributes", &facts, "an object of strings"); bad != nil {
		return nil, bad
	}
	if len(facts) > maxAttributes {
		return nil, &fieldError{"attributes", countOf(len(facts)), fmt.Sprintf("at most %d", maxAttributes)}
	}
	var entries []descriptor.Entry
	for key, value := range facts {
		entries = append(entries, descriptor.Entry{Key: key, Value: value})
	}
	return entries, nil
}

// object reads the members of the object at a path, which are of those known.
func object(raw []byte, at string, known ...string) (map[string]json.RawMessage, *fieldError) {
	d := json.NewDecoder(bytes.NewReader(raw))
	wrong := func(message string) *fieldError {
		return &fieldError{at, message, "an object of " + strings.Join(known, ", ")}
	}
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, wrong("no JSON object")
	}
	members := make(map[string]json.RawMessage)
	for d.More() {
		t, err := d.Token()
		name, _ := t.(string)
		if err != nil {
			return nil, wrong("malformed JSON")
		}
		if !slices.Contains(known, name) {
			return nil, wrong("unknown member " + strconv.QuoteToGraphic(name))
		}
		if _, twice := members[name]; twice {
			return nil, wrong("member " + name + " is there twice")
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, wrong("malformed JSON")
		}
		members[name] = value
	}
	if _, err := d.Token(); err != nil {
		return nil, wrong("malformed JSON")
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, wrong("more than one JSON value")
	}
	return members, nil
}

// read reads a member into v, which is left alone where there is none. what is what it
// should be.
func read(members map[string]json.RawMessage, name string, v any, what string) *fieldError {
	raw, ok := members[name]
	if !ok {
		return nil
	}
	if err := json.Unmarshal(raw, v); err != nil || string(raw) == "null" {
		return &fieldError{Field: name, Message: "not " + what}
	}
	return nil
}
