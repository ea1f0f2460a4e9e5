package descriptor

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"
)

// Kind says whose bucket a key names. Keys of different kinds never meet.
type Kind byte

const (
	// KindRule is a bucket of a rule that entries reach.
	KindRule Kind = 1 + iota
	// KindAlways is a bucket of a rule that applies to every request.
	KindAlways
	// KindCaller is a bucket of a limit that the caller named; its ordinal is the length
	// of the window in milliseconds, 0 where the entries tell windows apart.
	KindCaller
	// KindTenant is a bucket of a quota that a tenant has; its ordinal is the
	// length of the window in seconds.
	KindTenant
	// KindReservation is a mark on a reservation: that it was made, or settled.
	KindReservation
	// KindTopUp is a bucket of a top-up: its entries are the tenant and the ID of the
	// top-up. It has no domain: what a tenant was granted, it has once.
	KindTopUp
	// KindPool is a bucket of the burst pool that a tenant has: its entries are the
	// tenant, and for the share of a key the entry with it. It has no domain.
	KindPool
	// KindCheck is no bucket but the answer to a check that carries an id.
	KindCheck
)

// KindReference is set in the kind of a bucket that counts what another one lets pass,
// to tell how exact that is: such as KindReference|KindRule.
const KindReference Kind = 1 << 7

// MaxInline is the longest string that stands in a key as it is. A longer one
// is replaced by its SHA-256, which has a length byte of its own so that no
// plain string looks like it.
const MaxInline = 128

// MaxKeyLength bounds the bytes of a key whose descriptor is valid, one level
// of a rule at the end included: 8.2 KiB.
const MaxKeyLength = 2 + maxString + MaxEntries*(1+2*maxString) + 1 + binary.MaxVarintLen64

const (
	keyVersion = 1
	maxString  = 1 + MaxInline

	// Tags stand before each part of a key.
	tagEnd     = 0
	tagEntry   = 1
	tagPattern = 2

	// hashedLength stands in place of the length of a hashed string.
	hashedLength = 0xff
)

// A key is written in three steps, so that nothing has to be collected first:
//
//	dst = AppendKeyStart(dst, KindRule, domain)
//	dst = AppendKeyEntry(dst, entry)              // any number of times
//	dst = AppendKeyEnd(dst, ordinal)
//
// The layout is: version 1, kind, string domain, { 1, string key, string value
// | 2, string key, string pattern }, 0, uvarint ordinal. A string is one byte
// of length and as many bytes, or 255 and the 32 bytes of its SHA-256. Every
// part says where it ends, so two keys are equal only if all parts are.

// AppendKeyStart appends the head of a bucket's key.
func AppendKeyStart(dst []byte, kind Kind, domain string) []byte {
	dst = append(dst, keyVersion, byte(kind))
	return appendString(dst, domain)
}

// AppendKeyEntry appends an entry.
func AppendKeyEntry(dst []byte, e Entry) []byte {
	dst = append(dst, tagEntry)
	dst = appendString(dst, e.Key)
	return appendString(dst, e.Value)
}

// AppendKeyPattern appends an entry whose values share a bucket: the pattern
// that they match stands in their place, and never equals a value.
func AppendKeyPattern(dst []byte, key, pattern string) []byte {
	dst = append(dst, tagPattern)
	dst = appendString(dst, key)
	return appendString(dst, pattern)
}

// AppendKeyEnd appends the tail of a key: the position of the limit in its
// rule, or what else tells the limits of one name apart.
func AppendKeyEnd(dst []byte, ordinal int) []byte {
	dst = append(dst, tagEnd)
	return binary.AppendUvarint(dst, uint64(ordinal))
}

// AppendReferenceKey appends the key of the reference of the bucket with that key, which
// the functions above have made.
func AppendReferenceKey(dst, key []byte) []byte {
	kind := len(dst) + 1 // after the version
	dst = append(dst, key...)
	dst[kind] |= byte(KindReference)
	return dst
}

