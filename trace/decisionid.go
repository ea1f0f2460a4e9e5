package trace

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"time"
)

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
