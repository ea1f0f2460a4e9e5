package limit

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"strconv"
)

// Hold names a request that holds slots. NewHold draws one, HoldOf takes that of an id:
// two requests with one Hold share a slot. It is from 1 to MaxHold; 0 is nobody.
type Hold uint64

// MaxHold is the largest Hold: 2^53-1, so that a Lua number holds it.
const MaxHold = 1<<53 - 1

func (h Hold) valid() bool { return h > 0 && h <= MaxHold }

// holdDigits is the length of the text of a Hold: MaxHold in base 16.
const holdDigits = 14

// NewHold draws a Hold from the system's source of randomness: 53 bits that
// nobody guesses. Whoever knows a Hold can release what it holds.
func NewHold() Hold {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return Hold(1 + binary.LittleEndian.Uint64(b[:])%MaxHold)
}

// HoldText returns the text of h, by which HoldOf finds it again: 14 hexadecimal
// digits in lower case.
func HoldText(h Hold) string {
	digits := strconv.FormatUint(uint64(h), 16)
	return "00000000000000"[min(len(digits), holdDigits):] + digits
}

// HoldOf returns the Hold that an id names: that of HoldText, and for any other
// text 53 bits of its SHA-256. The empty text is nobody's, 0. Whoever chooses ids
// answers for them: two requests with one id share a slot.
func HoldOf(id string) Hold {
	if id == "" {
		return 0
	}
	if h, ok := parseHold(id); ok {
		return h
	}
	var space [64]byte // ids are short as a rule; a longer one allocates
	sum := sha256.Sum256(append(space[:0], id...))
	return Hold(1 + binary.BigEndian.Uint64(sum[:])%MaxHold)
}

// parseHold reads the text of a Hold.
func parseHold(id string) (Hold, bool) {
	if len(id) != holdDigits {
		return 0, false
	}
	var n uint64
	for i := range len(id) {
		switch c := id[i]; {
		case c >= '0' && c <= '9':
			n = n<<4 | uint64(c-'0')
		case c >= 'a' && c <= 'f':
			n = n<<4 | uint64(c-'a'+10)
		default:
			return 0, false
		}
	}
	return Hold(n), Hold(n).valid()
}
