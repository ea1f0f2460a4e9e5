package strictjson

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/headgate/headgate/internal/ascii"
)

// statusTooLarge is the HTTP status of a body with too many elements.
const statusTooLarge = 413

// Scanner reads JSON (RFC 8259) strictly, straight into the caller's hands: no
// tree is built, and only Skip bounds a depth, because the depth of all else is
// that of the caller's calls. It refuses what a lenient reader would let collide
// or vanish: text that is not UTF-8, lone surrogates, members given twice, numbers
// that are not whole. Strings without escapes are parts of the text, not copies.
// The zero value reads an empty text; NewScanner makes another one.
type Scanner struct {
	text string
	pos  int
	// mark is where the value or the name begins that was looked at last.
	mark int
}

// NewScanner returns a Scanner at the begin of a text.
func NewScanner(text string) Scanner { return Scanner{text: text} }

// Error says what is wrong with a body, and where. Its texts may repeat a bounded
// part of the body, in quotes.
type Error struct {
	// Status is the HTTP status that fits; 0 means 400.
	Status int
	// Path is where, as in "checks[2].descriptors[0].hits"; "" is the whole body.
	Path string
	// Offset is where in the text that stands, in bytes from its begin: a name that is wrong, a
	// value, or what comes in the place of another thing. Decode and Valid set it.
	Offset int
	// What is wrong there, and the Hint what to do; the hint may be empty.
	What, Hint string
	// stranger is the name at the end of Path, if nobody knows a member that is called so or
	// nearly so; else "".
	stranger string
}

// Guarded returns e as it may be told of a text that holds secrets: without a name at the end of
// its path that nobody knows, because that may be a value in the wrong place.
func (e *Error) Guarded() *Error {
	if e.stranger == "" {
		return e
	}
	guarded := *e
	guarded.Path = strings.TrimSuffix(strings.TrimSuffix(e.Path, e.stranger), ".")
	return &guarded
}

// Place returns the line and the column of e in the text that was read, both counted from 1, the
// column in characters.
func (e *Error) Place(text []byte) (line, column int) {
	before := text[:min(e.Offset, len(text))]
	return bytes.Count(before, []byte("\n")) + 1, utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1
}

// Error implements error.
func (e *Error) Error() string {
	if e.Path != "" {
		return e.Path + ": " + e.Problem()
	}
	return e.Problem()
}

// Problem returns what is wrong and what to do, without where.
func (e *Error) Problem() string {
	if e.Hint != "" {
		return e.What + "; hint: " + e.Hint
	}
	return e.What
}

// maxMembers bounds the members of one object, each of which is compared with those
// before it.
const maxMembers = 128

// maxEcho bounds how much of the input an error repeats.
const maxEcho = 64

// Quoted is what was sent, cut and in quotes, as an error may repeat it.
func Quoted(s string) string {
	if len(s) > maxEcho {
		s = strings.ToValidUTF8(s[:maxEcho], "") + "..."
	}
	return strconv.Quote(s)
}

// InMember puts the name of a member before the path of err.
func InMember(err *Error, name string) *Error {
	name = written(name)
	if err.Path != "" && err.Path[0] != '[' {
		name += "."
	}
	err.Path = name + err.Path
	return err
}

// written is a name as paths have it.
func written(name string) string {
	if isPlain(name) {
		return name
	}
	return Quoted(name)
}

// isPlain reports whether name can stand in a path as it is.
func isPlain(name string) bool {
	return name != "" && len(name) <= maxEcho && ascii.Only(name, "_")
}

// inElement puts an index before the path of err.
func inElement(err *Error, i int) *Error {
	index := "[" + strconv.Itoa(i) + "]"
	if err.Path != "" && err.Path[0] != '[' {
		index += "."
	}
	err.Path = index + err.Path
	return err
}

