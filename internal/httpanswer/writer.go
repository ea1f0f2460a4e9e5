package httpanswer

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"unsafe"
)

// maxFields is the most fields that one answer writes: those of Draft6 with X,
// Retry-After or a warning, Cache-Control, the ID of the decision, and Content-Type.
const maxFields = 11

// pooledText is room for the values of an answer with a few policies, in bytes.
// maxPolicies bounds what one can grow to.
const pooledText = 256

var writers = sync.Pool{New: func() any { return &Writer{text: make([]byte, 0, pooledText)} }}

// Writer collects the header fields of an answer, of one at a time. The zero value is ready, and
// a used one saves memory. It is not for concurrent use.
type Writer struct {
	text   []byte // of all values that are not said
	count  int
	fields [maxFields]written
	// closed is where the value begins that is written.
	closed int
	// remaining is where RateLimit has its r; none where it is empty.
	remaining part
	// remembered has the values that are.
	remembered *memo
	// decision is how the field that names the decision is called.
	decision spellings
	// media is the value of Content-Type.
	media string
}

// part is a part of the text of a Writer.
type part struct{ from, to int }

// written is one field. It has no pointers: it is written often, and what has some costs more
// while garbage is collected.
type written struct {
	part  part
	name  name
	value valueKind
}

// valueKind says where the value of a field is.
type valueKind uint8

const (
	inText       valueKind = iota // at the part of it
	policyValue                   // remembered
	quotaValue                    // remembered
	noStoreValue                  // "no-store"
	mediaValue                    // that of Writer.media
)

// end closes the value written since the last part that was closed.
func (w *Writer) end(n name) {
	w.repeat(n, part{w.closed, len(w.text)})
	w.closed = len(w.text)
}

// repeat adds a field whose value is a part of what has been written.
func (w *Writer) repeat(n name, p part) {
	w.fields[w.count] = written{name: n, part: p}
	w.count++
}

// say adds a field whose value is kept elsewhere.
func (w *Writer) say(n name, value valueKind) {
	w.fields[w.count] = written{name: n, value: value}
	w.count++
}

// Media adds Content-Type, for an answer with a body of that media type.
func (w *Writer) Media(t string) {
	if w.media != t {
		w.media = t
	}
	w.say(contentType, mediaValue)
}

// spelled returns how a field is called.
func (w *Writer) spelled(n name) *spellings {
	if n == decisionField {
		return &w.decision
	}
	return &names[n]
}

// value returns that of field i; text is all that was written.
func (w *Writer) value(i int, text string) string {
	switch f := &w.fields[i]; f.value {
	case policyValue:
		return w.remembered.value
	case quotaValue:
		return w.remembered.quota
	case noStoreValue:
		return "no-store"
	case mediaValue:
		return w.media
	default:
		return text[f.part.from:f.part.to]
	}
}

// AppendFields appends what was written, and returns dst.
func (w *Writer) AppendFields(dst []Field) []Field {
	text := string(w.text)
	for i := range w.count {
		dst = append(dst, Field{Name: w.spelled(w.fields[i].name).own, Value: w.value(i, text)})
	}
	return dst
}

// SetCanonical sets what was written in h, by the names under which Header.Get and
// Header.Set find it. It is one allocation where little was written, else two.
func (w *Writer) SetCanonical(h http.Header) { w.set(h, true) }

// Set sets what was written in h, by the spelling under which each field is registered: for
// answers whose other fields nobody else sets. It allocates as SetCanonical does.
func (w *Writer) Set(h http.Header) { w.set(h, false) }

func (w *Writer) set(h http.Header, canonical bool) {
	if w.count == 0 {
		return
	}
	values, text := w.keep()
	for i := range w.count {
		spelled := w.spelled(w.fields[i].name)
		name := spelled.own
		if canonical {
			name = spelled.canonical
		}
		values[i] = w.value(i, text)
		h[name] = values[i : i+1 : i+1]
	}
}

// usualFields and usualText are room for an allowed answer with the fields of Draft8 and
// X-RateLimit-*: 144 bytes together. deniedFields is room for those of a denial: 192.
const (
	usualFields  = 5
	deniedFields = 8
	usualText    = 64
)

// keep returns room for the values of the fields, and a copy of what was written.
func (w *Writer) keep() (values []string, text string) {
	var space *[usualText]byte
	switch {
	case w.count > deniedFields || len(w.text) > usualText:
		return make([]string, w.count), string(w.text)
	case w.count > usualFields:
		kept := new(struct {
			values [deniedFields]string
			text   [usualText]byte
		})
		values, space = kept.values[:w.count], &kept.text
	default:
		kept := new(struct {
			values [usualFields]string
			text   [usualText]byte
		})
		values, space = kept.values[:w.count], &kept.text
	}
	// Nobody writes to these bytes again, as with those of any string.
	return values, unsafe.String(&space[0], copy(space[:], w.text))
}

// ReplaceCanonical is SetCanonical in a header where the fields may stand under their own
// spelling too.
func (w *Writer) ReplaceCanonical(h http.Header) {
	for i := range w.count {
		delete(h, w.spelled(w.fields[i].name).own)
	}
	w.SetCanonical(h)
}

// Exposed lists the names of what was written that scripts in browsers cannot read unless told,
// for Access-Control-Expose-Headers.
func (w *Writer) Exposed() string {
	var list []string
	for i := range w.count {
		if n := w.fields[i].name; n != cacheControl && n != contentType {
			list = append(list, w.spelled(n).own)
		}
	}
	return strings.Join(list, ", ")
}

func (w *Writer) integer(n int64) {
	w.text = appendInteger(w.text, n)
}

func appendInteger(dst []byte, n int64) []byte { return strconv.AppendInt(dst, min(n, maxInteger), 10) }

func (w *Writer) integerField(field name, n int64) {
	w.integer(n)
	w.end(field)
}

// quoted writes an sf-string (RFC 9651, section 4.1.6) of printable ASCII; what
// is not that becomes %XX of its bytes.
func (w *Writer) quoted(name, suffix string) {
	w.text = append(w.text, '"')
	w.nameBytes(name)
	w.nameBytes(suffix)
	w.text = append(w.text, '"')
}

func (w *Writer) nameBytes(s string) {
	const hex = "0123456789ABCDEF"
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c < 0x20 || c > 0x7e:
			w.text = append(w.text, '%', hex[c>>4], hex[c&15])
		case c == '"' || c == '\\':
			w.text = append(w.text, '\\', c)
		default:
			w.text = append(w.text, c)
		}
	}
}
