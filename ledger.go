package headgate

import (
	"bytes"
	"context"
	"strconv"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/reservation"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/tenant"
)

// maxPayers bounds the top-ups that are looked at when a reservation is settled, for each
// quota, the soonest to expire first: those of maxGrants, and some that were sold since.
const maxPayers = 4 * maxGrants

// ledger is what is known of a reservation on quotas of tenants: what the store has noted
// of who paid in their place, and what is left of those who may.
type ledger struct {
	quotas []quotaTake
	offers []offer
	payers []purses
	purses []purse
	grants []*tenant.Grant
	keys   []byte
	// path says that each purse pays once for all quotas of the request, as much as the
	// dearest, and not once for each.
	path bool
	// looked says that purses and the room of quotas are known.
	looked bool
}

// quotaTake is a take of the reservation that counts towards a quota.
type quotaTake struct {
	take, offer int
	bucket      [4]byte
	entry       descriptor.Entry // see batch.quotaEntry
	// reserved is the estimate, and used what was used.
	reserved, used int64
	// notes is where in what is looked up the notes on it are, and room where its bucket.
	notes, room int
	// covered says that something else paid; by is 1 + which payer that was, 0 where it
	// is gone.
	covered bool
	by      int
	// left is what the quota has room for, and own what it would be charged, or given back
	// if that is negative, if nobody else paid.
	left, own int64
}

// offer is what a tenant has beyond one quota, the same for all limits of that.
type offer struct {
	descriptor, depth int
	payers            span
	// by is 1 + who paid when it was reserved, and charged and used are what it was
	// charged then and what was used.
	by            int
	charged, used int64
	// settled says that who paid pays all that was used, and extra is 1 + who pays need,
	// for which the quota has no room; 0 for nobody.
	settled bool
	extra   int
	need    int64
}

// purses are the buckets of a payer.
type purses struct {
	payer
	main, share int // share is -1 where there is none
}

// purse is one of these buckets.
type purse struct {
	key   []byte
	limit *limit.Limit
	// at is where it is in what is looked up, and later in what is taken; -1 where it is not.
	at int
	// left is what it has, charged what the reservation was charged, and used what it
	// is to be charged in all.
	left, charged, used int64
}

// empty drops all but working memory.
func (g *ledger) empty() {
	clear(g.quotas)
	clear(g.payers)
	clear(g.purses)
	clear(g.grants)
	*g = ledger{quotas: g.quotas[:0], offers: g.offers[:0], payers: g.payers[:0], purses: g.purses[:0], grants: g.grants[:0], keys: g.keys[:0]}
}

// isHuge reports whether g has grown too large to be kept.
func (g *ledger) isHuge() bool { return cap(g.keys) > maxPooledKeys || cap(g.purses) > maxPooledTakes }

// collect fills in the takes of the one request of p that count towards quotas of
// tenants, and what these have beyond them.
func (g *ledger) collect(p *plan, req *Request, resp *Response) {
	g.path = p.path
	for i := range resp.Verdicts {
		v, t := &resp.Verdicts[i], p.verdictTake[i]
		if t < 0 || v.Tenant == 0 || !v.Role.IsMain() || g.quotaOf(t) != nil {
			continue
		}
		g.quotas = append(g.quotas, quotaTake{
			take: t, offer: g.offerOf(p, req, v), bucket: reservation.Bucket(p.takes[t].Key),
			entry: p.quotaEntry(t), reserved: p.takes[t].Hits,
		})
	}
}

// use takes over from takes, which are those of the same request, what was used. Where
// they are others, because a rule has just come into force, nothing is known of quotas.
func (g *ledger) use(takes []store.Take) {
	for i := range g.quotas {
		q := &g.quotas[i]
		if q.take >= len(takes) || reservation.Bucket(takes[q.take].Key) != q.bucket {
			g.quotas = g.quotas[:0]
			return
		}
		q.used = takes[q.take].Hits
	}
}

// forget drops what was noted of a reservation that was not made.
func (g *ledger) forget() {
	for i := range g.quotas {
		g.quotas[i].covered, g.quotas[i].by = false, 0
	}
	for i := range g.offers {
		g.offers[i].by = 0
	}
}

// quotaOf returns what is known of take t, nil where it is on no quota.
func (g *ledger) quotaOf(t int) *quotaTake {
	for i := range g.quotas {
		if g.quotas[i].take == t {
			return &g.quotas[i]
		}
	}
	return nil
}

// isCovered reports whether something else has paid for take t.
func (g *ledger) isCovered(t int) bool {
	q := g.quotaOf(t)
	return q != nil && q.covered
}

// offerOf returns which of g.offers is that beyond the quota of v, and adds it.
func (g *ledger) offerOf(p *plan, req *Request, v *Verdict) int {
	for i := range g.offers {
		if o := &g.offers[i]; o.descriptor == v.Descriptor && o.depth == v.Depth {
			return i
		}
	}
	o := offer{descriptor: v.Descriptor, depth: v.Depth}
	o.payers.from = len(g.payers)
	subject, pool, grants := p.beyondQuota(g.grants[:0], req, v)
	if g.grants = grants; pool != nil {
		g.addPayer(req, v.Descriptor, payer{subject: subject, pool: pool})
	}
	for _, grant := range grants[:min(len(grants), maxPayers)] {
		g.addPayer(req, v.Descriptor, payer{subject: subject, grant: grant})
	}
	o.payers.to = len(g.payers)
	g.offers = append(g.offers, o)
	return len(g.offers) - 1
}

