// Package ledger reckons who pays for a reservation on quotas of tenants: the quota itself
// or, where that has no room, the burst pool of the tenant or a top-up. It asks no store, and
// says what is to be asked.
package ledger

import (
	"bytes"
	"slices"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/reservation"
	"github.com/headgate/headgate/store"
)

// Ledger is what is known of one reservation: what the store has noted of who paid in place
// of quotas, and what is left of those who may. It is working memory; the zero value knows
// of nothing.
type Ledger struct {
	quotas []quota
	offers []offer
	payers []purses
	purses []purse
	keys   []byte
	// path says that each purse pays once for all quotas of the request, as much as the
	// dearest, and not once for each.
	path bool
	// looked says that purses and the room of quotas are looked up.
	looked bool
}

// quota is a take of the reservation that counts towards a quota.
type quota struct {
	take, offer int
	bucket      [4]byte
	entry       descriptor.Entry // see NameOf
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

// span is a range of payers.
type span struct{ from, to int }

// purses are the buckets of a payer.
type purses struct {
	Payer
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

// These bounds keep one huge request from staying in memory for ever.
const (
	maxKeys   = 64 << 10 // bytes
	maxPurses = 1024
)

// IsHuge reports whether g has grown too large to be kept.
func (g *Ledger) IsHuge() bool { return cap(g.keys) > maxKeys || cap(g.purses) > maxPurses }

// Empty drops all but working memory.
func (g *Ledger) Empty() {
	clear(g.quotas)
	clear(g.payers)
	clear(g.purses)
	*g = Ledger{quotas: g.quotas[:0], offers: g.offers[:0], payers: g.payers[:0], purses: g.purses[:0], keys: g.keys[:0]}
}

// PayOnce says whether each payer pays once for all quotas, as much as the dearest, as with
// match: path, and not once for each.
func (g *Ledger) PayOnce(path bool) { g.path = path }

// Offer returns which offer is that beyond the quota of descriptor i at a depth. If it was
// not known, it has no payers yet, and AddPayer adds to it.
func (g *Ledger) Offer(i, depth int) (which int, known bool) {
	for k := range g.offers {
		if o := &g.offers[k]; o.descriptor == i && o.depth == depth {
			return k, true
		}
	}
	n := len(g.payers)
	g.offers = append(g.offers, offer{descriptor: i, depth: depth, payers: span{n, n}})
	return len(g.offers) - 1, false
}

// AddPayer adds who may pay beyond the quota of the last offer. value is that of the key
// whose share counts, where p.Share is not nil.
func (g *Ledger) AddPayer(p Payer, value string) {
	start := len(g.keys)
	g.keys = p.AppendKey(g.keys)
	one := purses{Payer: p, main: g.purse(start, p.Limit()), share: -1}
	if key := p.Share(); key != nil {
		start = len(g.keys)
		g.keys = p.AppendShareKey(g.keys, value)
		one.share = g.purse(start, key.Limit.Limit)
	}
	g.payers = append(g.payers, one)
	g.offers[len(g.offers)-1].payers.to++
}

// purse returns which of g.purses has the key g.keys[start:], and adds it.
func (g *Ledger) purse(start int, l *limit.Limit) int {
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

// AddQuota adds take t, which counts towards a quota, and which offer is beyond that.
func (g *Ledger) AddQuota(takes []store.Take, t, offer int) {
	take := &takes[t]
	g.quotas = append(g.quotas, quota{
		take: t, offer: offer, bucket: reservation.Bucket(take.Key), entry: NameOf(takes, t), reserved: take.Hits,
	})
}

// HasQuotas reports whether g knows of quotas.
func (g *Ledger) HasQuotas() bool { return len(g.quotas) > 0 }

// HasQuota reports whether g knows take t.
func (g *Ledger) HasQuota(t int) bool { return g.quotaOf(t) != nil }

// quotaOf returns what is known of take t, nil where it is on no quota.
func (g *Ledger) quotaOf(t int) *quota {
	for i := range g.quotas {
		if g.quotas[i].take == t {
			return &g.quotas[i]
		}
	}
	return nil
}

// IsCovered reports whether something else has paid for take t.
func (g *Ledger) IsCovered(t int) bool {
	q := g.quotaOf(t)
	return q != nil && q.covered
}

// Use takes over from takes, which are those of the same request, what was used. Where
// they are others, because a rule has just come into force, nothing is known of quotas.
func (g *Ledger) Use(takes []store.Take) {
	for i := range g.quotas {
		q := &g.quotas[i]
		if q.take >= len(takes) || reservation.Bucket(takes[q.take].Key) != q.bucket {
			g.quotas = g.quotas[:0]
			return
		}
		q.used = takes[q.take].Hits
	}
}

// Forget drops what was noted of a reservation that was not made.
func (g *Ledger) Forget() {
	for i := range g.quotas {
		g.quotas[i].covered, g.quotas[i].by = false, 0
	}
	for i := range g.offers {
		g.offers[i].by = 0
	}
}

// MayPay reports whether others than quotas may have paid for the reservation r, or may
// have to: r does not say that quotas were charged all, or more was used than they were,
// and there is something beyond them.
func (g *Ledger) MayPay(r reservation.Reservation) bool {
	for i := range g.quotas {
		q := &g.quotas[i]
		if q.used > q.reserved && g.hasPayers(q) || q.reserved > 0 && (!r.IsTold() || r.Charged(q.bucket, g.quotasBefore(i)) < q.reserved) {
			return true
		}
	}
	return false
}

// hasPayers reports whether the tenant has something beyond a quota.
func (g *Ledger) hasPayers(q *quota) bool {
	offered := g.offers[q.offer].payers
	return offered.from < offered.to
}

// quotasBefore returns how many quotas before the one at i are of its bucket and were
// charged.
func (g *Ledger) quotasBefore(i int) (n int) {
	for j := range i {
		if g.quotas[j].bucket == g.quotas[i].bucket && g.quotas[j].reserved > 0 {
			n++
		}
	}
	return n
}

// AppendLookup appends what asks whether the reservation of n was made, and whether some of
// it was not charged, and with all who has paid, and what quotas and payers have left. takes
// are those of the reservation now.
func (g *Ledger) AppendLookup(dst, takes []store.Take, n *Notes, all bool) []store.Take {
	look := func(m reservation.Mark, of ...descriptor.Entry) {
		start := len(g.keys)
		g.keys = n.AppendKey(g.keys, m, of...)
		dst = append(dst, store.Take{Key: g.keys[start:len(g.keys):len(g.keys)], Limit: n.Limit})
	}
	look(reservation.MarkMade)
	look(reservation.MarkUncharged)
	if g.looked = all; !all {
		return dst
	}
	for i := range g.quotas {
		q := &g.quotas[i]
		take := &takes[q.take]
		q.room, q.notes = len(dst), len(dst)+1
		dst = append(dst, store.Take{Key: take.Key, Limit: take.Limit, Mode: take.Mode})
		look(reservation.MarkCovered, q.entry)
		offered := g.offers[q.offer].payers
		for k := offered.from; k < offered.to; k++ {
			look(reservation.MarkPaid, q.entry, NameOfPayer(g.text(k)))
		}
	}
	for i := range g.purses {
		one := &g.purses[i]
		one.at = len(dst)
		dst = append(dst, store.Take{Key: one.key, Limit: one.limit})
	}
	return dst
}

// Read takes over what the store has said of a lookup. made is what it said of the mark that
// the reservation was made, or why nothing is known; partly says that some of it was not
// charged.
func (g *Ledger) Read(results []store.Result) (made store.Result, partly bool) {
	if i := slices.IndexFunc(results, func(r store.Result) bool { return r.Err != nil }); i >= 0 {
		return results[i], false
	}
	if g.looked {
		g.read(results)
	}
	return results[0], IsMarked(&results[1])
}

func (g *Ledger) read(results []store.Result) {
	for i := range g.purses {
		g.purses[i].left = results[g.purses[i].at].Remaining
	}
	for i := range g.quotas {
		q := &g.quotas[i]
		o := &g.offers[q.offer]
		q.left = results[q.room].Remaining
		if q.covered = IsMarked(&results[q.notes]); !q.covered {
			continue
		}
		for k := o.payers.from; k < o.payers.to && q.by == 0; k++ {
			if IsMarked(&results[q.notes+1+k-o.payers.from]) {
				q.by, o.by = k+1, k+1
			}
		}
	}
}

// AppendPaid appends what others than quotas have paid, as was read. They pay on.
func (g *Ledger) AppendPaid(dst []Paid) []Paid {
	for i := range g.quotas {
		q := &g.quotas[i]
		if !q.covered {
			continue
		}
		one := Paid{Take: q.take}
		if q.by != 0 {
			o := &g.offers[q.offer]
			o.settled, o.used = true, max(o.used, q.reserved)
			one.By = g.bucketOf(q.by - 1)
		}
		dst = append(dst, one)
	}
	return dst
}

// text names payer k in notes: by the keys of its buckets.
func (g *Ledger) text(k int) string {
	p := &g.payers[k]
	text := string(g.purses[p.main].key)
	if p.share >= 0 {
		text += string(g.purses[p.share].key)
	}
	return text
}

// bucketOf returns by which name reservations tell of payer k.
func (g *Ledger) bucketOf(k int) [4]byte { return reservation.Bucket([]byte(g.text(k))) }
