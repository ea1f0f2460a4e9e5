package repeat

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/headgate/headgate/descriptor"
)

const (
	// MaxID is the longest id of a check, in bytes. It is hashed, so its length costs
	// nothing to remember.
	MaxID = 256
	// DefaultLifetime is for how long an answer is remembered where nobody says else.
	DefaultLifetime = time.Minute
	// MinLifetime and MaxLifetime are its bounds.
	MinLifetime, MaxLifetime = time.Second, time.Hour
	// MaxSlotDenied is for how long a denial for want of a slot is remembered at most: one
	// may be free at any moment.
	MaxSlotDenied = time.Second
)

// Lifetime returns d within the bounds, and the default for 0.
func Lifetime(d time.Duration) time.Duration {
	return min(max(cmp.Or(d, DefaultLifetime), MinLifetime), MaxLifetime)
}

// Errors of a check with an id. Nothing was decided or charged.
var (
	// ErrID: no id can be that.
	ErrID = errors.New("malformed check id")
	// ErrConflict: the id belongs to another check of the same descriptors.
	ErrConflict = errors.New("the id belongs to another check")
	// ErrNoStore: the store keeps no answers.
	ErrNoStore = errors.New("the store remembers no answers; hint: leave the id out, or use memory, Redis or memcached")
)

// ValidateID refuses what is no id. "" is none, and so valid.
func ValidateID(id string) error {
	if len(id) > MaxID {
		return fmt.Errorf("%w: %d bytes; hint: at most %d, any bytes; hash longer ones", ErrID, len(id), MaxID)
	}
	return nil
}

// AppendKey appends the key under which the answer to a check is remembered. about is what
// the check is about: the entries of its descriptors as AppendEntries writes them. So an id
// is one of that: who checks something else by the same id, or is another customer, means
// another check.
func AppendKey(dst []byte, domain, id string, about []byte) []byte {
	sum := sha256.Sum256(about)
	dst = descriptor.AppendKeyStart(dst, descriptor.KindCheck, domain)
	dst = descriptor.AppendKeyEntry(dst, descriptor.Entry{Key: "id", Value: id})
	dst = descriptor.AppendKeyEntry(dst, descriptor.Entry{Key: "about", Value: string(sum[:])})
	return descriptor.AppendKeyEnd(dst, 0)
}

// AppendEntries appends the entries of one descriptor, or other facts, so that no others
// look the same.
func AppendEntries(dst []byte, entries []descriptor.Entry) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(entries)))
	for i := range entries {
		dst = appendText(appendText(dst, entries[i].Key), entries[i].Value)
	}
	return dst
}

func appendText(dst []byte, text string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

// Fingerprint tells checks apart that have a key in common: it is of all else that a check
// asks for.
type Fingerprint [16]byte

// FingerprintOf returns that of text.
func FingerprintOf(text []byte) Fingerprint {
	sum := sha256.Sum256(text)
	return Fingerprint(sum[:])
}

// The first byte of what is remembered.
const (
	kindClaim  = 'c'
	kindAnswer = 'a'
)

const (
	tokenBytes = 16
	claimBytes = 1 + len(Fingerprint{}) + tokenBytes
)

// AppendClaim appends a claim on a check: who makes it goes on to decide. No two are equal.
func AppendClaim(dst []byte, f Fingerprint) []byte {
	var token [tokenBytes]byte
	rand.Read(token[:]) // never fails
	dst = slices.Grow(dst, claimBytes)
	return append(append(append(dst, kindClaim), f[:]...), token[:]...)
}

// State is what stands under the key of a check.
type State uint8

const (
	// Foreign: nothing that this package has written (the zero value).
	Foreign State = iota
	// Claimed: somebody has begun to decide.
	Claimed
	// Answered: there is an answer.
	Answered
	// Conflicting: the check is another one, claimed or answered.
	Conflicting
)

// StateOf returns what text is towards a check with that fingerprint.
func StateOf(text []byte, f Fingerprint) State {
	if len(text) < 1+len(f) {
		return Foreign
	}
	state := Foreign
	switch {
	case text[0] == kindClaim && len(text) == claimBytes:
		state = Claimed
	case text[0] == kindAnswer:
		state = Answered
	default:
		return Foreign
	}
	if Fingerprint(text[1:1+len(f)]) != f {
		return Conflicting
	}
	return state
}
