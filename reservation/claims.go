package reservation

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
)

// Claims are what a reservation was asked for: its name and a request that hits. They are
// its identity: who gives the same ID to something else means another reservation. The
// slices are working memory that ReadClaims uses again.
type Claims struct {
	// Options are given with a TTL; without an ID, Append draws one.
	Options
	// Domain is never empty, nor are the Descriptors.
	Domain      string
	Descriptors []Descriptor
	// Attributes are facts about the request from which a rule may take its cost.
	Attributes []descriptor.Entry

	entries []descriptor.Entry // of all descriptors that were read
}

// Descriptor is one list of entries that hits are reserved on, from 0 to limit.MaxQuota.
type Descriptor struct {
	Entries []descriptor.Entry
	Hits    int64
}

// Claims returns the claims of r as Claims.Append wrote them; ReadClaims reads them.
func (r Reservation) Claims() string { return r.claims }

// Append appends c as the claims of a reservation.
func (c *Claims) Append(dst []byte) []byte {
	if c.ID == "" {
		var room [32]byte
		id := appendDrawn(room[:0])
		dst = append(binary.AppendUvarint(dst, uint64(len(id))), id...)
	} else {
		dst = appendText(dst, c.ID)
	}
	dst = binary.AppendUvarint(dst, uint64(c.TTL/time.Millisecond))
	dst = appendText(dst, c.Domain)
	dst = binary.AppendUvarint(dst, uint64(len(c.Descriptors)))
	for i := range c.Descriptors {
		d := &c.Descriptors[i]
		dst = binary.AppendUvarint(dst, uint64(d.Hits))
		dst = appendEntries(dst, d.Entries)
	}
	return appendEntries(dst, c.Attributes)
}

// appendDrawn draws an id of 128 bits that nobody guesses.
func appendDrawn(dst []byte) []byte {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.AppendEncode(dst, b[:])
}

func appendEntries(dst []byte, entries []descriptor.Entry) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(entries)))
	for i := range entries {
		dst = appendText(appendText(dst, entries[i].Key), entries[i].Value)
	}
	return dst
}

func appendText(dst []byte, text string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

// ReadClaims fills c, whose texts are parts of r. What is read can be reserved. Its errors
// wrap ErrMalformed.
func (r Reservation) ReadClaims(c *Claims) error {
	if r.claims == "" {
		return fmt.Errorf("%w: it reserves nothing; hint: Reserve answers so when a request is denied", ErrMalformed)
	}
	in := reader{rest: r.claims}
	c.Descriptors, c.entries, c.Attributes = c.Descriptors[:0], c.entries[:0], c.Attributes[:0]
	c.ID, _ = in.text()
	ms, _ := in.uvarint()
	c.Domain, _ = in.text()
	number, ok := in.uvarint()
	if !ok || number > descriptor.MaxDescriptors {
		return fmt.Errorf("%w: cut short", ErrMalformed)
	}
	for range number {
		hits, _ := in.uvarint()
		first := len(c.entries)
		if c.entries, ok = in.appendEntries(c.entries, descriptor.MaxEntries); !ok {
			return fmt.Errorf("%w: cut short", ErrMalformed)
		}
		c.Descriptors = append(c.Descriptors, Descriptor{
			Entries: c.entries[first:len(c.entries):len(c.entries)], Hits: int64(min(hits, math.MaxInt64)),
		})
	}
	if c.Attributes, ok = in.appendEntries(c.Attributes, maxBytes); !ok || in.rest != "" {
		return fmt.Errorf("%w: cut short, or too long", ErrMalformed)
	}
	c.TTL = time.Duration(min(ms, uint64(math.MaxInt64/time.Millisecond))) * time.Millisecond
	return c.validate()
}

// validate refuses claims that nobody can have made.
func (c *Claims) validate() error {
	if err := c.Options.Validate(); err != nil || c.ID == "" || c.TTL == 0 {
		return fmt.Errorf("%w: no id, or no ttl that is allowed", ErrMalformed)
	}
	if c.Domain == "" || len(c.Descriptors) == 0 {
		return fmt.Errorf("%w: no domain, or no descriptors", ErrMalformed)
	}
	for i := range c.Descriptors {
		d := &c.Descriptors[i]
		if err := descriptor.Validate(d.Entries); err != nil {
			return fmt.Errorf("%w: descriptor %d: %w", ErrMalformed, i, err)
		}
		if d.Hits > limit.MaxQuota {
			return fmt.Errorf("%w: descriptor %d: %d hits; hint: 0 to %d", ErrMalformed, i, d.Hits, int64(limit.MaxQuota))
		}
	}
	return nil
}

// Clear lets go of all texts and keeps the memory.
func (c *Claims) Clear() {
	clear(c.Descriptors)
	clear(c.entries)
	clear(c.Attributes)
	*c = Claims{Descriptors: c.Descriptors[:0], entries: c.entries[:0], Attributes: c.Attributes[:0]}
}

// reader reads parts from the front of rest.
type reader struct{ rest string }

func (r *reader) uvarint() (uint64, bool) {
	var v uint64
	for i := 0; i < len(r.rest) && i < binary.MaxVarintLen64; i++ {
		b := r.rest[i]
		if i == binary.MaxVarintLen64-1 && b > 1 {
			break
		}
		v |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			// There is one way to write a number.
			ok := i == 0 || b != 0
			r.rest = r.rest[i+1:]
			return v, ok
		}
	}
	r.rest = ""
	return 0, false
}

func (r *reader) text() (string, bool) {
	n, ok := r.uvarint()
	if !ok || n > uint64(len(r.rest)) {
		r.rest = ""
		return "", false
	}
	text := r.rest[:n]
	r.rest = r.rest[n:]
	return text, true
}

// appendEntries appends a list of at most so many entries.
func (r *reader) appendEntries(dst []descriptor.Entry, most uint64) ([]descriptor.Entry, bool) {
	n, ok := r.uvarint()
	if !ok || n > most {
		return dst, false
	}
	for range n {
		key, _ := r.text()
		value, ok := r.text()
		if !ok {
			return dst, false
		}
		dst = append(dst, descriptor.Entry{Key: key, Value: value})
	}
	return dst, true
}
