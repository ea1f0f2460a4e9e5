package headgate

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
)

// Bounds of a Reservation.
const (
	// DefaultReservationTTL is how long a reservation may be settled, unless it says
	// otherwise; MinReservationTTL and MaxReservationTTL bound what it may say.
	DefaultReservationTTL = 5 * time.Minute
	MinReservationTTL     = time.Second
	MaxReservationTTL     = time.Hour
	// MaxReservationID bounds the bytes of the id of a reservation.
	MaxReservationID = 128
	// MaxReservationLength bounds the text of a reservation: it goes along with
	// requests, in headers too.
	MaxReservationLength = 4 << 10
)

var (
	// ErrReservation is wrapped by the errors of what is no reservation, or cannot
	// become one.
	ErrReservation = errors.New("malformed reservation")
	// ErrExpired is returned for a reservation that was not settled in time.
	ErrExpired = errors.New("reservation has expired; hint: what it reserved counts as used; commit earlier, or reserve with a longer ttl")
)

// Reservation is what Reserve has charged in advance, to be settled once by Commit or
// Cancel. It is a value that holds all that this takes, so that any Limiter on the
// same store and rules can settle it; String and ParseReservation carry it there. The
// zero value reserves nothing and cannot be settled.
//
// A Reservation is no secret and not signed: what it claims to have charged counts
// only if the store remembers that it was made. Whoever knows its id and what was
// asked for can settle it.
type Reservation struct {
	// claims are what was asked for, see appendClaims.
	claims string
	// charged are the buckets that were charged, see appendCharge.
	charged string
	// expires is in milliseconds since 1970; 0 where only the store knows.
	expires int64
}

// A reservation is written as: version 1, uvarint length of the claims, claims,
// uvarint expiry, charges up to the end. In it a text is its uvarint length and its
// bytes, and
//
//	claims:     text id, uvarint ttl in ms, text domain, list of descriptors, list of attributes
//	descriptor: uvarint hits, list of entries
//	entry, attribute: text key, text value
//	list:       uvarint number, elements
//	charge:     4 bytes of the hash of a bucket's key, uvarint hits
const reservationVersion = 1

// maxReservation bounds the bytes that MaxReservationLength holds in base64.
const maxReservation = MaxReservationLength / 4 * 3

// maxChargeLength bounds one charge: four bytes and MaxQuota.
const maxChargeLength = 4 + 8

// ID is the id that was given to Reserve, or that it drew; "" of the zero value.
func (r Reservation) ID() string {
	id, _ := (&claimReader{rest: r.claims}).text()
	return id
}

// Expires is the instant from which r cannot be settled any more, in whole
// milliseconds by the clock of the Limiter that made it. It is the zero time where it
// is not known (ReservationOf).
func (r Reservation) Expires() time.Time {
	if r.expires == 0 {
		return time.Time{}
	}
	return time.UnixMilli(r.expires)
}

// String returns r as text for ParseReservation: letters, digits, '-' and '_', at most
// MaxReservationLength; "" for the zero value.
func (r Reservation) String() string {
	if r.claims == "" {
		return ""
	}
	b := make([]byte, 0, len(r.claims)+len(r.charged)+2+2*binary.MaxVarintLen64)
	b = append(b, reservationVersion)
	b = appendText(b, r.claims)
	b = binary.AppendUvarint(b, uint64(r.expires))
	b = append(b, r.charged...)
	return base64.RawURLEncoding.EncodeToString(b)
}

// ParseReservation reads what String wrote. Its errors wrap ErrReservation.
func ParseReservation(text string) (Reservation, error) {
	if len(text) > MaxReservationLength {
		return Reservation{}, fmt.Errorf("%w: %d bytes; hint: at most %d", ErrReservation, len(text), MaxReservationLength)
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return Reservation{}, fmt.Errorf("%w: %v; hint: send what was answered, as it is", ErrReservation, err)
	}
	if len(b) == 0 || b[0] != reservationVersion {
		return Reservation{}, fmt.Errorf("%w: unknown version; hint: this program knows version %d", ErrReservation, reservationVersion)
	}
	in := claimReader{rest: string(b[1:])}
	var r Reservation
	var ok [2]bool
	var expires uint64
	r.claims, ok[0] = in.text()
	expires, ok[1] = in.uvarint()
	if !ok[0] || !ok[1] || expires == 0 || expires > math.MaxInt64 {
		return Reservation{}, fmt.Errorf("%w: cut short", ErrReservation)
	}
	r.expires, r.charged = int64(expires), in.rest
	var c claims
	if err := c.read(r.claims); err != nil {
		return Reservation{}, err
	}
	for rest := r.charged; rest != ""; {
		if _, rest, err = cutCharge(rest); err != nil {
			return Reservation{}, err
		}
	}
	return r, nil
}

// newReservationID draws 128 bits that nobody guesses.
func newReservationID(dst []byte) []byte {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.AppendEncode(dst, b[:])
}

// What a mark says of a reservation: that it was made, or settled. They are the
// ordinals of their keys.
const (
	markMade = iota
	markSettled
)

// appendMarkKey appends the key of a mark on the reservation with those claims. All of
// them are its identity: who gives the same id to something else means another one.
func appendMarkKey(dst []byte, domain string, claims []byte, mark int) []byte {
	sum := sha256.Sum256(claims)
	dst = descriptor.AppendKeyStart(dst, descriptor.KindReservation, domain)
	dst = descriptor.AppendKeyEntry(dst, descriptor.Entry{Key: "reservation", Value: string(sum[:])})
	return descriptor.AppendKeyEnd(dst, mark)
}

