package headgate

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
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

// coverage is working memory for requests that are denied by quotas of tenants that
// have something beyond them.
type coverage struct {
	retries []retry
	covers  []cover
	grants  []*tenant.Grant // of all covers
	// coverOf[t] is 1 + the cover of take t, 0 for none.
	coverOf []int
	// undo gives back what was charged for a request that has not passed all the same.
	undo []store.Take
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
	subject           tenant.Subject
	hits              int64
	// pool is nil where there is none, or it is exhausted; then those of grants that
	// are in the span are next.
	pool *tenant.Pool
	span span
	// at and capAt say where in what is asked the hits are taken from the pool, or from
	// the grant, and counted for the key; capAt is -1 where they are not.
	at, capAt int
}

func (c *coverage) emptied() coverage {
	clear(c.covers)
	clear(c.grants)
	clear(c.undo)
	return coverage{c.retries[:0], c.covers[:0], c.grants[:0], c.coverOf[:0], c.undo[:0]}
}

// coverDenials asks once more for each request that is denied, when all that denies it
// are quotas of tenants that have a burst pool, or top-ups: the same takes, but in place
// of those that were denied hits on these. They stand and fall together. What a request
// was charged the first time, with consumption: independent, is not asked again; and
// when it is denied again, or the store does not answer, the first answer stays.
func (l *Limiter) coverDenials(ctx context.Context, p *plan, requests []Request, responses []Response) {
	if p.tenants == noTenants {
		return
	}
	for i := range responses {
		if !responses[i].Allowed {
			p.addRetry(i, &requests[i], &responses[i])
		}
	}
	for trip := 0; len(p.retries) > 0 && trip < maxCoverTrips; trip++ {
		p.again, p.againOf = p.again[:0], p.againOf[:0]
		for i := range p.retries {
			r := &p.retries[i]
			p.ask(r, &requests[r.request])
		}
		l.takeAgain(ctx, l.store, p)
		denied := p.retries[:0]
		for _, r := range p.retries {
			if p.settleRetry(&r, &requests[r.request], &responses[r.request]) {
				denied = append(denied, r)
			}
		}
		p.retries = denied
	}
}

// addRetry adds the request i, if all that denies it can be covered and the store has
// decided it.
func (p *plan) addRetry(i int, req *Request, resp *Response) {
	s := p.spans[i]
	if resp.quotaModeDenies() {
		return // it was charged
	}
	for t := s.takes.from; t < s.takes.to; t++ {
		if p.results[t].Err != nil {
			return
		}
	}
	if len(p.coverOf) == 0 {
		p.coverOf = slices.Grow(p.coverOf, len(p.takes))[:len(p.takes)]
		clear(p.coverOf)
	}
	r := retry{request: i}
	for j := range resp.Verdicts {
		if resp.Verdicts[j].denies() && !p.cover(&r, req, &resp.Verdicts[j], p.verdictTake[s.verdicts.from+j]) {
			return
		}
	}
	p.retries = append(p.retries, r)
}

// cover finds what may stand in for take t, which denied by v, and reports whether
// there is anything.
func (p *plan) cover(r *retry, req *Request, v *Verdict, t int) bool {
	if t < 0 || !v.Role.IsMain() || v.Tenant == 0 || p.takes[t].Op != store.Hit || p.takes[t].Hits == 0 {
		return false
	}
	if p.coverOf[t] != 0 {
		return true // of another verdict
	}
	at := r.first
	for at != 0 && (p.covers[at-1].descriptor != v.Descriptor || p.covers[at-1].depth != v.Depth) {
		at = p.covers[at-1].next
	}
	if at == 0 {
		c := p.coverFor(req, v)
		if c.pool == nil && c.span.from == c.span.to {
			return false
		}
		p.covers = append(p.covers, c)
		at = len(p.covers)
		if r.first == 0 {
			r.first = at
		} else {
			p.covers[r.last-1].next = at
		}
		r.last = at
	}
	c := &p.covers[at-1]
	c.hits = max(c.hits, p.takes[t].Hits)
	p.coverOf[t] = at
	return true
}

