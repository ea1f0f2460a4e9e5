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
	// MarkUncharged says that a limit which only watches was over and so was not charged.
	// Without entries it says so of any limit, with those of MarkCovered of one.
	MarkUncharged
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

// Marks are the limits of marks. Make one with MarksOf.
type Marks struct {
	exact bool
	// limits[i] is for reservations of up to i minutes. It lets a second hit pass no sooner
	// than after its period. All marks on a reservation have the same, so that the one that
	// it was settled is forgotten no sooner than the one that it was made.
	limits *[1 + MaxTTL/time.Minute]*limit.Limit
}

// MarksOf returns marks for a store that can decide limits for which supports returns nil.
// Those of gcra tell when they were made; a sliding window, which all stores know, tells
// only in which window.
func MarksOf(supports func(*limit.Limit) error) Marks {
	if supports(exactMarks[0]) == nil {
		return Marks{true, &exactMarks}
	}
	return Marks{false, &coarseMarks}
}

var exactMarks, coarseMarks = marksBy(limit.GCRA), marksBy(limit.SlidingWindow)

func marksBy(a limit.Algorithm) (all [1 + MaxTTL/time.Minute]*limit.Limit) {
	for i := range all {
		all[i] = limit.Must(limit.Spec{Algorithm: a, Quota: 1, Period: time.Duration(i)*time.Minute + clockSkew})
	}
	return all
}

// Limit returns the limit of the marks on reservations of that length, which is at most
// MaxTTL.
func (m Marks) Limit(ttl time.Duration) *limit.Limit {
	return m.limits[(ttl+time.Minute-1)/time.Minute]
}

// MadeAt returns when a mark was made on a reservation of that length that can still be
// settled at now: a peek says that it is forgotten resetAfter later. Where the mark does not
// tell, it is the earliest instant that it can have been.
func (m Marks) MadeAt(ttl, resetAfter time.Duration, now limit.Micros) limit.Micros {
	period := m.Limit(ttl).Period
	if m.exact {
		return now - limit.Micros((period-min(resetAfter, period))/time.Microsecond)
	}
	began := max(2*period-resetAfter, 0) // since the start of its window
	return now - limit.Micros(min(ttl, began)/time.Microsecond)
}
