package headgate

import (
	"bytes"
	"context"
	"slices"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/ledger"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/reservation"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/tenant"
)

const (
	// maxGrants bounds the top-ups that are asked in place of one quota, the soonest to
	// expire first.
	maxGrants = 4
	// maxCoverTrips bounds how often a request is asked again: for the pool, for each
	// top-up, and for quotas that turn out to deny too.
	maxCoverTrips = 8
)

// coverage is what is asked for requests that are denied by quotas of tenants that have
// something beyond them: burst pools and top-ups. It is made for one batch and sees what
// that was matched by.
type coverage struct {
	*matcher
	*batch
	retries []retry
	covers  []cover
	payers  []ledger.Payer // of all covers
	// coverOf[t] is 1 + the cover of take t, 0 for none.
	coverOf []int
	// booking, when not nil, is the reservation that is asked for.
	booking *booking
}

// retry is a denied request that is asked again, with others in place of what denied
// it.
type retry struct {
	request int
	// first and last are 1 + those of its covers.
	first, last int
	// asked is its part in what is asked.
	asked span
}

// cover is what stands in for one quota that denied.
type cover struct {
	// next is 1 + the next cover of the same request.
	next int
	// descriptor and depth say which quota it is.
	descriptor, depth int
	hits              int64
	// payers are those that may pay: the first of them now, the others when it is
	// exhausted.
	payers span
	// at and capAt say where in what is asked the hits are taken from the pool, or from
	// the grant, and counted for the key; capAt is -1 where they are not.
	at, capAt int
}

// empty drops all but working memory.
func (cs *coverage) empty() {
	clear(cs.covers)
	clear(cs.payers)
	*cs = coverage{retries: cs.retries[:0], covers: cs.covers[:0], payers: cs.payers[:0], coverOf: cs.coverOf[:0]}
}

// coverDenials asks once more for each request that is denied, when all that denies it
// are quotas of tenants that have a burst pool, or top-ups: the same takes, but in place
// of those that were denied hits on these. They stand and fall together. What a request
// was charged the first time, with consumption: independent, is not asked again; and
// when it is denied again, or the store does not answer, the first answer stays.
//
// With b the one request is a reservation: what pays is noted beside its mark, and in b.
func (l *Limiter) coverDenials(ctx context.Context, p *plan, requests []Request, responses []Response, b *booking) {
	if p.tenants == tenant.Nobody {
		return
	}
	var cs *coverage
	for i := range responses {
		if responses[i].Allowed {
			continue
		}
		if cs == nil {
			cs = l.coverages.Get().(*coverage)
			cs.matcher, cs.batch, cs.booking = &p.matcher, &p.batch, b
		}
		cs.addRetry(i, &requests[i], &responses[i])
	}
	if cs == nil {
		return
	}
	for trip := 0; len(cs.retries) > 0 && trip < maxCoverTrips; trip++ {
		cs.clearAgain()
		for i := range cs.retries {
			r := &cs.retries[i]
			cs.ask(r, &requests[r.request])
		}
		l.takeAgain(ctx, l.store, cs.batch)
		denied := cs.retries[:0]
		for _, r := range cs.retries {
			if cs.readRetry(&r, &requests[r.request], &responses[r.request]) {
				denied = append(denied, r)
			}
		}
		cs.retries = denied
	}
	if cap(cs.coverOf) <= maxPooledTakes {
		cs.empty()
		l.coverages.Put(cs)
	}
}

// addRetry adds the request i, if all that denies it can be covered and the store has
// decided it.
func (cs *coverage) addRetry(i int, req *Request, resp *Response) {
	s := cs.spans[i]
	if resp.quotaModeDenies() {
		return // it was charged
	}
	for t := s.takes.from; t < s.takes.to; t++ {
		if cs.results[t].Err != nil {
			return
		}
	}
	if len(cs.coverOf) == 0 {
		cs.coverOf = slices.Grow(cs.coverOf, len(cs.takes))[:len(cs.takes)]
		clear(cs.coverOf)
	}
	r := retry{request: i}
	for j := range resp.Verdicts {
		if resp.Verdicts[j].denies() && !cs.cover(&r, req, &resp.Verdicts[j], cs.verdictTake[s.verdicts.from+j]) {
			return
		}
	}
	cs.retries = append(cs.retries, r)
}

// cover finds what may stand in for take t, which denied by v, and reports whether
// there is anything.
func (cs *coverage) cover(r *retry, req *Request, v *Verdict, t int) bool {
	if t < 0 || !v.Role.IsMain() || v.Tenant == 0 || cs.takes[t].Op != store.Hit || cs.takes[t].Hits == 0 {
		return false
	}
	if cs.coverOf[t] != 0 {
		return true // of another verdict
	}
	at := r.first
	for at != 0 && (cs.covers[at-1].descriptor != v.Descriptor || cs.covers[at-1].depth != v.Depth) {
		at = cs.covers[at-1].next
	}
	if at == 0 {
		c := cs.coverFor(req, v)
		if c.payers.from == c.payers.to {
			return false
		}
		cs.covers = append(cs.covers, c)
		at = len(cs.covers)
		if r.first == 0 {
			r.first = at
		} else {
			cs.covers[r.last-1].next = at
		}
		r.last = at
	}
	c := &cs.covers[at-1]
	c.hits = max(c.hits, cs.takes[t].Hits)
	cs.coverOf[t] = at
	return true
}

