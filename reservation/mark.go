package reservation

import (
	"crypto/sha256"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
)

// Mark is what the store remembers of a reservation: a bucket of one hit, which is used
// once that has happened. It is the ordinal of the bucket's key.
type Mark int

const (
	// MarkMade says that the reservation was made.
	MarkMade Mark = iota
	// MarkSettled says that it was settled.
	MarkSettled
	// MarkCovered says that something else has paid what a quota denied, and MarkPaid what
	// that was. The entries of their keys name the bucket of the quota, and what paid.
	MarkCovered
	MarkPaid
)

// AppendKey appends the key of the mark on the reservation of a domain with those claims,
// as Claims.Append wrote them, and on what of it the entries say.
func (m Mark) AppendKey(dst []byte, domain string, claims []byte, of ...descriptor.Entry) []byte {
	sum := sha256.Sum256(claims)
	dst = descriptor.AppendKeyStart(dst, descriptor.KindReservation, domain)
	dst = descriptor.AppendKeyEntry(dst, descriptor.Entry{Key: "reservation", Value: string(sum[:])})
	for _, e := range of {
		dst = descriptor.AppendKeyEntry(dst, e)
	}
	return descriptor.AppendKeyEnd(dst, int(m))
}

// clockSkew is how far apart the clocks of nodes and store may be: the store remembers
// a reservation for that much longer than its ttl.
const clockSkew = time.Minute

// marks[i] is the limit of the marks on reservations of up to i minutes. A sliding
// window of one hit, which all stores know, lets a second one pass no sooner than
// after a period. The windows of both marks on a reservation are the same, so that the
// one that it was settled is forgotten no sooner than the one that it was made.
var marks = func() (all [1 + MaxTTL/time.Minute]*limit.Limit) {
	for i := range all {
		all[i] = limit.Must(limit.Spec{Quota: 1, Period: time.Duration(i)*time.Minute + clockSkew})
	}
	return all
}()

// MarkLimit returns the limit of the marks on reservations of that length, which is at
// most MaxTTL.
func MarkLimit(ttl time.Duration) *limit.Limit {
	return marks[(ttl+time.Minute-1)/time.Minute]
}
