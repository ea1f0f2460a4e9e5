package answercost

import (
	"encoding/json"
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// Bounds of what is read. What is beyond them is passed over, never an error: the body is
// somebody else's.
const (
	// maxNesting bounds how deep arrays and objects are nested, beyond which the rest of
	// a document is not read.
	maxNesting = 512
	// maxToken bounds a name, a number and a text that is asked for, in bytes as written.
	maxToken = 256
	// maxSegments bounds the names of a path, and maxPaths the paths of a Shape.
	maxSegments = 16
	maxPaths    = 64
	// maxNumber bounds each number: what is larger counts as this.
	maxNumber = 1 << 40
)

// anyName is the segment that every name and every element matches.
const anyName = "*"

// found is told what stands at paths, as a set of their indexes, and where documents end.
type found interface {
	number(at uint64, n int64)
	// text is told of a text that ends, or that is cut, how many bytes it has, and
	// itself where somebody wants it and it is not too long.
	text(at uint64, length int64, value []byte, whole bool)
	documentEnds()
}

// paths are the compiled paths of a Shape.
type paths struct {
	segments [][]string
	// keep are those whose texts are wanted themselves.
	keep uint64
}

// add adds a path and returns its bit.
func (p *paths) add(path string) uint64 {
	p.segments = append(p.segments, strings.Split(path, "."))
	return 1 << (len(p.segments) - 1)
}

// all is the set of all paths.
func (p *paths) all() uint64 { return 1<<len(p.segments) - 1 }

// match returns which of a set of paths go on by a name, as their segment depth, and which of
// those end there.
func (p *paths) match(set uint64, depth int, name []byte) (on, end uint64) {
	for rest := set; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros64(rest)
		s := p.segments[i]
		if depth >= len(s) || s[depth] != anyName && s[depth] != string(name) {
			continue
		}
		if on |= 1 << i; depth == len(s)-1 {
			end |= 1 << i
		}
	}
	return on, end
}

// state is what a scanner expects next.
type state uint8

const (
	inValue  state = iota // a value, or the end of an array
	inName                // the name of a member, or the end of an object
	inColon               // what follows a name
	inAfter               // a comma or an end
	inText                // the rest of a text
	inNumber              // the rest of a number
	inWord                // the rest of true, false or null
	inRuins               // what is no JSON, or too deep, until the document ends
)

// scanner finds values at paths in JSON that comes in parts, of any size. It is not strict:
// what it reads is what a program wrote that others read too. A text of several documents is
// read one after the other, as newline-delimited JSON is.
type scanner struct {
	paths *paths
	tell  found

	state state
	depth int
	// objects has a bit for each level: an object, else an array.
	objects [maxNesting/64 + 1]uint64
	// active are, for each level, the paths that lead there; 0 below the last of them.
	active [maxSegments + 2]uint64
	// elements counts those of the array at each level that paths lead to.
	elements [maxSegments + 2]int
	// on and end are the paths that lead to the value that comes, and that end there.
	on, end uint64

	naming  bool // the text is a name
	escaped bool // the text goes on after a backslash
	length  int64
	token   [maxToken]byte
	filled  int
	tooLong bool
}

// start makes s ready for a document.
func (s *scanner) start() {
	s.state, s.depth, s.on, s.end = inValue, 0, s.paths.all(), 0
}

// endDocument ends a document that may not be whole.
func (s *scanner) endDocument() {
	switch s.state {
	case inNumber:
		s.endNumber()
	case inText:
		if !s.naming && s.end != 0 {
			s.tell.text(s.end, s.length, nil, false)
		}
	}
	s.tell.documentEnds()
	s.start()
}

// feed reads the next part.
func (s *scanner) feed(p []byte) {
	for i := 0; i < len(p); {
		switch s.state {
		case inText:
			i += s.feedText(p[i:])
		case inRuins:
			return
		case inNumber, inWord:
			if isDelimiter(p[i]) {
				if s.state == inNumber {
					s.endNumber()
				}
				s.endValue()
				continue // the delimiter is read again
			}
			s.keep(p[i])
			i++
		default:
			s.feedByte(p[i])
			i++
		}
	}
}