// coverFor returns what the tenant has beyond the quota of v.
func (cs *coverage) coverFor(req *Request, v *Verdict) cover {
	from := len(cs.payers)
	cs.payers = cs.appendPayers(cs.payers, req, v, maxGrants)
	return cover{descriptor: v.Descriptor, depth: v.Depth, payers: span{from, len(cs.payers)}}
}

// payer returns what covers c now.
func (cs *coverage) payer(c *cover) *ledger.Payer { return &cs.payers[c.payers.from] }

// ask appends what is asked for r: those takes that stand or fall with the denied ones,
// and what covers these.
func (cs *coverage) ask(r *retry, req *Request) {
	r.asked.from = len(cs.again)
	takes := cs.spans[r.request].takes
	for t := takes.from; t < takes.to; t++ {
		if cs.takes[t].Group != 0 && cs.coverOf[t] == 0 {
			cs.addAgain(t, cs.takes[t])
		}
	}
	for at := r.first; at != 0; at = cs.covers[at-1].next {
		cs.askCover(r, req, &cs.covers[at-1])
	}
	if cs.booking != nil {
		cs.askNotes(r)
	}
	r.asked.to = len(cs.again)
	group := uint32(0)
	if r.asked.to-r.asked.from > 1 {
		group = uint32(r.request + 1)
	}
	for i := r.asked.from; i < r.asked.to; i++ {
		cs.again[i].Group = group
	}
}

// askCover appends the takes on what covers c now.
func (cs *coverage) askCover(r *retry, req *Request, c *cover) {
	p := cs.payer(c)
	start := len(cs.keys)
	cs.keys = p.AppendKey(cs.keys)
	c.at, c.capAt = cs.askBucket(r, req, start, store.Take{Limit: p.Limit(), Hits: c.hits}), -1
	if key := p.Share(); key != nil {
		start = len(cs.keys)
		cs.keys = p.AppendShareKey(cs.keys, keyOf(req, c.descriptor, key))
		c.capAt = cs.askBucket(r, req, start, store.Take{Limit: key.Limit.Limit, Hits: c.hits})
	}
}

// askBucket appends take, on the bucket with the key cs.keys[start:], and returns where.
// With match: path it is asked once for each request, as quotas are.
func (cs *coverage) askBucket(r *retry, req *Request, start int, take store.Take) int {
	take.Key = cs.keys[start:len(cs.keys):len(cs.keys)]
	if cs.domain(req.Domain).Match == rules.Path {
		for i := r.asked.from; i < len(cs.again); i++ {
			if t := &cs.again[i]; cs.againOf[i] < 0 && bytes.Equal(t.Key, take.Key) {
				t.Hits = max(t.Hits, take.Hits)
				return i
			}
		}
	}
	cs.addAgain(-1, take)
	return len(cs.again) - 1
}

// readRetry reads the answer to r. It reports whether the request is denied again and
// there is more that may cover it.
func (cs *coverage) readRetry(r *retry, req *Request, resp *Response) (again bool) {
	for i := r.asked.from; i < r.asked.to; i++ {
		if cs.againResults[i].Err != nil {
			cs.addGiveBack(r)
			return false
		}
	}
	if cs.booking != nil && cs.readMark(r) {
		return false
	}
	denied := false
	for at := r.first; at != 0; at = cs.covers[at-1].next {
		c := &cs.covers[at-1]
		if cs.deniedAgain(c.at) || c.capAt >= 0 && cs.deniedAgain(c.capAt) {
			denied = true
			if !c.advance() {
				return false
			}
		}
	}
	for i := r.asked.from; i < r.asked.to; i++ {
		if t := cs.againOf[i]; t >= 0 && cs.deniedAgain(i) {
			denied = true
			if v := cs.deniedBy(r, resp, t); v == nil || !cs.cover(r, req, v, t) {
				return false
			}
		}
	}
	if !denied {
		cs.pass(r, resp)
	}
	return denied
}

// deniedAgain reports whether take i of those that were asked holds its group back.
func (cs *coverage) deniedAgain(i int) bool { return holdsBack(&cs.again[i], &cs.againResults[i]) }

// deniedBy returns the verdict by which take t denies the request of r.
func (cs *coverage) deniedBy(r *retry, resp *Response, t int) *Verdict {
	from := cs.spans[r.request].verdicts.from
	for i := range resp.Verdicts {
		if cs.verdictTake[from+i] == t && resp.Verdicts[i].Enforced() {
			return &resp.Verdicts[i]
		}
	}
	return nil
}

