package headgate

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/netip"
	"time"
)

// Origin is what is known of who sent a request, for those who watch decisions. Nothing
// is decided by it. The zero value is that of a request of which nothing is known.
type Origin struct {
	// ClientIP is the address of the client; the zero value where it is not known.
	ClientIP netip.Addr
	// UserAgent is what the client calls itself: any bytes, of any length.
	UserAgent string
	// Trace is the trace that the request is part of.
	Trace Trace
	// Front names the way in by which the request came: the name of a Door. "" is a
	// call inside of the program.
	Front string
}

// Trace names a span of a trace (W3C Trace Context, level 1). The zero value names none.
type Trace struct {
	ID   [16]byte
	Span [8]byte
	// Sampled says that the caller records the trace.
	Sampled bool
}

// IsZero reports whether t names no trace.
func (t Trace) IsZero() bool { return t.ID == [16]byte{} }

// Lengths of the fields of the header field traceparent, version 00.
const (
	traceparentLength = 55
	traceIDAt         = 3
	spanIDAt          = 36
	flagsAt           = 53
)

// ParseTraceparent reads the header field traceparent. ok is false for what no
// trace is named by: a malformed field, version ff, or an ID of zeros. A later version
// than 00 may be longer, and is read by its first fields, as the standard asks.
func ParseTraceparent(text string) (t Trace, ok bool) {
	if len(text) < traceparentLength || text[2] != '-' || text[spanIDAt-1] != '-' || text[flagsAt-1] != '-' {
		return Trace{}, false
	}
	version, flags := [1]byte{}, [1]byte{}
	if !lowerHex(version[:], text[:2]) || version[0] == 0xff ||
		!lowerHex(t.ID[:], text[traceIDAt:spanIDAt-1]) || !lowerHex(t.Span[:], text[spanIDAt:flagsAt-1]) || !lowerHex(flags[:], text[flagsAt:traceparentLength]) {
		return Trace{}, false
	}
	if rest := text[traceparentLength:]; rest != "" && (version[0] == 0 || rest[0] != '-') {
		return Trace{}, false
	}
	t.Sampled = flags[0]&1 != 0
	if t.IsZero() || t.Span == [8]byte{} {
		return Trace{}, false
	}
	return t, true
}

// TraceOf returns the trace that the values of the header field traceparent name; none
// where there is no such field, several, or one that ParseTraceparent does not read.
func TraceOf(traceparent []string) Trace {
	if len(traceparent) != 1 {
		return Trace{}
	}
	t, _ := ParseTraceparent(traceparent[0])
	return t
}

// Traceparent returns t as the header field traceparent names it, in version 00; "" for
// the zero value.
func (t Trace) Traceparent() string {
	if t.IsZero() {
		return ""
	}
	text := make([]byte, 0, traceparentLength)
	text = hex.AppendEncode(append(text, "00-"...), t.ID[:])
	text = hex.AppendEncode(append(text, '-'), t.Span[:])
	if t.Sampled {
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

// DecisionID names a decision towards whoever looks it up later. The zero value names
// none. It is a UUID of version 7 (RFC 9562): it begins with its time in milliseconds,
// so that IDs sort by time.
type DecisionID [16]byte

// NewDecisionID returns an ID of the time now, unlike all others: 74 of its bits are
// random.
func NewDecisionID(now time.Time) DecisionID {
	var id DecisionID
	binary.BigEndian.PutUint64(id[:], uint64(now.UnixMilli())<<16|rand.Uint64()&0x0fff|0x7000)
	binary.BigEndian.PutUint64(id[8:], rand.Uint64()&^(3<<62)|2<<62)
	return id
}

// IsZero reports whether id names no decision.
func (id DecisionID) IsZero() bool { return id == DecisionID{} }

// String returns id as UUIDs are written; "" for the zero value.
func (id DecisionID) String() string {
	if id.IsZero() {
		return ""
	}
	return string(id.AppendText(nil))
}

// decisionIDDashes are where dashes stand in a UUID, in bytes of the ID.
var decisionIDDashes = [...]int{4, 6, 8, 10}

// AppendText appends id as UUIDs are written.
func (id DecisionID) AppendText(dst []byte) []byte {
	from := 0
	for _, to := range decisionIDDashes {
		dst = append(hex.AppendEncode(dst, id[from:to]), '-')
		from = to
	}
	return hex.AppendEncode(dst, id[from:])
}

// ParseDecisionID reads what String returns.
func ParseDecisionID(text string) (id DecisionID, ok bool) {
	if len(text) != 2*len(id)+len(decisionIDDashes) {
		return DecisionID{}, false
	}
	from := 0
	for _, to := range append(decisionIDDashes[:], len(id)) {
		if n := 2 * (to - from); !lowerHex(id[from:to], text[:n]) || to < len(id) && text[n] != '-' {
			return DecisionID{}, false
		} else if to < len(id) {
			text = text[n+1:]
		}
		from = to
	}
	return id, !id.IsZero()
}
