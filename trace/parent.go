package trace

import "encoding/hex"

// Parent names a span of a trace (W3C Trace Context, level 1). The zero value names none.
type Parent struct {
	ID   [16]byte
	Span [8]byte
	// Sampled says that the caller records the trace.
	Sampled bool
}

// IsZero reports whether p names no trace.
func (p Parent) IsZero() bool { return p.ID == [16]byte{} }

// Lengths of the fields of the header field traceparent, version 00.
const (
	traceparentLength = 55
	traceIDAt         = 3
	spanIDAt          = 36
	flagsAt           = 53
)

// ParseParent reads the header field traceparent. ok is false for what no
// trace is named by: a malformed field, version ff, or an ID of zeros. A later version
// than 00 may be longer, and is read by its first fields, as the standard asks.
func ParseParent(text string) (p Parent, ok bool) {
	if len(text) < traceparentLength || text[2] != '-' || text[spanIDAt-1] != '-' || text[flagsAt-1] != '-' {
		return Parent{}, false
	}
	version, flags := [1]byte{}, [1]byte{}
	if !lowerHex(version[:], text[:2]) || version[0] == 0xff ||
		!lowerHex(p.ID[:], text[traceIDAt:spanIDAt-1]) || !lowerHex(p.Span[:], text[spanIDAt:flagsAt-1]) || !lowerHex(flags[:], text[flagsAt:traceparentLength]) {
		return Parent{}, false
	}
	if rest := text[traceparentLength:]; rest != "" && (version[0] == 0 || rest[0] != '-') {
		return Parent{}, false
	}
	p.Sampled = flags[0]&1 != 0
	if p.IsZero() || p.Span == [8]byte{} {
		return Parent{}, false
	}
	return p, true
}

// ParentOf returns what the values of the header field traceparent name; the zero value
// where there is no such field, several, or one that ParseParent does not read.
func ParentOf(traceparent []string) Parent {
	if len(traceparent) != 1 {
		return Parent{}
	}
	p, _ := ParseParent(traceparent[0])
	return p
}

// Traceparent returns p as the header field traceparent names it, in version 00; "" for
// the zero value.
func (p Parent) Traceparent() string {
	if p.IsZero() {
		return ""
	}
	text := make([]byte, 0, traceparentLength)
	text = hex.AppendEncode(append(text, "00-"...), p.ID[:])
	text = hex.AppendEncode(append(text, '-'), p.Span[:])
	if p.Sampled {
		return string(append(text, "-01"...))
	}
	return string(append(text, "-00"...))
}

// lowerHex decodes text, hexadecimal digits in lower case, into dst, which has half its
// length.
func lowerHex(dst []byte, text string) bool {
	for i := range dst {
		high, low := hexDigit(text[2*i]), hexDigit(text[2*i+1])
		if high < 0 || low < 0 {
			return false
		}
		dst[i] = byte(high<<4 | low)
	}
	return true
}

func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	}
	return -1
}
