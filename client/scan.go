package client

import "strings"

// scanner reads the structured fields of RFC 9651 as far as rate limits use
// them: lists and dictionaries of items with parameters. Inner lists, which no
// rate limit has, count as malformed. It copies nothing but strings with escapes.
type scanner struct {
	text string
	pos  int
}

type valueKind uint8

const (
	absent valueKind = iota
	integerValue
	decimalValue
	stringValue
	tokenValue
	bytesValue
	otherValue // a boolean, a date or a display string
)

// value is a bare item. Of a decimal, integer is the whole part; of a byte
// sequence, text is its base64.
type value struct {
	kind    valueKind
	integer int64
	text    string
}

// whole returns the value of an Integer that is not negative.
func (v value) whole() (int64, bool) {
	return v.integer, v.kind == integerValue && v.integer >= 0
}

// The parameters that are looked at; others are comments.
const (
	paramQuota = iota
	paramUnit
	paramWindow
	paramRemaining
	paramTime
	paramPartition
	paramCount
)

var paramNames = map[string]int{
	"q": paramQuota, "qu": paramUnit, "w": paramWindow, "window": paramWindow,
	"r": paramRemaining, "t": paramTime, "pk": paramPartition,
}

// member is a member of a list or, with a key, of a dictionary.
type member struct {
	key    string
	value  value
	params [paramCount]value
}

// Bounds of one field, so that no answer makes its reader work: longer ones are
// ignored, and so are the members past the last.
const (
	maxFieldLength = 8 << 10
	maxMembers     = 32
)

// joined returns the lines of a field as one, as RFC 9110 has it; "" when it is
// absent or too long.
func joined(lines []string) string {
	var text string
	switch len(lines) {
	case 0:
		return ""
	case 1:
		text = lines[0]
	default:
		length := 0
		for _, line := range lines {
			length += len(line) + 1
		}
		if length > maxFieldLength {
			return ""
		}
		text = strings.Join(lines, ",")
	}
	if len(text) > maxFieldLength {
		return ""
	}
	return text
}

// members reads a list or a dictionary into dst. It returns false when the field
// is malformed: then all of it counts as absent.
func members(dst []member, lines []string, dictionary bool) ([]member, bool) {
	s := scanner{text: joined(lines)}
	s.skip(" ")
	for s.pos < len(s.text) {
		m, ok := s.member(dictionary)
		if !ok {
			return nil, false
		}
		if len(dst) < maxMembers {
			dst = append(dst, m)
		}
		s.skip(" \t")
		if s.pos == len(s.text) {
			return dst, true
		}
		if s.text[s.pos] != ',' {
			return nil, false
		}
		s.pos++
		s.skip(" \t")
		if s.pos == len(s.text) {
			return nil, false // a comma at the end
		}
	}
	return dst, len(dst) > 0
}

func (s *scanner) skip(chars string) {
	for s.pos < len(s.text) && strings.IndexByte(chars, s.text[s.pos]) >= 0 {
		s.pos++
	}
}

func (s *scanner) take(c byte) bool {
	if s.pos == len(s.text) || s.text[s.pos] != c {
		return false
	}
	s.pos++
	return true
}

func (s *scanner) member(dictionary bool) (m member, ok bool) {
	if dictionary {
		if m.key, ok = s.key(); !ok {
			return m, false
		}
	}
	if dictionary && !s.take('=') {
		m.value.kind = otherValue // a key alone is true
	} else if m.value, ok = s.bare(); !ok {
		return m, false
	}
	for s.take(';') {
		s.skip(" ")
		name, ok := s.key()
		if !ok {
			return m, false
		}
		v := value{kind: otherValue}
		if s.take('=') {
			if v, ok = s.bare(); !ok {
				return m, false
			}
		}
		if i, known := paramNames[name]; known {
			m.params[i] = v
		}
	}
	return m, true
}

func isLower(c byte) bool { return c >= 'a' && c <= 'z' }
func isDigit(c byte) bool { return c >= '0' && c <= '9' }
func isAlpha(c byte) bool { return isLower(c | 0x20) }

