// Package keyname names the keys that limits count by: in words for those who may see
// them, and by a keyed hash for all others.
//
// A key is the entries of a descriptor that a limit counts by. Its text is that of
// descriptor.Format: printable, on one line, whatever bytes a request has brought.
package keyname

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/credentials"
)

// MaxText bounds the text of a key in bytes.
const MaxText = maxHead + len(cut) + 2*cutHash

// A text of more than maxHead bytes is cut there; cut stands after it, and the first
// cutHash bytes of the SHA-256 of the key in hexadecimal, so that it still names one key.
const (
	maxHead = 512
	cut     = "…"
	cutHash = 8
)

// AppendText appends the text of a key, at most MaxText bytes. Equal texts are of equal
// keys.
func AppendText(dst []byte, entries []descriptor.Entry) []byte {
	from := len(dst)
	for i := range entries {
		if i > 0 {
			dst = append(dst, ',')
		}
		e := entries[i]
		e.Key, e.Value = head(e.Key), head(e.Value)
		dst = descriptor.AppendText(dst, []descriptor.Entry{e})
		if len(dst)-from > maxHead {
			return appendCut(dst, from, entries)
		}
	}
	return dst
}

// OfBucket returns the domain and the text of the key that the bucket with that name in a
// store counts by, with "sha256:" and hexadecimal digits in the place of a long value; ""
// of a name that is none.
func OfBucket(bucket []byte) (domain, text string) {
	key, err := descriptor.DecodeKey(bucket)
	if err != nil {
		return "", ""
	}
	var entries []descriptor.Entry
	for _, e := range key.Entries {
		entries = append(entries, descriptor.Entry{Key: e.Key.String(), Value: e.Value.String()})
	}
	return key.Domain.String(), string(AppendText(nil, entries))
}

// appendCut cuts the text since from.
func appendCut(dst []byte, from int, entries []descriptor.Entry) []byte {
	end := from + maxHead
	for !utf8.RuneStart(dst[end]) {
		end--
	}
	sum := sha256.Sum256(descriptor.AppendKey(nil, descriptor.KindRule, "", entries, 0))
	return hex.AppendEncode(append(dst[:end], cut...), sum[:cutHash])
}

// head returns so much of s that its text is too long if s is.
func head(s string) string { return s[:min(len(s), maxHead+utf8.UTFMax)] }

// HashLength is the length of what Hasher.Hash returns.
const HashLength = identity.HashLength

// Hasher names keys by a keyed hash. It is safe for concurrent use. Make one with
// NewHasher or Random.
type Hasher struct{ hasher *identity.Hasher }

// NewHasher returns a Hasher with a key of identity.MinHashKey bytes or more. Nodes with
// the same key give the same names.
func NewHasher(key identity.Secret) (*Hasher, error) {
	h, err := identity.NewHasher(key)
	if err != nil {
		return nil, err
	}
	return &Hasher{h}, nil
}

// ReadHasher returns a Hasher with the key in a file. The ends of lines after the key are no part
// of it.
func ReadHasher(path string) (*Hasher, error) {
	key, err := credentials.ReadFile("key file", path)
	if err != nil {
		return nil, err
	}
	h, err := NewHasher(identity.NewSecret(strings.TrimRight(string(key), "\r\n")))
	if err != nil {
		return nil, fmt.Errorf("%s: the key is too short; hint: `openssl rand -base64 32` makes one", path)
	}
	return h, nil
}

// Random returns a Hasher whose names nobody else gives.
func Random() *Hasher {
	var key [32]byte
	rand.Read(key[:]) // never fails
	h, err := NewHasher(identity.NewSecret(base64.RawStdEncoding.EncodeToString(key[:])))
	if err != nil {
		panic(err) // the key is long enough
	}
	return h
}

// Hash returns the name of the key with this text in a domain: HashLength
// letters, digits, "-" and "_".
func (h *Hasher) Hash(domain, text string) string { return h.hasher.Hash("key:"+domain, text) }

// HashValue returns the name of a value of an entry in a domain: that of the key which is this
// entry alone, so that one can be found by the other. That of an empty value is empty.
func (h *Hasher) HashValue(domain string, e descriptor.Entry) string {
	if e.Value == "" {
		return ""
	}
	return h.Hash(domain, descriptor.Format([]descriptor.Entry{{Key: Bounded(e.Key), Value: Bounded(e.Value)}}))
}

// Bounded returns s or, where it is longer than descriptor.MaxInline, "sha256:" and the
// hexadecimal digits of its SHA-256, as OfBucket has it.
func Bounded(s string) string {
	if len(s) <= descriptor.MaxInline {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return descriptor.KeyString{Text: string(sum[:]), Hashed: true}.String()
}