// advance goes on to what covers c next, and reports whether there is anything.
func (c *cover) advance() bool {
	c.payers.from++
	return c.payers.from < c.payers.to
}

// pass answers the request of r by what it was charged now.
func (cs *coverage) pass(r *retry, resp *Response) {
	s := cs.spans[r.request]
	for i := r.asked.from; i < r.asked.to; i++ {
		if t := cs.againOf[i]; t >= 0 {
			cs.results[t] = cs.againResults[i]
		}
	}
	for i := range resp.Verdicts {
		t := cs.verdictTake[s.verdicts.from+i]
		if t < 0 || cs.coverOf[t] == 0 {
			continue
		}
		said := cs.say(&cs.covers[cs.coverOf[t]-1])
		resp.Verdicts[i].say(&said)
		cs.results[t] = store.Result{Decision: said.Decision}
	}
	if cs.booking != nil {
		cs.addPaid(s.takes)
	}
	resp.Hold = s.hold
	cs.answer(resp, s.verdicts)
}

// say returns what is said by what covers c.
func (cs *coverage) say(c *cover) ledger.Said {
	var share *limit.Decision
	if c.capAt >= 0 {
		share = &cs.againResults[c.capAt].Decision
	}
	return cs.payer(c).Say(c.hits, cs.againResults[c.at].Decision, share, cs.instant())
}

// say makes v the verdict of what has paid in place of a quota, but for its decision.
func (v *Verdict) say(s *ledger.Said) {
	v.Source, v.Limit, v.Name, v.Hits = s.Source, s.Limit, s.Name, s.Hits
}

// addGiveBack adds what gives back what was charged for r, of which the store could not
// decide some: as addGiveBacks does.
func (cs *coverage) addGiveBack(r *retry) {
	denied := false
	for i := r.asked.from; i < r.asked.to; i++ {
		denied = denied || cs.againResults[i].Err == nil && (cs.againResults[i].Skipped || cs.deniedAgain(i))
	}
	for i := r.asked.from; i < r.asked.to; i++ {
		t, result := &cs.again[i], &cs.againResults[i]
		if result.Err != nil && mayHold(t, result.Err) || result.Err == nil && !denied && charged(t, result) && !t.Limit.CountDenied {
			cs.giveBack = append(cs.giveBack, t.Undo())
		}
	}
}

// appendPayers appends what the tenant has beyond the quota of v: its pool, and then up to
// most top-ups in force, the soonest to expire first.
func (x *matcher) appendPayers(dst []ledger.Payer, req *Request, v *Verdict, most int) []ledger.Payer {
	entries := req.Descriptors[v.Descriptor].Entries
	domain := x.domain(req.Domain)
	x.rest = x.rest[:0]
	for _, e := range entries[v.Tenant:v.Depth] {
		if !domain.Aside(e.Key) {
			x.rest = append(x.rest, e)
		}
	}
	subject := entries[v.Tenant-1]
	if pool := x.tenants.Standing(subject, x.instant()).Pool(); pool != nil {
		dst = append(dst, ledger.Payer{Subject: subject, Pool: pool})
	}
	x.grants = x.tenants.AppendGrants(x.grants[:0], subject, x.rest, x.instant())
	for _, grant := range x.grants[:min(len(x.grants), most)] {
		dst = append(dst, ledger.Payer{Subject: subject, Grant: grant})
	}
	clear(x.grants)
	return dst
}

// keyOf returns whose share of a pool counts, where descriptor i of req is denied: the value
// of the entry that share names, in that descriptor or else in another one. It is "" where
// there is none.
func keyOf(req *Request, i int, share *tenant.KeyCap) string {
	if share == nil {
		return ""
	}
	return req.valueOf(share.Entry, i)
}

// askNotes appends the notes on what is asked in place of quotas. They hold nothing back.
func (cs *coverage) askNotes(r *retry) {
	notes := &cs.booking.notes
	note := func(m reservation.Mark, of ...descriptor.Entry) {
		start := len(cs.keys)
		cs.keys = notes.AppendKey(cs.keys, m, of...)
		cs.addAgain(-1, store.Take{Key: cs.keys[start:len(cs.keys):len(cs.keys)], Limit: notes.Limit, Hits: 1, Shadow: true})
	}
	takes := cs.spans[r.request].takes
	for t := takes.from; t < takes.to; t++ {
		if cs.coverOf[t] == 0 {
			continue
		}
		quota := ledger.NameOf(cs.takes, t)
		note(reservation.MarkCovered, quota)
		note(reservation.MarkPaid, quota, ledger.NameOfPayer(cs.payerText(&cs.covers[cs.coverOf[t]-1])))
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
			cs.booking.paid = append(cs.booking.paid, ledger.Paid{Take: t, By: by})
		}
	}
}