// clockSkew is how far apart the clocks of nodes and store may be: the store remembers
// a reservation for that much longer than its ttl.
const clockSkew = time.Minute

// marks[i] is the limit of the marks on reservations of up to i minutes. A sliding
// window of one hit, which all stores know, lets a second one pass no sooner than
// after a period. The windows of both marks on a reservation are the same, so that the
// one that it was settled is forgotten no sooner than the one that it was made.
var marks = func() (all [1 + MaxReservationTTL/time.Minute]*limit.Limit) {
	for i := range all {
		all[i] = limit.Must(limit.Spec{Quota: 1, Period: time.Duration(i)*time.Minute + clockSkew})
	}
	return all
}()

// markLimit returns the limit of the marks on reservations of that length.
func markLimit(ttl time.Duration) *limit.Limit {
	return marks[(ttl+time.Minute-1)/time.Minute]
}

// claims are what a reservation was asked for.
type claims struct {
	id  string
	ttl time.Duration
	// request is what was asked, as hits. Its slices are those below.
	request     Request
	descriptors []Descriptor
	entries     []descriptor.Entry
	attributes  []descriptor.Entry
}

// appendClaims appends what req and o ask for. An id that is not given is drawn.
func appendClaims(dst []byte, req *Request, o *ReserveOptions) []byte {
	if o.ID == "" {
		var room [32]byte
		id := newReservationID(room[:0])
		dst = append(binary.AppendUvarint(dst, uint64(len(id))), id...)
	} else {
		dst = appendText(dst, o.ID)
	}
	dst = binary.AppendUvarint(dst, uint64(o.TTL/time.Millisecond))
	dst = appendText(dst, req.Domain)
	dst = binary.AppendUvarint(dst, uint64(len(req.Descriptors)))
	for i := range req.Descriptors {
		d := &req.Descriptors[i]
		dst = binary.AppendUvarint(dst, uint64(d.Hits))
		dst = appendEntries(dst, d.Entries)
	}
	return appendEntries(dst, req.Attributes)
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

// read fills c, whose texts are parts of text. What is read can be checked: it is
// what Reserve takes.
func (c *claims) read(text string) error {
	if text == "" {
		return fmt.Errorf("%w: it reserves nothing; hint: Reserve answers so when a request is denied", ErrReservation)
	}
	in := claimReader{rest: text}
	c.descriptors, c.entries, c.attributes = c.descriptors[:0], c.entries[:0], c.attributes[:0]
	c.id, _ = in.text()
	ms, _ := in.uvarint()
	domain, _ := in.text()
	number, ok := in.uvarint()
	if !ok || number > descriptor.MaxDescriptors {
		return fmt.Errorf("%w: cut short", ErrReservation)
	}
	for range number {
		hits, _ := in.uvarint()
		first := len(c.entries)
		if c.entries, ok = in.appendEntries(c.entries, descriptor.MaxEntries); !ok {
			return fmt.Errorf("%w: cut short", ErrReservation)
		}
		c.descriptors = append(c.descriptors, Descriptor{
			Entries: c.entries[first:len(c.entries):len(c.entries)], Hits: int64(min(hits, math.MaxInt64)),
		})
	}
	if c.attributes, ok = in.appendEntries(c.attributes, maxReservation); !ok || in.rest != "" {
		return fmt.Errorf("%w: cut short, or too long", ErrReservation)
	}
	c.ttl = time.Duration(min(ms, uint64(math.MaxInt64/time.Millisecond))) * time.Millisecond
	c.request = Request{Domain: domain, Descriptors: c.descriptors, Attributes: c.attributes}
	if err := (&ReserveOptions{ID: c.id, TTL: c.ttl}).validate(); err != nil || c.id == "" || c.ttl == 0 {
		return fmt.Errorf("%w: no id, or no ttl that is allowed", ErrReservation)
	}
	if err := c.request.validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrReservation, err)
	}
	return nil
}

// clear lets go of all texts.
func (c *claims) clear() {
	clear(c.descriptors)
	clear(c.entries)
	clear(c.attributes)
	*c = claims{descriptors: c.descriptors[:0], entries: c.entries[:0], attributes: c.attributes[:0]}
}

// claimReader reads parts from the front of rest.
type claimReader struct{ rest string }

func (r *claimReader) uvarint() (uint64, bool) {
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

func (r *claimReader) text() (string, bool) {
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
func (r *claimReader) appendEntries(dst []descriptor.Entry, most uint64) ([]descriptor.Entry, bool) {
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

// charge is what one bucket was charged.
type charge struct {
	bucket [4]byte
	hits   int64
}

// bucketMark tells the buckets of one reservation apart.
func bucketMark(key []byte) (mark [4]byte) {
	sum := sha256.Sum256(key)
	return [4]byte(sum[:])
}

func appendCharge(dst []byte, c charge) []byte {
	dst = append(dst, c.bucket[:]...)
	return binary.AppendUvarint(dst, uint64(c.hits))
}

// cutCharge reads the first charge of text.
func cutCharge(text string) (c charge, rest string, err error) {
	if copy(c.bucket[:], text) < len(c.bucket) {
		return c, "", fmt.Errorf("%w: cut short", ErrReservation)
	}
	in := claimReader{rest: text[len(c.bucket):]}
	hits, ok := in.uvarint()
	if !ok || hits > limit.MaxQuota {
		return c, "", fmt.Errorf("%w: cut short", ErrReservation)
	}
	c.hits = int64(hits)
	return c, in.rest, nil
}