// addPayer adds who may pay for a quota of descriptor i.
func (g *ledger) addPayer(req *Request, i int, p payer) {
	start := len(g.keys)
	g.keys = p.appendKey(g.keys)
	one := purses{payer: p, main: g.purse(start, p.limit()), share: -1}
	if key := p.share(); key != nil {
		start = len(g.keys)
		g.keys = p.appendShareKey(g.keys, req, i)
		one.share = g.purse(start, key.Limit.Limit)
	}
	g.payers = append(g.payers, one)
}

// purse returns which of g.purses has the key g.keys[start:], and adds it.
func (g *ledger) purse(start int, l *limit.Limit) int {
	key := g.keys[start:len(g.keys):len(g.keys)]
	for i := range g.purses {
		if bytes.Equal(g.purses[i].key, key) {
			g.keys = g.keys[:start]
			return i
		}
	}
	g.purses = append(g.purses, purse{key: key, limit: l})
	return len(g.purses) - 1
}

// text names a payer in notes.
func (g *ledger) text(p *purses) string {
	text := string(g.purses[p.main].key)
	if p.share >= 0 {
		text += string(g.purses[p.share].key)
	}
	return text
}

// mayPay reports whether others than quotas may have paid for the reservation r, or may
// have to: r does not say that quotas were charged all, or more was used than they were,
// and there is something beyond them.
func (g *ledger) mayPay(r reservation.Reservation) bool {
	for i := range g.quotas {
		q := &g.quotas[i]
		if q.used > q.reserved && g.hasPayers(q) || q.reserved > 0 && (!r.IsTold() || r.Charged(q.bucket, g.quotasBefore(i)) < q.reserved) {
			return true
		}
	}
	return false
}

// hasPayers reports whether the tenant has something beyond a quota.
func (g *ledger) hasPayers(q *quotaTake) bool {
	offered := g.offers[q.offer].payers
	return offered.from < offered.to
}

// quotasBefore returns how many quotas before the one at i are of its bucket and were
// charged.
func (g *ledger) quotasBefore(i int) (n int) {
	for j := range i {
		if g.quotas[j].bucket == g.quotas[i].bucket && g.quotas[j].reserved > 0 {
			n++
		}
	}
	return n
}

// look asks the store whether the reservation of b was made, and with all what b.ledger
// needs to know. takes are those of the reservation now.
func (l *Limiter) look(ctx context.Context, p *plan, b *booking, all bool) (made store.Result) {
	g, domain, mark := &b.ledger, b.claims.Domain, b.mark
	p.again, p.againOf = p.again[:0], p.againOf[:0]
	start := len(g.keys)
	g.keys = reservation.MarkMade.AppendKey(g.keys, domain, b.text)
	p.addAgain(-1, store.Take{Key: g.keys[start:len(g.keys):len(g.keys)], Limit: mark})
	start = len(g.keys)
	g.keys = reservation.MarkUncharged.AppendKey(g.keys, domain, b.text)
	p.addAgain(-1, store.Take{Key: g.keys[start:len(g.keys):len(g.keys)], Limit: mark})
	if all {
		g.addNotes(p, domain, b.text, mark)
		for i := range g.purses {
			one := &g.purses[i]
			one.at = len(p.again)
			p.addAgain(-1, store.Take{Key: one.key, Limit: one.limit})
		}
	}
	l.takeAgain(ctx, l.store, &p.batch)
	for i := range p.againResults {
		if r := &p.againResults[i]; r.Err != nil {
			return *r
		}
	}
	if g.looked = all; all {
		g.read(p.againResults)
	}
	b.partly = isMarked(&p.againResults[1])
	return p.againResults[0]
}

// addNotes appends what asks for the notes on quotas, and for their buckets.
func (g *ledger) addNotes(p *plan, domain string, claims []byte, mark *limit.Limit) {
	for i := range g.quotas {
		q := &g.quotas[i]
		take := &p.takes[q.take]
		q.room, q.notes = len(p.again), len(p.again)+1
		p.addAgain(-1, store.Take{Key: take.Key, Limit: take.Limit, Mode: take.Mode})
		n := note{domain: domain, claims: claims, quota: q.entry}
		start := len(g.keys)
		g.keys = n.appendCovered(g.keys)
		p.addAgain(-1, store.Take{Key: g.keys[start:len(g.keys):len(g.keys)], Limit: mark})
		offered := g.offers[q.offer].payers
		for k := offered.from; k < offered.to; k++ {
			n.payer = g.text(&g.payers[k])
			start = len(g.keys)
			g.keys = n.appendPaid(g.keys)
			p.addAgain(-1, store.Take{Key: g.keys[start:len(g.keys):len(g.keys)], Limit: mark})
		}
	}
}

// read takes over what the store has said.
func (g *ledger) read(results []store.Result) {
	for i := range g.purses {
		g.purses[i].left = results[g.purses[i].at].Remaining
	}
	for i := range g.quotas {
		q := &g.quotas[i]
		o := &g.offers[q.offer]
		q.left = results[q.room].Remaining
		if q.covered = isMarked(&results[q.notes]); !q.covered {
			continue
		}
		for k := o.payers.from; k < o.payers.to && q.by == 0; k++ {
			if isMarked(&results[q.notes+1+k-o.payers.from]) {
				q.by, o.by = k+1, k+1
			}
		}
	}
}

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
	mark := store.Take{Limit: cs.booking.mark, Hits: 1, Shadow: true}
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
