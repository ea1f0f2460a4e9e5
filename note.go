package headgate

import (
	"bytes"
	"strconv"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/reservation"
	"github.com/headgate/headgate/store"
)

// Where something else pays for what a quota denies to a reservation, the store notes it
// beside the mark that it was made, in the same group: so that who settles it, or asks for
// it again, knows whom to give back to, and need not be believed.

// paidTake is a take of a reservation that a quota denied and something else has paid.
type paidTake struct {
	take int
	// by is the bucket of what has paid, as reservations tell of it; zero where that is
	// gone.
	by [4]byte
}

// note is what is written down of one take: that something else has paid, and what.
type note struct {
	domain string
	claims []byte
	// quota names the take, see quotaEntry, and payer what has paid by the keys of its
	// buckets.
	quota descriptor.Entry
	payer string
}

// appendCovered appends the key of the mark that something else has paid.
func (n *note) appendCovered(dst []byte) []byte {
	return reservation.MarkCovered.AppendKey(dst, n.domain, n.claims, n.quota)
}

// appendPaid appends the key of the mark that the payer has.
func (n *note) appendPaid(dst []byte) []byte {
	return reservation.MarkPaid.AppendKey(dst, n.domain, n.claims, n.quota, descriptor.Entry{Key: "payer", Value: n.payer})
}

// quotaEntry names take t of b in notes: by the key of its bucket, and how many takes
// before it have the same, since descriptors that are equal are charged each.
func (b *batch) quotaEntry(t int) descriptor.Entry {
	before := 0
	for i := range t {
		if bytes.Equal(b.takes[i].Key, b.takes[t].Key) {
			before++
		}
	}
	return descriptor.Entry{Key: strconv.Itoa(before), Value: string(b.takes[t].Key)}
}

// askNotes appends the notes on what is asked in place of quotas. They hold nothing back.
func (cs *coverage) askNotes(r *retry, req *Request) {
	mark := store.Take{Limit: reservation.MarkLimit(cs.booking.claims.TTL), Hits: 1, Shadow: true}
	takes := cs.spans[r.request].takes
	for t := takes.from; t < takes.to; t++ {
		if cs.coverOf[t] == 0 {
			continue
		}
		n := note{
			domain: req.Domain, claims: cs.booking.text,
			quota: cs.quotaEntry(t), payer: cs.payerText(&cs.covers[cs.coverOf[t]-1]),
		}
		for _, appendKey := range []func([]byte) []byte{n.appendCovered, n.appendPaid} {
			start := len(cs.keys)
			cs.keys = appendKey(cs.keys)
			mark.Key = cs.keys[start:len(cs.keys):len(cs.keys)]
			cs.addAgain(-1, mark)
		}
	}
}

// payerText names what covers c now in notes.
func (cs *coverage) payerText(c *cover) string {
	text := string(cs.again[c.at].Key)
	if c.capAt >= 0 {
		text += string(cs.again[c.capAt].Key)
	}
	return text
}

// readMark reports whether the mark of the reservation of r, its last take, was there when
// it was asked again: then it has been made meanwhile.
func (cs *coverage) readMark(r *retry) bool {
	mark := cs.spans[r.request].takes.to - 1
	for i := r.asked.from; i < r.asked.to; i++ {
		if cs.againOf[i] == mark && !cs.againResults[i].Skipped && cs.deniedAgain(i) {
			cs.results[mark] = cs.againResults[i]
			return true
		}
	}
	return false
}

// addPaid adds to the booking what has been paid in place of quotas.
func (cs *coverage) addPaid(takes span) {
	for t := takes.from; t < takes.to; t++ {
		if at := cs.coverOf[t]; at != 0 {
			by := reservation.Bucket([]byte(cs.payerText(&cs.covers[at-1])))
			cs.booking.paid = append(cs.booking.paid, paidTake{t, by})
		}
	}
}
