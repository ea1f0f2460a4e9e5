package yamlfile

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/headgate/headgate/internal/spelling"
)

// Faults returns what the YAML library says is wrong with a text that was to be decoded into
// out, in words of who wrote it: without the names of types of Go, and without a value. root is
// the text as nodes, for the names of keys; nil where it is no YAML. It is empty for an error
// that is none of the library.
func Faults(err error, root *yaml.Node, out any) []*Error {
	var many *yaml.LoadErrors
	var one *yaml.LoadError
	var list []*yaml.LoadError
	switch {
	case errors.As(err, &many):
		list = many.Errors
	case errors.As(err, &one):
		list = []*yaml.LoadError{one}
	}
	known := shape{map[string]bool{}, map[string]string{}, map[string][]string{}}
	if out != nil {
		known.learn(reflect.TypeOf(out), 0)
	}
	faults := make([]*Error, len(list))
	for i, one := range list {
		faults[i] = known.fault(one, root)
	}
	return faults
}

// The messages of the library that have something of the text in them.
var (
	noField   = regexp.MustCompile(`(?s)^field (.*) not found in type (.+)$`)
	twice     = regexp.MustCompile(`(?s)^mapping key (".*") already defined at line (\d+)$`)
	noPlace   = regexp.MustCompile("(?s)^cannot construct (!!\\S+) `.*` into (.+)$")
	wrongKind = regexp.MustCompile(`^cannot construct (!!\S+) into (.+)$`)
	anchor    = regexp.MustCompile(`(?s)^unknown anchor '.*' referenced$`)
)

// fault is one thing that is wrong.
func (s *shape) fault(e *yaml.LoadError, root *yaml.Node) *Error {
	f := &Error{Line: max(e.Mark.Line, 1), Column: max(e.Mark.Column, 1)}
	if found := noField.FindStringSubmatch(e.Message); found != nil {
		f.Err, f.shown = s.unknown(found[1], found[2])
		return f
	}
	if found := twice.FindStringSubmatch(e.Message); found != nil {
		f.shown = fmt.Errorf("the key %s is there twice; hint: the first one is on line %s", found[1], found[2])
		if f.Err = f.shown; !s.keys[strings.Trim(found[1], `"`)] {
			f.Err = fmt.Errorf("a key is there twice; hint: the first one is on line %s", found[2])
		}
		return f
	}
	for _, pattern := range []*regexp.Regexp{noPlace, wrongKind} {
		if found := pattern.FindStringSubmatch(e.Message); found != nil {
			f.Err = errors.New(s.before(root, e.Mark) + s.isNot(found[1], found[2]))
			return f
		}
	}
	switch {
	case anchor.MatchString(e.Message):
		f.Err = errors.New("an alias of an anchor that there is not; hint: put a text that begins with * in quotes")
	case isSyntax(e):
		f.Err = errors.New(e.Message)
	default:
		f.Err, f.shown = errors.New(s.before(root, e.Mark)+"it cannot be read"), errors.New(e.Message)
	}
	return f
}

// isSyntax reports whether e is of the rules of YAML, so that its message is one of those that
// the library has, with nothing of the text in it but a character that may not be there.
func isSyntax(e *yaml.LoadError) bool {
	return e.Stage == yaml.ReaderStage || e.Stage == yaml.ScannerStage || e.Stage == yaml.ParserStage
}

// shape is what a text is decoded into.
type shape struct {
	// keys are the names that are known.
	keys map[string]bool
	// kinds are what people call types, by the names that the library has for them.
	kinds map[string]string
	// members are the keys of types, by the same names.
	members map[string][]string
}

// maxDepth bounds how deep types are looked into; none of a file refers to itself.
const maxDepth = 8

// kinds are what people call what is written.
var kinds = map[reflect.Kind]string{
	reflect.String: "text", reflect.Bool: "true or false", reflect.Float32: "a number", reflect.Float64: "a number",
	reflect.Int: whole, reflect.Int8: whole, reflect.Int16: whole, reflect.Int32: whole, reflect.Int64: whole,
	reflect.Uint: whole, reflect.Uint8: whole, reflect.Uint16: whole, reflect.Uint32: whole, reflect.Uint64: whole,
	reflect.Slice: "a list", reflect.Array: "a list", reflect.Struct: "a mapping", reflect.Map: "a mapping",
}

const whole = "a whole number"

// tags are what people call values by their tags in YAML.
var tags = map[string]string{
	"!!str": "text", "!!bool": "true or false", "!!float": "a number", "!!int": whole,
	"!!seq": "a list", "!!map": "a mapping", "!!null": "nothing", "!!timestamp": "a time",
}

// learn adds the keys that a type is decoded from, and the types in it.
func (s *shape) learn(t reflect.Type, depth int) {
	if depth > maxDepth {
		return
	}
	of := t.String()
	if s.kinds[of] != "" {
		return // as another field has it
	}
	s.kinds[of] = kindOf(t)
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		s.learn(t.Elem(), depth+1)
	case reflect.Struct:
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			if name != "" && name != "-" {
				s.keys[name] = true
				s.members[of] = append(s.members[of], name)
			}
			if f.IsExported() || f.Anonymous {
				s.learn(f.Type, depth+1)
			}
		}
	}
}

// kindOf is what people call a type.
func kindOf(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == reflect.TypeFor[time.Duration]() {
		return "a duration such as 250ms"
	}
	return kinds[t.Kind()]
}

// maxNamed is how many keys a hint lists.
const maxNamed = 12

// unknown says that a type has no such key, once as it may be said of any text and once of one that
// may be shown. A key that is near to no other one may be what was meant for a value.
func (s *shape) unknown(key, of string) (err, shown error) {
	there := s.members[of]
	shown = fmt.Errorf("unknown key %q", key)
	if near := spelling.Nearest(key, slices.Values(there)); near != "" {
		shown = fmt.Errorf("%w; hint: did you mean %q?", shown, near)
		return shown, shown
	}
	err = errors.New("unknown key")
	if n := len(there); n > 0 && n <= maxNamed {
		hint := "; hint: there is " + strings.Join(there, ", ")
		err, shown = fmt.Errorf("%w%s", err, hint), fmt.Errorf("%w%s", shown, hint)
	}
	return err, shown
}

// isNot says that what is written with a tag is not of a type.
func (s *shape) isNot(tag, of string) string {
	what, want := tags[tag], s.kinds[of]
	switch {
	case want == "":
		return "of the wrong kind or out of range"
	case what == "":
		return "not " + want
	case what == want:
		return what + " that is out of range"
	}
	return what + " is not " + want
}

// before returns the key whose value begins at a place, with a colon, if it is one that is known.
func (s *shape) before(root *yaml.Node, at yaml.Mark) string {
	if key := keyAt(root, "", at, 0); s.keys[key] {
		return key + ": "
	}
	return ""
}

// maxNodes bounds how deep nodes are looked into.
const maxNodes = 64

// keyAt returns the key that what begins at a place stands under.
func keyAt(n *yaml.Node, key string, at yaml.Mark, depth int) string {
	if n == nil || depth > maxNodes {
		return ""
	}
	if n.Line == at.Line && n.Column == at.Column && n.Kind != yaml.DocumentNode {
		return key
	}
	for i, child := range n.Content {
		of := key
		if n.Kind == yaml.MappingNode {
			if i%2 == 0 {
				continue
			}
			of = n.Content[i-1].Value
		}
		if found := keyAt(child, of, at, depth+1); found != "" {
			return found
		}
	}
	return ""
}
