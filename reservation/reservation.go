package reservation

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// Bounds of a Reservation.
const (
	// DefaultTTL is how long a reservation may be settled, unless it says otherwise;
	// MinTTL and MaxTTL bound what it may say.
	DefaultTTL = 5 * time.Minute
	MinTTL     = time.Second
	MaxTTL     = time.Hour
	// MaxID bounds the bytes of the id of a reservation.
	MaxID = 128
	// MaxLength bounds the bytes of the text of a reservation: it goes along with
	// requests, in headers too.
	MaxLength = 4 << 10
)

var (
	// ErrMalformed is wrapped by errors about a text that is no reservation, and about options or
	// requests that cannot become one.
	ErrMalformed = errors.New("malformed reservation")
	// ErrExpired is returned for a reservation that was not settled in time.
	ErrExpired = errors.New("reservation has expired; hint: what it reserved counts as used; commit earlier, or reserve with a longer ttl")
)

// Options say how long a reservation lasts and by which name it is known. The zero value
// draws a name and means DefaultTTL.
type Options struct {
	// ID names the reservation, so that asking again, because the answer got lost,
	// reserves nothing more: up to MaxID bytes. It belongs to what is asked for; the same
	// id with other descriptors, hits, attributes or TTL is another reservation. Empty,
	// one is drawn.
	ID string
	// TTL is how long the reservation can be settled, from MinTTL to MaxTTL in whole
	// milliseconds; 0 means DefaultTTL.
	TTL time.Duration
}

// Validate refuses what is out of range. Its errors wrap ErrMalformed.
func (o *Options) Validate() error {
	switch {
	case len(o.ID) > MaxID:
		return fmt.Errorf("%w: an id of %d bytes; hint: at most %d, hash longer ones", ErrMalformed, len(o.ID), MaxID)
	case o.TTL == 0:
		return nil
	case o.TTL < MinTTL || o.TTL > MaxTTL || o.TTL%time.Millisecond != 0:
		return fmt.Errorf("%w: ttl %v; hint: %v to %v in whole milliseconds, 0 for %v", ErrMalformed, o.TTL, MinTTL, MaxTTL, DefaultTTL)
	}
	return nil
}

// Reservation is what headgate.Limiter.Reserve has charged in advance, to be settled once
// by Commit or Cancel. It is a value that holds all that this takes, so that any Limiter
// on the same store and rules can settle it; String and Parse carry it there. The zero
// value reserves nothing and cannot be settled.
//
// A Reservation is no secret and not signed: what it claims to have charged counts
// only if the store remembers that it was made. Whoever knows its id and what was
// asked for can settle it.
type Reservation struct {
	// claims are what was asked for, see Claims.Append.
	claims string
	// charged are the buckets that were charged, see Charge.Append.
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
const version = 1

// maxBytes bounds the bytes that MaxLength holds in base64, and overhead those of them
// that are neither claims nor charges.
const (
	maxBytes = MaxLength / 4 * 3
	overhead = 16
)

// Fits returns an error, which wraps ErrMalformed, where claims of so many bytes with so
// many charges may be longer than a Reservation can be.
func Fits(claims, charges int) error {
	if most := claims + charges*maxChargeLength + overhead; most > maxBytes {
		return fmt.Errorf("%w: %d bytes; hint: at most %d; hash long values, reserve for fewer descriptors", ErrMalformed, most, maxBytes)
	}
	return nil
}

// Made returns the reservation of claims, as Claims.Append wrote them, for which charges
// were made. It can be settled until expires.
func Made(claims []byte, charges []Charge, expires time.Time) Reservation {
	all := claims
	for _, c := range charges {
		all = c.append(all)
	}
	text := string(all)
	return Reservation{claims: text[:len(claims)], charged: text[len(claims):], expires: expires.UnixMilli()}
}

// Of returns the reservation that is made of claims, for those who settle it without
// having kept it: what it has charged only the store and the rules know.
func Of(claims *Claims) Reservation { return Reservation{claims: string(claims.Append(nil))} }

// ID is the id that was given to Reserve, or that it drew; "" of the zero value.
func (r Reservation) ID() string {
	id, _ := (&reader{rest: r.claims}).text()
	return id
}

// Expires is the instant from which r cannot be settled any more, in whole
// milliseconds by the clock of the Limiter that made it. It is the zero time where it
// is not known (Of).
func (r Reservation) Expires() time.Time {
	if r.expires == 0 {
		return time.Time{}
	}
	return time.UnixMilli(r.expires)
}

// String returns r as text for Parse: letters, digits, '-' and '_', at most MaxLength;
// "" for the zero value.
func (r Reservation) String() string {
	if r.claims == "" {
		return ""
	}
	b := make([]byte, 0, len(r.claims)+len(r.charged)+2+2*binary.MaxVarintLen64)
	b = append(b, version)
	b = appendText(b, r.claims)
	b = binary.AppendUvarint(b, uint64(r.expires))
	b = append(b, r.charged...)
	return base64.RawURLEncoding.EncodeToString(b)
}

// Parse reads what String wrote. Its errors wrap ErrMalformed.
func Parse(text string) (Reservation, error) {
	if len(text) > MaxLength {
		return Reservation{}, fmt.Errorf("%w: %d bytes; hint: at most %d", ErrMalformed, len(text), MaxLength)
	}
	if strings.ContainsAny(text, "\r\n") { // which the decoder passes over
		return Reservation{}, fmt.Errorf("%w: a line break in it; hint: send what was answered, as it is", ErrMalformed)
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return Reservation{}, fmt.Errorf("%w: %v; hint: send what was answered, as it is", ErrMalformed, err)
	}
	if len(b) == 0 || b[0] != version {
		return Reservation{}, fmt.Errorf("%w: unknown version; hint: this program knows version %d", ErrMalformed, version)
	}
	in := reader{rest: string(b[1:])}
	var r Reservation
	var ok [2]bool
	var expires uint64
	r.claims, ok[0] = in.text()
	expires, ok[1] = in.uvarint()
	if !ok[0] || !ok[1] || expires == 0 || expires > math.MaxInt64 {
		return Reservation{}, fmt.Errorf("%w: cut short", ErrMalformed)
	}
	r.expires, r.charged = int64(expires), in.rest
	var c Claims
	if err := r.ReadClaims(&c); err != nil {
		return Reservation{}, err
	}
	for rest := r.charged; rest != ""; {
		if _, rest, err = cutCharge(rest); err != nil {
			return Reservation{}, err
		}
	}
	return r, nil
}
