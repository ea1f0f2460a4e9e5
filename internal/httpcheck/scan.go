package httpcheck

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// scanner reads JSON (RFC 8259) strictly, straight into the caller's hands: no
// tree is built, so there is no depth to bound. It refuses what a lenient reader
// would let collide or vanish: text that is not UTF-8, lone surrogates, members
// given twice, numbers that are not whole. Strings without escapes are parts of
// text, not copies.
type scanner struct {
	text string
	pos  int
}

// inputError says what is wrong with a body, and where.
type inputError struct {
	status int    // HTTP status; 0 means 400
	path   string // "checks[2].descriptors[0].hits"; "" is the whole body
	what   string
	hint   string
}

// Error implements error.
func (e *inputError) Error() string {
	s := e.what
	if e.path != "" {
		s = e.path + ": " + s
	}
	if e.hint != "" {
		s += "; hint: " + e.hint
	}
	return s
}

// maxEcho bounds how much of the input an error repeats.
const maxEcho = 64

func quoted(s string) string {
	if len(s) > maxEcho {
		s = strings.ToValidUTF8(s[:maxEcho], "") + "..."
	}
	return strconv.Quote(s)
}

// inMember puts the name of a member before the path of err.
func inMember(err *inputError, name string) *inputError {
	if !isPlain(name) {
		name = quoted(name)
	}
	if err.path != "" && err.path[0] != '[' {
		name += "."
	}
	err.path = name + err.path
	return err
}

// isPlain reports whether name can stand in a path as it is.
func isPlain(name string) bool {
	for i := 0; i < len(name); i++ {
		if c := name[i]; c != '_' && (c < 'a' || c > 'z') {
			return false
		}
	}
	return name != "" && len(name) <= maxEcho
}

// inElement puts an index before the path of err.
func inElement(err *inputError, i int) *inputError {
	index := "[" + strconv.Itoa(i) + "]"
	if err.path != "" && err.path[0] != '[' {
		index += "."
	}
	err.path = index + err.path
	return err
}