// coverFor returns what the tenant has beyond the quota of v.
func (p *plan) coverFor(req *Request, v *Verdict) cover {
	entries := req.Descriptors[v.Descriptor].Entries
	domain := p.domain(req.Domain)
	p.rest = p.rest[:0]
	for _, e := range entries[v.Tenant:v.Depth] {
		if !domain.Aside(e.Key) {
			p.rest = append(p.rest, e)
		}
	}
	c := cover{descriptor: v.Descriptor, depth: v.Depth, subject: entries[v.Tenant-1]}
	c.pool = p.tenants.Standing(c.subject, p.instant()).Pool()
	c.span.from = len(p.grants)
	p.grants = p.tenants.AppendGrants(p.grants, c.subject, p.rest, p.instant())
	c.span.to = min(len(p.grants), c.span.from+maxGrants)
	p.grants = p.grants[:c.span.to]
	return c
}

// ask appends what is asked for r: those takes that stand or fall with the denied ones,
// and what covers these.
func (p *plan) ask(r *retry, req *Request) {
	r.asked.from = len(p.again)
	takes := p.spans[r.request].takes
	for t := takes.from; t < takes.to; t++ {
		if p.takes[t].Group != 0 && p.coverOf[t] == 0 {
			p.addAgain(t, p.takes[t])
		}
	}
	for at := r.first; at != 0; at = p.covers[at-1].next {
		p.askCover(r, req, &p.covers[at-1])
	}
	r.asked.to = len(p.again)
	group := uint32(0)
	if r.asked.to-r.asked.from > 1 {
		group = uint32(r.request + 1)
	}
	for i := r.asked.from; i < r.asked.to; i++ {
		p.again[i].Group = group
	}
}

// askCover appends the takes on what covers c now.
func (p *plan) askCover(r *retry, req *Request, c *cover) {
	start := len(p.keys)
	c.capAt = -1
	if c.pool == nil {
		g := p.grants[c.span.from]
		p.keys = tenant.AppendTopUpKey(p.keys, c.subject, g.ID)
		c.at = p.askBucket(r, req, start, store.Take{Limit: g.Ask, Hits: c.hits})
		return
	}
	p.keys = tenant.AppendPoolKey(p.keys, c.subject)
	c.at = p.askBucket(r, req, start, store.Take{Limit: c.pool.Limit.Limit, Hits: c.hits})
	if key := c.pool.PerKey; key != nil {
		start = len(p.keys)
		p.keys = tenant.AppendPoolKey(p.keys, c.subject, descriptor.Entry{Key: key.Entry, Value: keyOf(req, c.descriptor, key.Entry)})
		c.capAt = p.askBucket(r, req, start, store.Take{Limit: key.Limit.Limit, Hits: c.hits})
	}
}

// askBucket appends take, on the bucket with the key p.keys[start:], and returns where.
// With match: path it is asked once for each request, as quotas are.
func (p *plan) askBucket(r *retry, req *Request, start int, take store.Take) int {
	take.Key = p.keys[start:len(p.keys):len(p.keys)]
	if p.domain(req.Domain).Match == rules.Path {
		for i := r.asked.from; i < len(p.again); i++ {
			if t := &p.again[i]; p.againOf[i] < 0 && bytes.Equal(t.Key, take.Key) {
				t.Hits = max(t.Hits, take.Hits)
				return i
			}
		}
	}
	p.addAgain(-1, take)
	return len(p.again) - 1
}

// keyOf returns the value of the entry with that key in descriptor i of req, else in
// another one, "" where there is none.
func keyOf(req *Request, i int, key string) string {
	if value := factNamed(req.Descriptors[i].Entries, key); value != "" {
		return value
	}
	for i := range req.Descriptors {
		if value := factNamed(req.Descriptors[i].Entries, key); value != "" {
			return value
		}
	}
	return ""
}