func (s *Scanner) space() {
	for s.pos < len(s.text) {
		switch s.text[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// Next returns the next byte that is not white space, 0 at the end.
func (s *Scanner) Next() byte {
	s.space()
	if s.pos == len(s.text) {
		return 0
	}
	return s.text[s.pos]
}

// Literal consumes a word, such as true, if it comes next.
func (s *Scanner) Literal(word string) bool {
	if s.space(); !strings.HasPrefix(s.text[s.pos:], word) {
		return false
	}
	s.pos += len(word)
	return true
}

// take consumes c if it comes next.
func (s *Scanner) take(c byte) bool {
	if s.Next() != c || s.pos == len(s.text) {
		return false
	}
	s.pos++
	return true
}

// found names what comes next, for errors.
func (s *Scanner) found() string {
	c := s.Next()
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

// Wants is the error where what is wanted does not come next.
func (s *Scanner) Wants(what string) *Error {
	found := s.found()
	s.mark = s.pos
	e := &Error{What: "wants " + what + ", got " + found}
	if found == "null" {
		e.Hint = "leave it out for its default"
	}
	return e
}

// Object reads an object; member reads the value of each name.
func (s *Scanner) Object(member func(name string) *Error) *Error {
	if !s.take('{') {
		return s.Wants("an object")
	}
	if s.take('}') {
		return nil
	}
	var space [12]string
	seen := space[:0]
	for {
		if s.Next() != '"' {
			return s.Wants("a quoted name")
		}
		name, err := s.Text()
		if err != nil {
			return err
		}
		for _, other := range seen {
			if other == name {
				return InMember(&Error{What: "given twice"}, name)
			}
		}
		if len(seen) == maxMembers {
			return &Error{Status: statusTooLarge, What: fmt.Sprintf("an object of more than %d members", maxMembers)}
		}
		seen = append(seen, name)
		if !s.take(':') {
			return InMember(s.Wants("a colon"), name)
		}
		if err := member(name); err != nil {
			return InMember(err, name)
		}
		if s.take('}') {
			return nil
		}
		if !s.take(',') {
			return s.Wants("a comma or }")
		}
	}
}

// Array reads an array of at most limit elements; element reads each.
func (s *Scanner) Array(limit int, element func(i int) *Error) *Error {
	if !s.take('[') {
		return s.Wants("an array")
	}
	if s.take(']') {
		return nil
	}
	for i := 0; ; i++ {
		if i == limit {
			return &Error{Status: statusTooLarge, What: fmt.Sprintf("more than %d elements", limit), Hint: "send several requests"}
		}
		if err := element(i); err != nil {
			return inElement(err, i)
		}
		if s.take(']') {
			return nil
		}
		if !s.take(',') {
			return s.Wants("a comma or ]")
		}
	}
}

// End refuses anything but white space after the value.
func (s *Scanner) End() *Error {
	if s.Next(); s.pos < len(s.text) {
		s.mark = s.pos
		return &Error{What: "text after the end of the JSON value: " + s.found(), Hint: "send one object"}
	}
	return nil
}

// Integer reads a whole number from low to high.
func (s *Scanner) Integer(low, high int64) (int64, *Error) {
	c := s.Next()
	if c != '-' && (c < '0' || c > '9') {
		return 0, s.Wants("a whole number")
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
		return 0, &Error{What: "not a JSON number: " + Quoted(s.text[start:s.pos])}
	}
	if s.pos < len(s.text) && strings.IndexByte(".eE", s.text[s.pos]) >= 0 {
		return 0, &Error{What: "wants a whole number, got one with a fraction or an exponent", Hint: "write 60000, not 6e4 or 60000.0"}
	}
	if c == '-' {
		n = -n
	}
	if !fits || n < low || n > high {
		return 0, &Error{What: "out of range: " + Quoted(s.text[start:s.pos]), Hint: fmt.Sprintf("from %d to %d", low, high)}
	}
	return n, nil
}

// Text reads a string.
func (s *Scanner) Text() (string, *Error) {
	if s.Next() != '"' {
		return "", s.Wants("a string")
	}
	s.mark = s.pos
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
			return "", &Error{What: fmt.Sprintf("control character 0x%02x in a string", c), Hint: `write it as \u00XX`}
		default:
			s.pos++
		}
	}
	return "", &Error{What: "a string without an end"}
}

func validText(value string) *Error {
	if !utf8.ValidString(value) {
		return &Error{What: "not UTF-8", Hint: "encode bytes that are not text, for instance as base64"}
	}
	return nil
}

// escaped reads on from the first escape of a string that began at start.
func (s *Scanner) escaped(start int) (string, *Error) {
	out := []byte(s.text[start:s.pos])
	for s.pos < len(s.text) {
		c := s.text[s.pos]
		switch {
		case c == '"':
			s.pos++
			value := string(out)
			return value, validText(value)
		case c < 0x20:
			return "", &Error{What: fmt.Sprintf("control character 0x%02x in a string", c), Hint: `write it as \u00XX`}
		case c != '\\':
			out = append(out, c)
			s.pos++
		default:
			r, ok := s.escape()
			if !ok {
				return "", &Error{What: "a malformed escape in a string"}
			}
			out = utf8.AppendRune(out, r)
		}
	}
	return "", &Error{What: "a string without an end"}
}

// escape reads one escape sequence, a surrogate pair as one.
func (s *Scanner) escape() (rune, bool) {
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
func (s *Scanner) unicodeEscape() (rune, bool) {
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
