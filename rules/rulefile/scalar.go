package rulefile

import (
	"encoding/base64"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// scalarKind is the type that YAML 1.1, as envoyproxy/ratelimit reads it, gives
// to a scalar.
type scalarKind uint8

const (
	textScalar scalarKind = iota
	intScalar
	hugeScalar // a whole number that does not fit 64 bits with a sign
	floatScalar
	boolScalar
	nullScalar
	brokenScalar // base64 that does not decode
)

// scalar is a YAML scalar with its type. Whatever the type, text is how it is
// written: `value: 010` is the text "010".
type scalar struct {
	kind scalarKind
	text string
	num  int64
	flag bool
}

var (
	floatPattern = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$|^[-+]?\.(inf|Inf|INF)$|^\.(nan|NaN|NAN)$`)
	boolWords    = map[string]bool{
		"y": true, "Y": true, "yes": true, "Yes": true, "YES": true,
		"true": true, "True": true, "TRUE": true, "on": true, "On": true, "ON": true,
		"n": false, "N": false, "no": false, "No": false, "NO": false,
		"false": false, "False": false, "FALSE": false, "off": false, "Off": false, "OFF": false,
	}
)

const quoted = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle

// scalarOf classifies a scalar node.
func scalarOf(n *yaml.Node) scalar {
	tagged := n.Style&yaml.TaggedStyle != 0
	switch {
	case tagged && n.ShortTag() == "!!binary":
		data, err := base64.StdEncoding.DecodeString(n.Value)
		if err != nil {
			return scalar{kind: brokenScalar, text: n.Value}
		}
		return scalar{kind: textScalar, text: string(data)}
	case tagged && !isTypeTag(n.ShortTag()):
		return scalar{kind: textScalar, text: n.Value}
	case !tagged && n.Style&quoted != 0:
		return scalar{kind: textScalar, text: n.Value}
	}
	return plainScalar(n.Value)
}

// isTypeTag reports whether a tag names a type that the text decides.
func isTypeTag(tag string) bool {
	return tag == "!!int" || tag == "!!bool" || tag == "!!null" || tag == "!!float"
}

// plainScalar classifies a scalar by its text.
func plainScalar(text string) scalar {
	switch text {
	case "", "~", "null", "Null", "NULL":
		return scalar{kind: nullScalar, text: text}
	}
	if flag, ok := boolWords[text]; ok {
		return scalar{kind: boolScalar, text: text, flag: flag}
	}
	if !strings.ContainsRune("+-.0123456789", rune(text[0])) {
		return scalar{kind: textScalar, text: text}
	}
	digits := strings.ReplaceAll(text, "_", "")
	if text[0] != '.' {
		if num, err := strconv.ParseInt(digits, 0, 64); err == nil {
			return scalar{kind: intScalar, text: text, num: num}
		}
		if _, err := strconv.ParseUint(digits, 0, 64); err == nil {
			return scalar{kind: hugeScalar, text: text}
		}
	}
	if floatPattern.MatchString(digits) {
		return scalar{kind: floatScalar, text: text}
	}
	return scalar{kind: textScalar, text: text}
}

func isNull(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && scalarOf(n).kind == nullScalar
}

func isMerge(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Value == "<<" && n.Style&quoted == 0
}

// kindText names the type of a node, as YAML does, and shows it.
func kindText(n *yaml.Node) string {
	switch n.Kind {
	case yaml.SequenceNode:
		return "!!seq"
	case yaml.MappingNode:
		return "!!map"
	}
	tags := [...]string{"!!str", "!!int", "!!int", "!!float", "!!bool", "!!null", "!!binary"}
	return fmt.Sprintf("%s `%s`", tags[scalarOf(n).kind], plain(n))
}

// plain shows a node in a message, shortened.
func plain(n *yaml.Node) string {
	switch n.Kind {
	case yaml.SequenceNode:
		return "[...]"
	case yaml.MappingNode:
		return "{...}"
	}
	return shortened(n.Value)
}

// shortened returns the beginning of a text, for a message about it.
func shortened(text string) string {
	const longest = 60
	if runes := []rune(text); len(runes) > longest {
		return string(runes[:longest]) + "..."
	}
	return text
}

// leafKind is what a field takes, for what to do about a number that fits no leaf.
type leafKind uint8

const (
	textLeaf leafKind = iota
	numberLeaf
)

// hint says what to write in place of n.
func (k leafKind) hint(n *yaml.Node) string {
	if k == numberLeaf {
		return "write a whole number below 2^63"
	}
	return fmt.Sprintf(`write "%s" in quotes if it is a text, or a whole number below 2^63`, plain(n))
}

// leaf returns the scalar of a field of a kind, and false after reporting why it is none.
func (r *reader) leaf(f field, kind leafKind) (scalar, bool) {
	n := r.follow(f.value)
	if n == nil {
		return scalar{}, false
	}
	if n.Kind != yaml.ScalarNode {
		r.mistyped(n, "write one value", "'"+f.name+"'")
		return scalar{}, false
	}
	return r.checkLeaf(n, kind)
}

// checkLeaf refuses the types that a leaf never has.
func (r *reader) checkLeaf(n *yaml.Node, kind leafKind) (scalar, bool) {
	s := scalarOf(n)
	switch s.kind {
	case floatScalar, hugeScalar:
		r.errorf(at(n), kind.hint(n),
			"error checking config: %s is a number with a fraction or too large", plain(n))
		return s, false
	case brokenScalar:
		r.errorf(at(n), "write the text as it is", "error loading config file: yaml: !!binary value contains invalid base64 data")
		return s, false
	}
	return s, true
}

// text returns a field as text: numbers and booleans as they are written, a
// null as "".
func (r *reader) text(f field) string {
	s, ok := r.leaf(f, textLeaf)
	if !ok || s.kind == nullScalar {
		return ""
	}
	return s.text
}

// flag returns a boolean field, false for a null.
func (r *reader) flag(f field) bool {
	s, ok := r.leaf(f, textLeaf)
	if ok && s.kind != boolScalar && s.kind != nullScalar {
		r.mistyped(f.value, "write true or false, without quotes", "'"+f.name+"', which is a boolean")
	}
	return s.flag
}

// number returns a whole number in [low, high], 0 for a null.
func (r *reader) number(f field, low, high int64) int64 {
	s, ok := r.leaf(f, numberLeaf)
	switch {
	case !ok || s.kind == nullScalar:
		return 0
	case s.kind != intScalar:
		r.mistyped(f.value, "write digits, without quotes", "'"+f.name+"', which is a whole number")
		return 0
	case s.num < low || s.num > high:
		hint := fmt.Sprintf("write a whole number from %d to %d", low, high)
		if high == math.MaxInt64 {
			hint = fmt.Sprintf("write a whole number from %d", low)
		}
		r.errorf(r.valueAt(f), hint, "error loading config file: %s %d is out of range", f.name, s.num)
		return 0
	}
	return s.num
}

// valueAt is where the value of f stands.
func (r *reader) valueAt(f field) position {
	if n := r.follow(f.value); n != nil {
		return at(n)
	}
	return f.at
}
