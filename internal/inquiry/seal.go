package inquiry

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
)

// Seal closes what only nodes may read that share a secret. Make it with NewSeal; it is safe for concurrent
// use.
type Seal struct{ aead cipher.AEAD }

// errSealed is of what was not closed by the same secret for the same purpose.
var errSealed = errors.New("it is sealed by another secret")

// NewSeal returns the Seal of a secret, of which it has a key of its own (HKDF of SHA-256, then AES-256-GCM).
func NewSeal(secret []byte) (*Seal, error) {
	key, err := hkdf.Key(sha256.New, secret, nil, "headgate: answers of a node to others, 1", 32)
	if err != nil {
		return nil, fmt.Errorf("make a seal: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("make a seal: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("make a seal: %w", err)
	}
	return &Seal{aead}, nil
}

// Overhead is how much longer a text is that is closed, in bytes.
func (s *Seal) Overhead() int { return s.aead.Overhead() }

// Close closes a text for a purpose.
func (s *Seal) Close(purpose string, text []byte) []byte {
	return s.aead.Seal(nil, nil, text, []byte(purpose))
}

// Open opens what Close has closed for the same purpose.
func (s *Seal) Open(purpose string, sealed []byte) ([]byte, error) {
	text, err := s.aead.Open(nil, nil, sealed, []byte(purpose))
	if err != nil {
		return nil, errSealed
	}
	return text, nil
}