func (s *scanner) key() (string, bool) {
	start := s.pos
	for s.pos < len(s.text) {
		c := s.text[s.pos]
		if isLower(c) || c == '*' || s.pos > start && (isDigit(c) || c == '_' || c == '-' || c == '.') {
			s.pos++
			continue
		}
		break
	}
	return s.text[start:s.pos], s.pos > start
}

func (s *scanner) bare() (value, bool) {
	if s.pos == len(s.text) {
		return value{}, false
	}
	switch c := s.text[s.pos]; {
	case c == '"':
		return s.quoted()
	case c == '-' || isDigit(c):
		return s.number()
	case c == '*' || isAlpha(c):
		return s.token(), true
	case c == ':':
		return s.bytes()
	case c == '@':
		s.pos++
		v, ok := s.number()
		return value{kind: otherValue}, ok && v.kind == integerValue
	case c == '?':
		s.pos++
		ok := s.take('0') || s.take('1')
		return value{kind: otherValue}, ok
	case c == '%':
		return s.display()
	}
	return value{}, false
}

// quoted reads a String.
func (s *scanner) quoted() (value, bool) {
	s.pos++
	start := s.pos
	var unescaped []byte
	for s.pos < len(s.text) {
		c := s.text[s.pos]
		s.pos++
		switch {
		case c == '"':
			text := s.text[start : s.pos-1]
			if unescaped != nil {
				text = string(unescaped)
			}
			return value{kind: stringValue, text: text}, true
		case c < 0x20 || c > 0x7e:
			return value{}, false
		case c == '\\':
			if unescaped == nil {
				unescaped = append(make([]byte, 0, len(s.text)-start), s.text[start:s.pos-1]...)
			}
			if s.pos == len(s.text) || s.text[s.pos] != '"' && s.text[s.pos] != '\\' {
				return value{}, false
			}
			unescaped = append(unescaped, s.text[s.pos])
			s.pos++
		case unescaped != nil:
			unescaped = append(unescaped, c)
		}
	}
	return value{}, false
}

// number reads an Integer (at most 15 digits) or a Decimal (12 and 3).
func (s *scanner) number() (value, bool) {
	negative := s.take('-')
	digits := func() (n int64, count int) {
		for ; s.pos < len(s.text) && isDigit(s.text[s.pos]) && count <= 15; s.pos++ {
			n = n*10 + int64(s.text[s.pos]-'0')
			count++
		}
		return n, count
	}
	n, count := digits()
	if count == 0 || count > 15 {
		return value{}, false
	}
	if negative {
		n = -n
	}
	if !s.take('.') {
		return value{kind: integerValue, integer: n}, true
	}
	_, places := digits()
	return value{kind: decimalValue, integer: n}, count <= 12 && places >= 1 && places <= 3
}

func (s *scanner) token() value {
	start := s.pos
	for s.pos < len(s.text) {
		c := s.text[s.pos]
		if !isAlpha(c) && !isDigit(c) && strings.IndexByte("!#$%&'*+-.^_`|~:/", c) < 0 {
			break
		}
		s.pos++
	}
	return value{kind: tokenValue, text: s.text[start:s.pos]}
}

// bytes reads a Byte Sequence. It is only compared with others, so nothing is
// decoded.
func (s *scanner) bytes() (value, bool) {
	s.pos++
	start := s.pos
	for s.pos < len(s.text) {
		c := s.text[s.pos]
		s.pos++
		if c == ':' {
			return value{kind: bytesValue, text: s.text[start : s.pos-1]}, true
		}
		if !isAlpha(c) && !isDigit(c) && c != '+' && c != '/' && c != '=' {
			break
		}
	}
	return value{}, false
}

// display reads over a Display String.
func (s *scanner) display() (value, bool) {
	s.pos++
	if !s.take('"') {
		return value{}, false
	}
	for s.pos < len(s.text) {
		c := s.text[s.pos]
		s.pos++
		if c == '"' {
			return value{kind: otherValue}, true
		}
		if c < 0x20 || c > 0x7e {
			break
		}
	}
	return value{}, false
}