// settleRetry reads the answer to r. It reports whether the request is denied again and
// there is more that may cover it.
func (p *plan) settleRetry(r *retry, req *Request, resp *Response) (again bool) {
	for i := r.asked.from; i < r.asked.to; i++ {
		if p.againResults[i].Err != nil {
			p.addUndo(r)
			return false
		}
	}
	denied := false
	for at := r.first; at != 0; at = p.covers[at-1].next {
		c := &p.covers[at-1]
		if p.deniedAgain(c.at) || c.capAt >= 0 && p.deniedAgain(c.capAt) {
			denied = true
			if !c.advance() {
				return false
			}
		}
	}
	for i := r.asked.from; i < r.asked.to; i++ {
		if t := p.againOf[i]; t >= 0 && p.deniedAgain(i) {
			denied = true
			if v := p.deniedBy(r, resp, t); v == nil || !p.cover(r, req, v, t) {
				return false
			}
		}
	}
	if !denied {
		p.pass(r, resp)
	}
	return denied
}

// deniedAgain reports whether take i of those that were asked holds its group back.
func (p *plan) deniedAgain(i int) bool { return holdsBack(&p.again[i], &p.againResults[i]) }

// holdsBack reports whether r, the answer to t, denies and is enforced.
func holdsBack(t *store.Take, r *store.Result) bool {
	return t.Op == store.Hit && !t.Shadow && !r.Allowed
}

// deniedBy returns the verdict by which take t denies the request of r.
func (p *plan) deniedBy(r *retry, resp *Response, t int) *Verdict {
	from := p.spans[r.request].verdicts.from
	for i := range resp.Verdicts {
		if p.verdictTake[from+i] == t && resp.Verdicts[i].Enforced() {
			return &resp.Verdicts[i]
		}
	}
	return nil
}

// advance goes on to what covers c next, and reports whether there is anything.
func (c *cover) advance() bool {
	if c.pool != nil {
		c.pool = nil
	} else {
		c.span.from++
	}
	return c.span.from < c.span.to
}

// pass answers the request of r by what it was charged now.
func (p *plan) pass(r *retry, resp *Response) {
	s := p.spans[r.request]
	for i := r.asked.from; i < r.asked.to; i++ {
		if t := p.againOf[i]; t >= 0 {
			p.results[t] = p.againResults[i]
		}
	}
	for i := range resp.Verdicts {
		t := p.verdictTake[s.verdicts.from+i]
		if t < 0 || p.coverOf[t] == 0 {
			continue
		}
		p.results[t] = store.Result{Decision: p.speak(&p.covers[p.coverOf[t]-1], &resp.Verdicts[i])}
	}
	resp.Hold = s.hold
	p.answer(resp, s.verdicts)
}

// speak makes v the verdict of c in place of that of a quota, and returns its decision.
func (p *plan) speak(c *cover, v *Verdict) limit.Decision {
	v.Hits = c.hits
	if c.pool == nil {
		g := p.grants[c.span.from]
		v.Source, v.Limit, v.Name = tenant.FromTopUp, g.Shown, tenant.TopUpName
		d := p.againResults[c.at].Decision
		d.ResetAfter = time.Duration(g.Until()-p.instant()) * time.Microsecond
		return d
	}
	v.Source, v.Limit, v.Name = tenant.FromPool, c.pool.Limit.Limit, c.pool.Name
	d := p.againResults[c.at].Decision
	if c.capAt >= 0 && p.againResults[c.capAt].Remaining < d.Remaining {
		v.Limit, v.Name = c.pool.PerKey.Limit.Limit, c.pool.PerKey.Name
		d = p.againResults[c.capAt].Decision
	}
	return d
}

// addUndo adds what gives back what was charged for r, of which the store could not
// decide some: as addGiveBacks does.
func (p *plan) addUndo(r *retry) {
	denied := false
	for i := r.asked.from; i < r.asked.to; i++ {
		denied = denied || p.againResults[i].Err == nil && (p.againResults[i].Skipped || p.deniedAgain(i))
	}
	for i := r.asked.from; i < r.asked.to; i++ {
		t, result := &p.again[i], &p.againResults[i]
		switch {
		case result.Err != nil:
			if mayHold(t, result.Err) {
				p.undo = append(p.undo, t.Undo())
			}
		case denied || t.Op != store.Hit || t.Hits == 0 || !result.Allowed:
		case t.Limit.Algorithm == limit.Concurrency && t.Hold == 0, t.Limit.Algorithm == limit.Ban, t.Limit.CountDenied:
		default:
			p.undo = append(p.undo, t.Undo())
		}
	}
}
