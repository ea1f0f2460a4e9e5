package inquiry

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
)

// Seal closes what only nodes may read that share a secret, and shows that one of them has written it. Make it
// with NewSeal; it is safe for concurrent use.
type Seal struct{ aead cipher.AEAD }

// errSealed is of what was not closed by the same secret for the same purpose.
var errSealed = errors.New("it is sealed by another secret, or for another purpose")

// sealOverhead is how much longer a text is that is closed, in bytes.
const sealOverhead = 28

// NewSeal returns the Seal of a secret, of which it has a key of its own (HKDF of SHA-256, then AES-256-GCM). A
// secret of no bytes is refused.
func NewSeal(secret []byte) (*Seal, error) {
	if len(secret) == 0 {
		return nil, errors.New("make a seal: the secret is empty")
	}
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

// Close closes a text for a purpose. Purposes are apart where any of their words is.
func (s *Seal) Close(text []byte, purpose ...string) []byte {
	return s.aead.Seal(nil, nil, text, joined(purpose))
}

// Open opens what Close has closed for the same purpose.
func (s *Seal) Open(sealed []byte, purpose ...string) ([]byte, error) {
	text, err := s.aead.Open(nil, nil, sealed, joined(purpose))
	if err != nil {
		return nil, errSealed
	}
	return text, nil
}

// joined returns words as one text, which no other words have: each has its length before it.
func joined(words []string) (text []byte) {
	for _, word := range words {
		text = strconv.AppendInt(text, int64(len(word)), 10)
		text = append(append(text, ':'), word...)
	}
	return text
}

// signed returns what shows that this question was asked under that name by who has the secret.
func (s *Seal) signed(name string, q *Question) []byte {
	return s.Close(nil, q.purpose(name)...)
}

// isSigned reports whether signed has returned the proof of a question.
func (s *Seal) isSigned(name string, q *Question) bool {
	_, err := s.Open(q.Proof, q.purpose(name)...)
	return err == nil
}

// purpose is what the proof of a question is for: all that it says, and its name.
func (q *Question) purpose(name string) []string {
	return []string{"question", name, q.Kind, q.Node, strconv.Itoa(q.Parts), string(q.Body)}
}

// answerPurpose is what an answer is sealed for: who has the answer to one question, or of one node, cannot put
// it up as that to another, or of another.
func answerPurpose(question, kind, node, id string) []string {
	return []string{"answer", question, kind, node, id}
}
