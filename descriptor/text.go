package descriptor

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ErrSyntax is wrapped by the errors of Parse.
var ErrSyntax = errors.New("parse descriptor")

const hexDigits = "0123456789abcdef"

// Format returns the canonical text of a descriptor: its entries joined by ",",
// key and value of each joined by ":".
//
//	api_key:abc,endpoint:POST /api/v1/orders
//
// A backslash stands before "\" and ",", and before ":" in a key; control
// characters and bytes that are not UTF-8 are written \xNN. So the text is
// printable, on one line, and Parse returns the same entries. An entry with an
// empty key is not valid; it formats as ":value", which Parse refuses. No
// entries format as "".
func Format(entries []Entry) string { return string(AppendText(nil, entries)) }

// AppendText appends what Format returns.
func AppendText(dst []byte, entries []Entry) []byte {
	for i := range entries {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendEscaped(dst, entries[i].Key, true)
		dst = append(dst, ':')
		dst = appendEscaped(dst, entries[i].Value, false)
	}
	return dst
}

func appendEscaped(dst []byte, s string, isKey bool) []byte {
	for i := 0; i < len(s); {
		if n := plain(s[i:]); n > 0 {
			dst = append(dst, s[i:i+n]...)
			i += n
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1, isControl(r):
			for _, c := range []byte(s[i : i+size]) {
				dst = append(dst, '\\', 'x', hexDigits[c>>4], hexDigits[c&15])
			}
		case r == '\\' || r == ',' || isKey && r == ':':
			dst = append(dst, '\\', byte(r))
		default:
			dst = append(dst, s[i:i+size]...)
		}
		i += size
	}
	return dst
}

// plain returns how many bytes s begins with that are written as they are, whether in a key
// or in a value: all of ASCII that can be seen, but for three.
func plain(s string) (n int) {
	for n < len(s) && s[n] >= ' ' && s[n] < 0x7f && s[n] != '\\' && s[n] != ',' && s[n] != ':' {
		n++
	}
	return n
}

// isControl reports whether r moves the cursor, ends a line or reorders text on
// a terminal, so that a value could disguise what is printed around it.
func isControl(r rune) bool {
	switch {
	case r < 0x20, r >= 0x7f && r < 0xa0: // C0, DEL and C1
		return true
	case r == 0x2028 || r == 0x2029: // line and paragraph separator
		return true
	}
	return unicode.Is(unicode.Bidi_Control, r)
}

// Parse is the inverse of Format. It also takes what people write by hand:
// unescaped control characters, a ":" in a key escaped or not at all (the first
// one ends the key), and \xNN for any byte. "" is no entries.
func Parse(text string) ([]Entry, error) {
	if text == "" {
		return nil, nil
	}
	var entries []Entry
	p := textParser{text: text}
	for {
		e, err := p.entry()
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
		if p.at == len(p.text) {
			return entries, nil
		}
		p.at++ // the comma
	}
}

type textParser struct {
	text string
	at   int // the next byte
}

// entry reads up to a comma or the end.
func (p *textParser) entry() (Entry, error) {
	start := p.at
	key, err := p.until(":,")
	if err != nil {
		return Entry{}, err
	}
	if p.at == len(p.text) || p.text[p.at] != ':' {
		return Entry{}, fmt.Errorf("%w: no \":\" in the entry at byte %d; hint: write key:value,key:value", ErrSyntax, start)
	}
	if key == "" {
		return Entry{}, fmt.Errorf("%w: empty key at byte %d; hint: write key:value,key:value", ErrSyntax, start)
	}
	p.at++ // the colon
	value, err := p.until(",")
	if err != nil {
		return Entry{}, err
	}
	return Entry{key, value}, nil
}

// until reads up to one of the bytes of stop, or the end, and unescapes.
func (p *textParser) until(stop string) (string, error) {
	var b strings.Builder
	for p.at < len(p.text) {
		c := p.text[p.at]
		if strings.IndexByte(stop, c) >= 0 {
			break
		}
		if c == '\\' {
			var err error
			if c, err = p.escape(); err != nil {
				return "", err
			}
		} else {
			p.at++
		}
		b.WriteByte(c)
	}
	return b.String(), nil
}

// escape reads one escape sequence: \xNN, or a backslash before one of \ , :
func (p *textParser) escape() (byte, error) {
	rest := p.text[p.at+1:]
	switch {
	case len(rest) > 0 && strings.IndexByte(`\,:`, rest[0]) >= 0:
		p.at += 2
		return rest[0], nil
	case len(rest) >= 3 && rest[0] == 'x':
		high, low := strings.IndexByte(hexDigits, lower(rest[1])), strings.IndexByte(hexDigits, lower(rest[2]))
		if high >= 0 && low >= 0 {
			p.at += 4
			return byte(high<<4 | low), nil
		}
	}
	return 0, fmt.Errorf("%w: unknown escape at byte %d; hint: \\\\ \\, \\: or \\xNN", ErrSyntax, p.at)
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'F' {
		return c + 'a' - 'A'
	}
	return c
}
