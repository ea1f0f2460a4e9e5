package identity

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash"
	"sync"
)

const (
	// MaxSecret bounds the bytes of an API key, a cookie or a secret header.
	MaxSecret = 1024
	// MinHashKey is the least length of the key of a Hasher, in bytes.
	MinHashKey = 16
	// HashLength is the length of a hashed secret: 128 bits in base64url.
	HashLength = 22

	hashBytes = 16
	redacted  = "[redacted]"
)

// IsHash reports whether text may be the name that a Hasher makes of a secret. It may be
// something else that looks like one, too, such as a key of 128 bits.
func IsHash(text string) bool {
	if len(text) != HashLength {
		return false
	}
	var sum [hashBytes]byte
	n, err := base64.RawURLEncoding.Strict().Decode(sum[:], []byte(text))
	return err == nil && n == hashBytes
}

// Secret is text that must not be seen. It prints as "[redacted]" by every verb
// of fmt, in JSON, in YAML and in logs, also deep inside of other values. The
// zero value is an empty secret.
type Secret struct {
	// The text is behind a pointer because fmt asks fields that are not exported
	// neither for String nor for Format, but does not follow a pointer there.
	text *string
}

// NewSecret makes a secret of text.
func NewSecret(text string) Secret { return Secret{text: &text} }

// Reveal returns the text.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// String returns "[redacted]".
func (s Secret) String() string { return redacted }

// GoString returns "[redacted]".
func (s Secret) GoString() string { return redacted }

// Format writes "[redacted]", whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) {
	// A formatter has nobody to tell that its writer failed.
	_, _ = f.Write([]byte(redacted))
}

// MarshalText returns "[redacted]".
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// UnmarshalText takes the text, so that a secret can stand in a configuration.
func (s *Secret) UnmarshalText(text []byte) error {
	*s = NewSecret(string(text))
	return nil
}

// Hasher makes secrets into names: the first 128 bits of their HMAC-SHA-256, in
// base64url. Equal secrets get equal names; without the key nobody can tell the
// secret of a name, nor try guesses. All nodes need the same key, and whoever
// stores quotas by hashed API key needs it too. Another key gives every client a
// new name, and so fresh counters.
//
// A Hasher is safe for concurrent use.
type Hasher struct {
	states sync.Pool
}

// hashState is the scratch memory of one hash.
type hashState struct {
	mac  hash.Hash
	text []byte
	sum  [sha256.Size]byte
}

// NewHasher takes a key of MinHashKey bytes or more; 32 random bytes are best.
func NewHasher(key Secret) (*Hasher, error) {
	if n := len(key.Reveal()); n < MinHashKey {
		return nil, &ConfigError{Field: "Hasher key", Problem: fmt.Sprintf("%d bytes", n), Hint: fmt.Sprintf("give at least %d random bytes, the same on every node", MinHashKey)}
	}
	h := &Hasher{}
	h.states.New = func() any {
		return &hashState{mac: hmac.New(sha256.New, []byte(key.Reveal()))}
	}
	return h, nil
}

// APIKey returns the name of an API key: the value of the entry "api_key".
func (h *Hasher) APIKey(key string) string { return h.Hash(string(KindAPIKey), key) }

// Hash returns the name of a secret. Equal secrets under different labels get
// different names.
func (h *Hasher) Hash(label, secret string) string {
	s := h.states.Get().(*hashState)
	s.text = binary.AppendUvarint(s.text[:0], uint64(len(label)))
	s.text = append(append(s.text, label...), secret...)
	s.mac.Reset()
	s.mac.Write(s.text)
	s.mac.Sum(s.sum[:0])
	var name [HashLength]byte
	base64.RawURLEncoding.Encode(name[:], s.sum[:hashBytes])
	clear(s.text)
	if cap(s.text) <= 4*MaxSecret {
		h.states.Put(s)
	}
	return string(name[:])
}
