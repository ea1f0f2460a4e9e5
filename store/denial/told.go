package denial

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// toldVersion is the first byte of a denial that nodes tell each other. What begins with
// another is of another version, and passed over.
const toldVersion = 1

// maxTold bounds the times and counts of a denial that is told.
const maxTold = 1 << 53

// nameUnder is the name of the denials of a key under a limit, so that a node that has another
// limit for the key hears nothing. It is a keyed hash, because SHA-256 is asked for a text that begins
// with a secret of fixed length, and all that follows but the key has a fixed length too.
func nameUnder(salt *[16]byte, key []byte, l *limit.Limit) store.SharedName {
	var room [256]byte
	text := append(room[:0], salt[:]...)
	text = appendLimit(text, l)
	text = append(text, key...)
	sum := sha256.Sum256(text)
	return store.SharedName(sum[:16])
}

// appendLimit appends what l decides by, in a fixed length but for the calendar, which
// ends with its own.
func appendLimit(b []byte, l *limit.Limit) []byte {
	number := func(n int64) { b = binary.BigEndian.AppendUint64(b, uint64(n)) }
	number(int64(l.Algorithm))
	for _, n := range []int64{l.Quota, int64(l.Period), l.Burst, int64(l.SubWindows), int64(l.MaxDelay), l.MaxQueue, int64(l.BanFor), int64(l.Carry), l.MaxDebt} {
		number(n)
	}
	flags := int64(0)
	if l.Strict {
		flags |= 1
	}
	if l.CountDenied {
		flags |= 2
	}
	number(flags)
	calendar := ""
	if l.Calendar != nil {
		calendar = string(rune('0'+l.Calendar.Unit)) + l.Calendar.Zone
	}
	number(int64(len(calendar)))
	return append(b, calendar...)
}

// appendDenial appends what nodes tell of e: who tells it, for how long it is remembered,
// and what it says.
func appendDenial(b []byte, teller uint32, e *entry) []byte {
	b = binary.BigEndian.AppendUint32(append(b, toldVersion), teller)
	flags := byte(0)
	if e.decision.Never {
		flags = 1
	}
	b = append(b, flags)
	for _, n := range []int64{
		(e.until - e.sent) / 1000, e.hits, e.decision.Limit, e.decision.Remaining,
		e.decision.RetryAfter.Microseconds(), e.decision.ResetAfter.Microseconds(),
	} {
		b = binary.AppendUvarint(b, uint64(max(n, 0)))
	}
	return b
}

var errTold = errors.New("no denial that a node tells of")

// parseDenial is the inverse of appendDenial. Until is for how long it was remembered, in
// nanoseconds; keys, limit and sent are not told.
func parseDenial(b []byte) (teller uint32, e *entry, err error) {
	if len(b) < 6 || b[0] != toldVersion || b[5] > 1 {
		return 0, nil, errTold
	}
	var numbers [6]int64
	rest := b[6:]
	for i := range numbers {
		n, size := binary.Uvarint(rest)
		if size <= 0 || n > maxTold {
			return 0, nil, errTold
		}
		numbers[i], rest = int64(n), rest[size:]
	}
	if len(rest) > 0 || numbers[0] == 0 || numbers[1] == 0 {
		return 0, nil, errTold
	}
	micros := func(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
	return binary.BigEndian.Uint32(b[1:]), &entry{
		until: int64(micros(numbers[0])), hits: numbers[1],
		decision: limit.Decision{
			Never: b[5] == 1, Limit: numbers[2], Remaining: numbers[3],
			RetryAfter: micros(numbers[4]), ResetAfter: micros(numbers[5]),
		},
	}, nil
}