// isDelimiter reports whether a number or a word ends before c.
func isDelimiter(c byte) bool {
	return c == ',' || c == '}' || c == ']' || isSpace(c)
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// feedByte reads a byte between texts, numbers and words.
func (s *scanner) feedByte(c byte) {
	switch {
	case isSpace(c):
	case s.state == inValue:
		s.beginValue(c)
	case s.state == inName && c == '"':
		s.beginText(true)
	case s.state == inColon && c == ':':
		s.state = inValue
	case s.state == inAfter && c == ',':
		s.next()
	case c == '}' || c == ']':
		s.close(c == '}')
	default:
		s.state = inRuins
	}
}

func (s *scanner) beginValue(c byte) {
	if s.depth > 0 && !s.inObject() {
		if c == ']' {
			s.close(false)
			return
		}
		s.element()
	}
	switch {
	case c == '{' || c == '[':
		s.open(c == '{')
	case c == '"':
		s.beginText(false)
	case c == '-' || c >= '0' && c <= '9':
		s.state, s.filled, s.tooLong = inNumber, 0, false
		s.keep(c)
	case c == 't' || c == 'f' || c == 'n':
		s.state = inWord
	default:
		s.state = inRuins
	}
}

func (s *scanner) inObject() bool { return s.objects[s.depth/64]>>(s.depth%64)&1 == 1 }

func (s *scanner) open(object bool) {
	if s.depth == maxNesting {
		s.state = inRuins
		return
	}
	s.depth++
	if s.depth < len(s.active) {
		s.active[s.depth], s.elements[s.depth] = s.on, -1
	}
	if bit := uint64(1) << (s.depth % 64); object {
		s.objects[s.depth/64] |= bit
		s.state = inName
	} else {
		s.objects[s.depth/64] &^= bit
		s.state = inValue
	}
}

func (s *scanner) close(object bool) {
	if s.depth == 0 || s.inObject() != object || s.state == inColon {
		s.state = inRuins
		return
	}
	s.depth--
	s.endValue()
}

// endValue goes on after a value.
func (s *scanner) endValue() {
	if s.state = inAfter; s.depth == 0 {
		s.tell.documentEnds()
		s.start()
	}
}

// next goes on after a comma.
func (s *scanner) next() {
	if s.state = inValue; s.inObject() {
		s.state = inName
	}
}

// lead finds the paths that lead to the value of this name at this level.
func (s *scanner) lead(name []byte) {
	s.on, s.end = 0, 0
	if s.depth < len(s.active) && s.active[s.depth] != 0 {
		s.on, s.end = s.paths.match(s.active[s.depth], s.depth-1, name)
	}
}

// element counts one more element of an array.
func (s *scanner) element() {
	if s.on, s.end = 0, 0; s.depth >= len(s.active) || s.active[s.depth] == 0 {
		return
	}
	s.elements[s.depth]++
	s.lead(strconv.AppendInt(s.token[:0], int64(s.elements[s.depth]), 10))
}

func (s *scanner) beginText(naming bool) {
	s.state, s.naming, s.escaped, s.length, s.filled, s.tooLong = inText, naming, false, 0, 0, false
}

// feedText reads what p has of a text and returns how much that is.
func (s *scanner) feedText(p []byte) int {
	kept := s.naming && s.depth < len(s.active) && s.active[s.depth] != 0 || !s.naming && s.end&s.paths.keep != 0
	for i, c := range p {
		switch {
		case s.escaped:
			// As much as the character has in UTF-8, or nearly: of the six bytes of
			// \u4e2d the u takes one off, and the backslash counts as none.
			if s.escaped = false; c == 'u' {
				s.length--
			} else {
				s.length++
			}
		case c == '\\':
			s.escaped = true
		case c == '"':
			s.endText(kept)
			return i + 1
		default:
			s.length++
		}
		if kept {
			s.keep(c)
		}
	}
	return len(p)
}

// keep keeps a byte of what is read.
func (s *scanner) keep(c byte) {
	if s.filled == maxToken {
		s.tooLong = true
		return
	}
	s.token[s.filled] = c
	s.filled++
}

func (s *scanner) endText(kept bool) {
	var value []byte
	if kept && !s.tooLong {
		value = unescaped(s.token[:s.filled])
	}
	if s.naming {
		s.lead(value)
		s.state = inColon
		return
	}
	if s.end != 0 {
		s.tell.text(s.end, s.length, value, value != nil)
	}
	s.endValue()
}

// unescaped returns what a text means, nil where it is malformed.
func unescaped(b []byte) []byte {
	if !strings.Contains(string(b), `\`) {
		return b[:len(b):len(b)]
	}
	var text string
	if json.Unmarshal([]byte(`"`+string(b)+`"`), &text) != nil {
		return nil
	}
	return []byte(text)
}

func (s *scanner) endNumber() {
	if s.end == 0 || s.tooLong {
		return
	}
	if n, ok := number(string(s.token[:s.filled])); ok {
		s.tell.number(s.end, n)
	}
}

// number reads a number: rounded up, at least 0 and at most maxNumber.
func number(text string) (int64, bool) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil && !math.IsInf(f, 0) {
		return 0, false
	}
	return int64(min(max(math.Ceil(f), 0), maxNumber)), true
}
