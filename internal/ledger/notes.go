package ledger

import (
	"bytes"
	"strconv"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/reservation"
	"github.com/headgate/headgate/store"
)

// Notes are what a store notes of a reservation, in buckets of one hit. Where something else
// pays for what a quota denies to it, that is noted beside the mark that it was made, in the
// same group: so that who settles it, or asks for it again, knows whom to give back to, and
// need not be believed.
type Notes struct {
	Domain string
	// Claims are those of the reservation as they are written.
	Claims []byte
	// Limit is that of the buckets.
	Limit *limit.Limit
}

// AppendKey appends the key of a mark, on what the entries say: NameOf a take for
// reservation.MarkCovered and reservation.MarkUncharged, and with it NameOfPayer for
// reservation.MarkPaid.
func (n *Notes) AppendKey(dst []byte, m reservation.Mark, of ...descriptor.Entry) []byte {
	return m.AppendKey(dst, n.Domain, n.Claims, of...)
}

// NameOf names take t in notes: by the key of its bucket, and how many takes before it have
// the same, because descriptors that are equal are charged each.
func NameOf(takes []store.Take, t int) descriptor.Entry {
	before := 0
	for i := range t {
		if bytes.Equal(takes[i].Key, takes[t].Key) {
			before++
		}
	}
	return descriptor.Entry{Key: strconv.Itoa(before), Value: string(takes[t].Key)}
}

// NameOfPayer names what has paid: by the keys of its buckets, one after the other.
func NameOfPayer(keys string) descriptor.Entry { return descriptor.Entry{Key: "payer", Value: keys} }

// IsMarked reports whether a peek found a mark.
func IsMarked(r *store.Result) bool { return r.Err == nil && r.Remaining == 0 }

// Paid is a take of a reservation that a quota denied and something else has paid.
type Paid struct {
	Take int
	// By is the bucket of what has paid, as reservations tell of it; zero where that is
	// gone.
	By [4]byte
}

// Age is when a reservation was charged, and when it is settled.
type Age struct{ Charged, Now limit.Micros }

// SetCharge makes t charge so many hits, or, if they are negative, give back as many of them
// as can still be in the bucket: those that are over were others' since.
func (a Age) SetCharge(t *store.Take, hits int64) {
	t.Op, t.Hits = store.Charge, hits
	if hits < 0 {
		t.Op, t.Hits = store.Refund, t.Limit.Outstanding(a.Charged, a.Now, -hits)
	}
}