func (s *scanner) space() {
	for s.pos < len(s.text) {
		switch s.text[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// next returns the next byte that is not white space, 0 at the end.
func (s *scanner) next() byte {
	s.space()
	if s.pos == len(s.text) {
		return 0
	}
	return s.text[s.pos]
}

// take consumes c if it comes next.
func (s *scanner) take(c byte) bool {
	if s.next() != c || s.pos == len(s.text) {
		return false
	}
	s.pos++
	return true
}

// found names what comes next, for errors.
func (s *scanner) found() string {
	c := s.next()
	rest := s.text[s.pos:]
	switch {
	case rest == "":
		return "the end of the body"
	case c == '{':
		return "an object"
	case c == '[':
		return "an array"
	case c == '"':
		return "a string"
	case c == '-' || c >= '0' && c <= '9':
		return "a number"
	case strings.HasPrefix(rest, "true") || strings.HasPrefix(rest, "false"):
		return "a boolean"
	case strings.HasPrefix(rest, "null"):
		return "null"
	}
	r, size := utf8.DecodeRuneInString(rest)
	if r == utf8.RuneError && size == 1 {
		return fmt.Sprintf("byte 0x%02x at offset %d", c, s.pos)
	}
	return fmt.Sprintf("%q at offset %d", r, s.pos)
}

func (s *scanner) wants(what string) *inputError {
	found := s.found()
	e := &inputError{what: "wants " + what + ", got " + found}
	if found == "null" {
		e.hint = "leave it out for its default"
	}
	return e
}

// object reads an object; member reads the value of each name.
func (s *scanner) object(member func(name string) *inputError) *inputError {
	if !s.take('{') {
		return s.wants("an object")
	}
	if s.take('}') {
		return nil
	}
	var space [12]string
	seen := space[:0]
	for {
		if s.next() != '"' {
			return s.wants("a quoted name")
		}
		name, err := s.string()
		if err != nil {
			return err
		}
		for _, other := range seen {
			if other == name {
				return inMember(&inputError{what: "given twice"}, name)
			}
		}
		seen = append(seen, name)
		if !s.take(':') {
			return inMember(s.wants("a colon"), name)
		}
		if err := member(name); err != nil {
			return inMember(err, name)
		}
		if s.take('}') {
			return nil
		}
		if !s.take(',') {
			return s.wants("a comma or }")
		}
	}
}

// array reads an array of at most limit elements; element reads each.
func (s *scanner) array(limit int, element func(i int) *inputError) *inputError {
	if !s.take('[') {
		return s.wants("an array")
	}
	if s.take(']') {
		return nil
	}
	for i := 0; ; i++ {
		if i == limit {
			return &inputError{status: statusTooLarge, what: fmt.Sprintf("more than %d elements", limit), hint: "send several requests"}
		}
		if err := element(i); err != nil {
			return inElement(err, i)
		}
		if s.take(']') {
			return nil
		}
		if !s.take(',') {
			return s.wants("a comma or ]")
		}
	}
}

// end refuses anything but white space after the value.
func (s *scanner) end() *inputError {
	if s.next(); s.pos < len(s.text) {
		return &inputError{what: "text after the end of the JSON value: " + s.found(), hint: "send one object"}
	}
	return nil
}

// integer reads a whole number from low to high.
func (s *scanner) integer(low, high int64) (int64, *inputError) {
	c := s.next()
	if c != '-' && (c < '0' || c > '9') {
		return 0, s.wants("a whole number")
	}
	start := s.pos
	if c == '-' {
		s.pos++
	}
	first := s.pos
	n, fits := int64(0), true
	for ; s.pos < len(s.text); s.pos++ {
		digit := s.text[s.pos] - '0'
		if digit > 9 {
			break
		}
		if n > (math.MaxInt64-int64(digit))/10 {
			fits = false
			continue
		}
		n = n*10 + int64(digit)
	}
	digits := s.text[first:s.pos]
	if digits == "" || len(digits) > 1 && digits[0] == '0' {
		return 0, &inputError{what: "not a JSON number: " + quoted(s.text[start:s.pos])}
	}
	if s.pos < len(s.text) && strings.IndexByte(".eE", s.text[s.pos]) >= 0 {
		return 0, &inputError{what: "wants a whole number, got one with a fraction or an exponent", hint: "write 60000, not 6e4 or 60000.0"}
	}
	if c == '-' {
		n = -n
	}
	if !fits || n < low || n > high {
		return 0, &inputError{what: "out of range: " + quoted(s.text[start:s.pos]), hint: fmt.Sprintf("from %d to %d", low, high)}
	}
	return n, nil
}

// string reads a string.
func (s *scanner) string() (string, *inputError) {
	if s.next() != '"' {
		return "", s.wants("a string")
	}
	s.pos++
	start := s.pos
	for s.pos < len(s.text) {
		switch c := s.text[s.pos]; {
		case c == '"':
			value := s.text[start:s.pos]
			s.pos++
			return value, validText(value)
		case c == '\\':
			return s.escaped(start)
		case c < 0x20:
			return "", &inputError{what: fmt.Sprintf("control character 0x%02x in a string", c), hint: `write it as \u00XX`}
		default:
			s.pos++
		}
	}
	return "", &inputError{what: "a string without an end"}
}

func validText(value string) *inputError {
	if !utf8.ValidString(value) {
		return &inputError{what: "not UTF-8", hint: "encode bytes that are not text, for instance as base64"}
	}
	return nil
}

// escaped reads on from the first escape of a string that began at start.
func (s *scanner) escaped(start int) (string, *inputError) {
	out := []byte(s.text[start:s.pos])
	for s.pos < len(s.text) {
		c := s.text[s.pos]
		switch {
		case c == '"':
			s.pos++
			value := string(out)
			return value, validText(value)
		case c < 0x20:
			return "", &inputError{what: fmt.Sprintf("control character 0x%02x in a string", c), hint: `write it as \u00XX`}
		case c != '\\':
			out = append(out, c)
			s.pos++
		default:
			r, ok := s.escape()
			if !ok {
				return "", &inputError{what: "a malformed escape in a string"}
			}
			out = utf8.AppendRune(out, r)
		}
	}
	return "", &inputError{what: "a string without an end"}
}

// escape reads one escape sequence, a surrogate pair as one.
func (s *scanner) escape() (rune, bool) {
	if s.pos+1 >= len(s.text) {
		return 0, false
	}
	c := s.text[s.pos+1]
	if c == 'u' {
		r, ok := s.unicodeEscape()
		if !ok || !utf16.IsSurrogate(r) {
			return r, ok
		}
		low, ok := s.unicodeEscape()
		r = utf16.DecodeRune(r, low)
		return r, ok && r != utf8.RuneError
	}
	const names, values = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	i := strings.IndexByte(names, c)
	if i < 0 {
		return 0, false
	}
	s.pos += 2
	return rune(values[i]), true
}

// unicodeEscape reads \uXXXX.
func (s *scanner) unicodeEscape() (rune, bool) {
	const length = len(`\uXXXX`)
	if s.pos+length > len(s.text) || s.text[s.pos:s.pos+2] != `\u` {
		return 0, false
	}
	n := rune(0)
	for _, c := range []byte(s.text[s.pos+2 : s.pos+length]) {
		switch {
		case c >= '0' && c <= '9':
			n = n<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			n = n<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	s.pos += length
	return n, true
}
