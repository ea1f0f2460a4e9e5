package explain

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/strictjson"
	"github.com/headgate/headgate/limit"
)

// maxAttributes is the number of attributes of one request, as of POST /v1/check.
const maxAttributes = 32

// FieldError says what is wrong with a body.
type FieldError struct {
	// Field is the path of what is at fault, such as "descriptors[0].hits"; wholeBody for
	// the body as a whole.
	Field   string `json:"field"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// Error returns all of it in one line.
func (e *FieldError) Error() string {
	text := e.Field + ": " + e.Message
	if e.Hint != "" {
		text += "; hint: " + e.Hint
	}
	return text
}

// wholeBody is the field of what is wrong with no field alone.
const wholeBody = "body"

// Malformed reports whether the body is none that could be read, so that no field of it is
// at fault.
func (e *FieldError) Malformed() bool { return e.Field == wholeBody }

// Decode reads a request as POST /v1/check takes it, of MaxBody bytes at most. Members
// that it does not know are refused, as are those that are there twice: what is explained
// is what was meant.
func Decode(body []byte) (headgate.Request, *FieldError) {
	var r headgate.Request
	if err := strictjson.Valid(body); err != nil {
		where := ""
		if err.Path != "" {
			where = err.Path + ": "
		}
		return r, &FieldError{wholeBody, where + err.What, err.Hint}
	}
	top, bad := object(body, wholeBody, "domain", "descriptors", "attributes")
	if bad != nil {
		return r, bad
	}
	if bad = read(top, "domain", &r.Domain, "a string"); bad != nil {
		return r, bad
	}
	if r.Domain == "" {
		return r, &FieldError{"domain", "missing", "the domain of the rules that shall decide"}
	}
	var list []json.RawMessage
	if bad = read(top, "descriptors", &list, "an array"); bad != nil {
		return r, bad
	}
	if n := len(list); n == 0 || n > descriptor.MaxDescriptors {
		return r, &FieldError{"descriptors", countOf(n), fmt.Sprintf("1 to %d", descriptor.MaxDescriptors)}
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

// hinted is what is wrong with a field, by an error that may end with what to do.
func hinted(field string, err error) *FieldError {
	message, hint, _ := strings.Cut(err.Error(), "; hint: ")
	return &FieldError{field, message, hint}
}

func countOf(n int) string {
	if n == 0 {
		return "none"
	}
	return strconv.Itoa(n) + " of them"
}

// decodeDescriptor reads one descriptor: entries or, as the command line writes it,
// descriptor; hits are 1 where they are left out.
func decodeDescriptor(raw []byte, at string) (headgate.Descriptor, *FieldError) {
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
		bad = &FieldError{"hits", fmt.Sprintf("%d is out of range", d.Hits), fmt.Sprintf("0 to %d", int64(limit.MaxQuota))}
	}
	if bad == nil {
		if err := descriptor.Validate(d.Entries); err != nil {
			bad = hinted(field, err)
		}
	}
	if bad != nil {
		bad.Field = at + "." + bad.Field
	}
	return d, bad
}

func decodeText(members map[string]json.RawMessage) ([]descriptor.Entry, *FieldError) {
	if _, both := members["entries"]; both {
		return nil, &FieldError{"descriptor", "beside entries", "two ways to write the same; send one of them"}
	}
	var text string
	if bad := read(members, "descriptor", &text, "a string"); bad != nil {
		return nil, bad
	}
	entries, err := descriptor.Parse(text)
	if err != nil {
		return nil, hinted("descriptor", err)
	}
	return entries, nil
}

func decodeEntries(members map[string]json.RawMessage) ([]descriptor.Entry, *FieldError) {
	var list []json.RawMessage
	if _, there := members["entries"]; !there {
		return nil, &FieldError{"entries", "missing", "an array of objects of key and value"}
	}
	if bad := read(members, "entries", &list, "an array"); bad != nil {
		return nil, bad
	}
	if len(list) > descriptor.MaxEntries {
		return nil, &FieldError{"entries", countOf(len(list)), fmt.Sprintf("at most %d", descriptor.MaxEntries)}
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

func decodeAttributes(top map[string]json.RawMessage) ([]descriptor.Entry, *FieldError) {
	var facts map[string]string
	if bad := read(top, "attributes", &facts, "an object of strings"); bad != nil {
		return nil, bad
	}
	if len(facts) > maxAttributes {
		return nil, &FieldError{"attributes", countOf(len(facts)), fmt.Sprintf("at most %d", maxAttributes)}
	}
	var entries []descriptor.Entry
	for key, value := range facts {
		entries = append(entries, descriptor.Entry{Key: key, Value: value})
	}
	return entries, nil
}

// object reads the members of the object at a path, which are of those known. The text
// is known to be JSON in which no member is there twice.
func object(raw []byte, at string, known ...string) (map[string]json.RawMessage, *FieldError) {
	wrong := func(message string) *FieldError {
		return &FieldError{at, message, "an object of " + strings.Join(known, ", ")}
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || members == nil {
		return nil, wrong("no JSON object")
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if !slices.Contains(known, name) {
			return nil, wrong("unknown member " + strconv.QuoteToGraphic(name))
		}
	}
	return members, nil
}

// read reads a member into v, which is left alone where there is none. what is what it
// should be.
func read(members map[string]json.RawMessage, name string, v any, what string) *FieldError {
	raw, ok := members[name]
	if !ok {
		return nil
	}
	if err := json.Unmarshal(raw, v); err != nil || string(raw) == "null" {
		return &FieldError{Field: name, Message: "not " + what}
	}
	return nil
}