// AppendKey appends a whole key.
func AppendKey(dst []byte, kind Kind, domain string, entries []Entry, ordinal int) []byte {
	dst = AppendKeyStart(dst, kind, domain)
	for i := range entries {
		dst = AppendKeyEntry(dst, entries[i])
	}
	return AppendKeyEnd(dst, ordinal)
}

func appendString(dst []byte, s string) []byte {
	if len(s) > MaxInline {
		return appendHashed(dst, s)
	}
	dst = append(dst, byte(len(s)))
	return append(dst, s...)
}

func appendHashed(dst []byte, s string) []byte {
	// A conversion to []byte would copy a value of up to 64 KiB to the heap for
	// each decision; Sum256 only reads it.
	sum := sha256.Sum256(unsafe.Slice(unsafe.StringData(s), len(s)))
	dst = append(dst, hashedLength)
	return append(dst, sum[:]...)
}

// Key is a decoded key, for tools and tests.
type Key struct {
	Kind    Kind
	Domain  KeyString
	Entries []KeyEntry
	// Ordinal is the position of the limit in its rule; see KindTenant.
	Ordinal uint64
}

// KeyEntry is one entry of a decoded key.
type KeyEntry struct {
	Key, Value KeyString
	// Pattern says that Value is a pattern whose values share the bucket.
	Pattern bool
}

// KeyString is a string of a decoded key, or the hash in its place.
type KeyString struct {
	// Text is the string; when Hashed is set, the 32 bytes of its SHA-256.
	Text   string
	Hashed bool
}

// String returns the text, or the hash as "sha256:" and hexadecimal digits.
func (s KeyString) String() string {
	if s.Hashed {
		return fmt.Sprintf("sha256:%x", s.Text)
	}
	return s.Text
}

// ErrKey is wrapped by the errors of DecodeKey.
var ErrKey = errors.New("decode key")

// DecodeKey is the inverse of the encoding: it accepts exactly the bytes that
// the Append functions make.
func DecodeKey(data []byte) (Key, error) {
	r := keyReader{data: data}
	var k Key
	if v := r.byte(); v != keyVersion && r.err == nil {
		return Key{}, fmt.Errorf("%w: version %d; hint: this program knows version %d", ErrKey, v, keyVersion)
	}
	k.Kind = Kind(r.byte())
	k.Domain = r.string()
	for tag := r.byte(); tag != tagEnd && r.err == nil; tag = r.byte() {
		if tag != tagEntry && tag != tagPattern {
			return Key{}, fmt.Errorf("%w: unknown tag %d", ErrKey, tag)
		}
		e := KeyEntry{Pattern: tag == tagPattern}
		e.Key, e.Value = r.string(), r.string()
		k.Entries = append(k.Entries, e)
	}
	k.Ordinal = r.uvarint()
	if r.err != nil {
		return Key{}, r.err
	}
	if len(r.data) > 0 {
		return Key{}, fmt.Errorf("%w: %d bytes after its end", ErrKey, len(r.data))
	}
	return k, nil
}

// keyReader reads parts from the front of data until one does not fit.
type keyReader struct {
	data []byte
	err  error
}

func (r *keyReader) take(n int) []byte {
	if r.err != nil || len(r.data) < n {
		r.fail("cut short")
		return nil
	}
	part := r.data[:n]
	r.data = r.data[n:]
	return part
}

func (r *keyReader) fail(reason string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrKey, reason)
	}
}

func (r *keyReader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *keyReader) string() KeyString {
	n := r.byte()
	switch {
	case n == hashedLength:
		return KeyString{Text: string(r.take(sha256.Size)), Hashed: true}
	case n > MaxInline:
		r.fail(fmt.Sprintf("string of %d bytes", n))
		return KeyString{}
	}
	return KeyString{Text: string(r.take(int(n)))}
}

// uvarint refuses padded forms: there is one encoding of each number.
func (r *keyReader) uvarint() uint64 {
	if r.err != nil {
		return 0
	}
	v, n := binary.Uvarint(r.data)
	if n <= 0 || n > 1 && r.data[n-1] == 0 {
		r.fail("malformed ordinal")
		return 0
	}
	r.data = r.data[n:]
	return v
}
