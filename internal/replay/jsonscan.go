package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"unicode/utf8"
)

var errJSON = errors.New("not an object of JSON; hint: an event is one line")

// members walks over the members of an object of JSON without making anything of values that
// nobody asks for. It checks so much of the syntax as it takes to find them.
type members struct {
	json []byte
	at   int
	err  error
}

// space goes to the next byte that is none.
func (m *members) space() {
	for m.at < len(m.json) {
		switch m.json[m.at] {
		case ' ', '\t', '\r', '\n':
			m.at++
		default:
			return
		}
	}
}

// take goes behind c, and reports whether it was there.
func (m *members) take(c byte) bool {
	m.space()
	if m.at == len(m.json) || m.json[m.at] != c {
		return false
	}
	m.at++
	return true
}

// begin enters an object or a list.
func (m *members) begin(open byte) {
	if !m.take(open) {
		m.err = errJSON
	}
}

// more reports whether there is another element before the end; first says that there was none.
func (m *members) more(end byte, first bool) bool {
	switch {
	case m.err != nil, m.take(end):
		return false
	case !first && !m.take(','):
		m.err = errJSON
		return false
	}
	return true
}

// name returns the name of the next member.
func (m *members) name() []byte {
	name := m.value()
	if m.err == nil && (name[0] != '"' || !m.take(':')) {
		m.err = errJSON
	}
	if m.err != nil {
		return nil
	}
	return name[1 : len(name)-1]
}

// value goes behind the next value, and returns it as it is written.
func (m *members) value() []byte {
	m.space()
	from, depth := m.at, 0
	for m.err == nil && m.at < len(m.json) {
		switch c := m.json[m.at]; {
		case c == '"':
			m.text()
		case c == '{' || c == '[':
			depth++
			m.at++
		case c == '}' || c == ']':
			if depth--; depth < 0 {
				m.err = errJSON
			}
			m.at++
		case depth > 0:
			m.at++
			continue
		default:
			m.word()
		}
		if depth == 0 {
			break
		}
	}
	if m.at == from || depth != 0 {
		m.err = errJSON
	}
	if m.err != nil {
		return nil
	}
	return m.json[from:m.at]
}

// text goes behind a string.
func (m *members) text() {
	for from := m.at + 1; from <= len(m.json); {
		i := bytes.IndexByte(m.json[from:], '"')
		if i < 0 {
			break
		}
		end := from + i
		escapes := 0
		for end-escapes > from && m.json[end-escapes-1] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			m.at = end + 1
			return
		}
		from = end + 1
	}
	m.err = errJSON
}

// word goes behind a number, true, false or null.
func (m *members) word() {
	for m.at < len(m.json) {
		switch m.json[m.at] {
		case ',', ':', '}', ']', ' ', '\t', '\r', '\n':
			return
		}
		m.at++
	}
}

// textAgain is textOf for what is most often before, so that it need not be made again.
func textAgain(before string, value []byte) (string, error) {
	if len(value) == len(before)+2 && value[0] == '"' && string(value[1:len(value)-1]) == before && bytes.IndexByte(value, '\\') < 0 {
		return before, nil
	}
	return textOf(value)
}

// textOf returns what a string says.
func textOf(value []byte) (string, error) {
	if len(value) < 2 || value[0] != '"' {
		return "", errors.New("not a string")
	}
	inside := value[1 : len(value)-1]
	if bytes.IndexByte(inside, '\\') < 0 {
		if !utf8.Valid(inside) {
			return "", errors.New("not UTF-8")
		}
		return string(inside), nil
	}
	var text string
	err := json.Unmarshal(value, &text)
	return text, err
}

func integerOf(value []byte) (int64, error) {
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil {
		return 0, errors.New("not an integer")
	}
	return n, nil
}

func numberOf(value []byte) (float64, error) {
	n, err := strconv.ParseFloat(string(value), 64)
	if err != nil {
		return 0, errors.New("not a number")
	}
	return n, nil
}

func booleanOf(value []byte) (bool, error) {
	switch string(value) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, errors.New("neither true nor false")
}
