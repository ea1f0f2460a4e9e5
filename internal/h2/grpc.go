package h2

import (
	"encoding/binary"
	"math"
	"time"
)

// prefixSize is the length of what stands before each message: whether it is compressed,
// and how long it is.
const prefixSize = 5

// maxTimeoutDigits is the most digits of a grpc-timeout.
const maxTimeoutDigits = 8

// noTime is a timeout of 0, so that it is not none: nobody waits for the answer.
const noTime = time.Nanosecond

// parseTimeout reads a grpc-timeout: one to eight digits and a unit. A timeout of 0 is
// noTime.
func parseTimeout(text string) (timeout time.Duration, ok bool) {
	digits := len(text) - 1
	if digits < 1 || digits > maxTimeoutDigits {
		return 0, false
	}
	var unit time.Duration
	switch text[digits] {
	case 'H':
		unit = time.Hour
	case 'M':
		unit = time.Minute
	case 'S':
		unit = time.Second
	case 'm':
		unit = time.Millisecond
	case 'u':
		unit = time.Microsecond
	case 'n':
		unit = time.Nanosecond
	default:
		return 0, false
	}
	n := time.Duration(0)
	for i := range digits {
		c := text[i]
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + time.Duration(c-'0')
	}
	if n > math.MaxInt64/unit {
		return math.MaxInt64, true
	}
	return max(n*unit, noTime), true
}

// plainMessage returns the message of a body that is exactly one message which is not
// compressed.
func plainMessage(body []byte) (message []byte, ok bool) {
	if len(body) < prefixSize || body[0] != 0 || uint64(binary.BigEndian.Uint32(body[1:])) != uint64(len(body)-prefixSize) {
		return nil, false
	}
	return body[prefixSize:], true
}

// messages follows a body of several messages as it comes in pieces.
type messages struct {
	prefix [prefixSize]byte
	known  int   // bytes of prefix that have come
	left   int64 // bytes of the message that have not
}

// follow takes the next piece, and reports whether a message that is not empty ended in it.
func (m *messages) follow(piece []byte) (ended bool) {
	for len(piece) > 0 {
		if m.left == 0 {
			n := copy(m.prefix[m.known:], piece)
			m.known, piece = m.known+n, piece[n:]
			if m.known < prefixSize {
				return ended
			}
			m.known, m.left = 0, int64(binary.BigEndian.Uint32(m.prefix[1:]))
			continue
		}
		n := min(m.left, int64(len(piece)))
		m.left, piece = m.left-n, piece[n:]
		ended = ended || m.left == 0
	}
	return ended
}

// appendPrefix appends what stands before a message of that length.
func appendPrefix(dst []byte, length int) []byte {
	return binary.BigEndian.AppendUint32(append(dst, 0), uint32(length))
}

// maxStatus bounds the bytes of a grpc-message.
const maxStatus = 1024

// AppendMessage appends text as a grpc-message is written: what is not printable ASCII,
// and '%', as '%' and two hexadecimal digits. It is cut off after 1,024 bytes.
func AppendMessage(dst []byte, text string) []byte {
	const digits = "0123456789ABCDEF"
	text = text[:min(len(text), maxStatus)]
	for i := range len(text) {
		if c := text[i]; c >= 0x20 && c <= 0x7e && c != '%' {
			dst = append(dst, c)
		} else {
			dst = append(dst, '%', digits[c>>4], digits[c&15])
		}
	}
	return dst
}
