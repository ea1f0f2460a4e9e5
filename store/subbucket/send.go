package subbucket

import (
	"context"
	"slices"
	"time"

	"github.com/headgate/headgate/store"
)

func (w *work) clearSent() {
	w.sent, w.sentTo, w.keys = w.sent[:0], w.sentTo[:0], w.keys[:0]
}

// ask asks the store beneath for what is to be sent.
func (w *work) ask(ctx context.Context) {
	w.received = slices.Grow(w.received[:0], len(w.sent))[:len(w.sent)]
	clear(w.received)
	w.store.inner.Take(ctx, w.sent, w.received)
}

// add adds hits on one part.
func (w *work) add(p *split, t *store.Take, op store.Op, part int, hits int64) {
	sent := *t
	w.keys, sent.Key = appendKey(w.keys, t.Key, byte(part))
	sent.Op, sent.Hits, sent.Limit, sent.Group = op, hits, p.limits[part], 0
	w.sent = append(w.sent, sent)
	w.sentTo = append(w.sentTo, part)
}

// addToAll adds a peek or a reset of all parts.
func (w *work) addToAll(p *split, t *store.Take, op store.Op) {
	for part := range p.limits {
		w.add(p, t, op, part, 0)
	}
}

// addShares adds the parts that have a share.
func (w *work) addShares(p *split, t *store.Take, shares *left) {
	for part := range p.limits {
		if shares[part] > 0 {
			w.add(p, t, t.Op, part, shares[part])
		}
	}
}

// send sends all runs that are open.
func (w *work) send(ctx context.Context) {
	w.clearSent()
	group := uint32(0)
	for k := range w.runs {
		r := &w.runs[k]
		if !r.open {
			continue
		}
		r.sent = len(w.sent)
		joined := w.takes[r.from].Group != 0
		for i := r.from; i < r.to; i++ {
			joined = w.assign(i) || joined
		}
		if joined {
			group++
			for j := r.sent; j < len(w.sent); j++ {
				w.sent[j].Group = group
			}
		}
	}
	w.ask(ctx)
}

// assign adds what take i is sent as, and reports whether that is all or
// nothing. What it takes is taken from what is believed to be left, so that the
// next take on this bucket in the same batch sees it.
func (w *work) assign(i int) (joined bool) {
	t, p := &w.takes[i], w.split(i)
	if p == nil {
		sent := *t
		if sent.Group = 0; marked(t.Key) {
			w.keys, sent.Key = appendKey(w.keys, t.Key, plain)
		}
		w.sent = append(w.sent, sent)
		w.sentTo = append(w.sentTo, 0)
		return false
	}
	before := len(w.sent)
	switch {
	case t.Op == store.Reset:
		w.addToAll(p, t, store.Reset)
		copy(p.left[:], p.capacities)
	case t.Op == store.Refund && t.Hits > 0:
		shares := p.left.used(p.parts, min(t.Hits, p.whole))
		w.addShares(p, t, &shares)
		p.take(&shares, -1)
	case t.Op == store.Charge && t.Hits > 0:
		w.assignCharge(p, t)
	case t.Op == store.Hit && t.Hits > p.whole:
		w.add(p, t, store.Hit, 0, t.Hits) // which denies a group
		w.addToAll(p, t, store.Hit)
	case t.Op == store.Hit && t.Hits > 0:
		joined = w.assignHit(p, t)
	}
	if len(w.sent) == before { // a peek, or as good as one
		w.addToAll(p, t, store.Hit)
	}
	p.sent = len(w.sent) - before
	return joined
}

// assignHit puts a hit into the part that is chosen, or when all parts have been
// looked at into the best one, or into several if it fits into none.
func (w *work) assignHit(p *split, t *store.Take) (joined bool) {
	part := p.left.choose(p.parts, t.Hits)
	if p.fresh {
		part = p.left.most(p.parts)
	}
	p.hopeless = p.fresh && p.left.sum(p.parts) < t.Hits
	shadow := t.Shadow && t.Group != 0
	if !p.fresh || p.left[part] >= t.Hits || shadow && p.hopeless && t.Hits <= p.least {
		w.add(p, t, store.Hit, part, t.Hits)
		p.left[part] = max(p.left.believed(p.parts, part)-t.Hits, 0)
		return false
	}
	shares := p.left.spread(p.parts, t.Hits)
	whole := *t
	whole.Shadow = shadow // alone, it is not to be charged by halves
	w.addShares(p, &whole, &shares)
	p.take(&shares, 1)
	if !w.dry {
		w.store.spread.Add(1)
	}
	return true
}

// assignCharge puts a charge into one part, or evenly into all.
func (w *work) assignCharge(p *split, t *store.Take) {
	if t.Hits <= p.least {
		part := p.left.choose(p.parts, t.Hits)
		w.add(p, t, store.Charge, part, t.Hits)
		p.left[part] = max(p.left.believed(p.parts, part)-t.Hits, 0)
		return
	}
	var shares left
	for part := range p.limits {
		shares[part] = share(t.Hits, len(p.limits), part)
	}
	w.addShares(p, t, &shares)
	p.take(&shares, 1)
}

// take takes shares, times sign, from what is believed to be left.
func (p *split) take(shares *left, sign int64) {
	for i := range p.limits {
		if shares[i] > 0 {
			p.left[i] = max(p.left.believed(p.parts, i)-sign*shares[i], 0)
		}
	}
}

// read turns what was received into results, and ends the runs that are decided:
// all, when this was the last try.
func (w *work) read(last bool) {
	for k := range w.runs {
		r := &w.runs[k]
		if !r.open {
			continue
		}
		at := r.sent
		for i := r.from; i < r.to; i++ {
			p := w.split(i)
			if p == nil {
				w.results[i] = w.received[at]
				at++
				continue
			}
			w.results[i] = w.join(&w.takes[i], p, at, at+p.sent)
			at += p.sent
		}
		if last || !w.tryAgain(r) {
			w.end(r)
		}
	}
}

// join makes one result of those of the parts that t was sent to.
func (w *work) join(t *store.Take, p *split, from, to int) (result store.Result) {
	if err := w.see(p, from, to); err != nil {
		return store.Result{Err: err}
	}
	d := &result.Decision
	d.Limit, d.ResetAfter = p.whole, p.reset
	d.Remaining = p.left.sum(p.parts)
	parts := w.received[from:to]
	switch {
	case t.Op != store.Hit || t.Hits <= 0:
		d.Allowed, d.RetryAfter = joinPeeks(parts)
		return result
	case t.Hits > p.whole:
		d.Never = true
	default:
		d.Allowed, d.RetryAfter = joinHits(parts)
	}
	if !d.Allowed {
		d.Remaining = min(d.Remaining, t.Hits-1)
	}
	return result
}

// joinHits says whether all parts allow their share, and when the last will.
func joinHits(parts []store.Result) (allowed bool, retryAfter time.Duration) {
	allowed = true
	for i := range parts {
		if !parts[i].Allowed {
			allowed, retryAfter = false, max(retryAfter, parts[i].RetryAfter)
		}
	}
	return allowed, retryAfter
}

// joinPeeks says whether any part would let pass something, and when the first
// will.
func joinPeeks(parts []store.Result) (allowed bool, retryAfter time.Duration) {
	for i := range parts {
		if parts[i].Allowed {
			return true, 0
		}
		if r := parts[i].RetryAfter; i == 0 || r < retryAfter {
			retryAfter = r
		}
	}
	return false, retryAfter
}

// tryAgain reports whether a denial of a run is not sure yet, because other parts
// may let pass what one has denied, and prepares the next try. That is also so in
// a group which something else holds back for sure: its results are to say who
// does, and who does not.
func (w *work) tryAgain(r *run) bool {
	again := false
	for i := r.from; i < r.to; i++ {
		if w.results[i].Err != nil {
			return false
		}
		p := w.split(i)
		unsure := p != nil && w.takes[i].Hits > 0 && !w.results[i].Never && !p.hopeless
		again = again || unsure && w.holdsBack(i)
	}
	if !again {
		return false
	}
	for i := r.from; i < r.to; i++ {
		if p := w.split(i); p != nil {
			t := &w.takes[i]
			p.denied = w.holdsBack(i)
			p.look = p.looksFirst(t) || t.Op == store.Hit && t.Hits > 0 && t.Hits <= p.whole
			p.fresh, p.reset = false, 0
		}
	}
	if !w.dry {
		w.store.again.Add(1)
	}
	return true
}

// holdsBack reports whether take i is denied, and its run with it.
func (w *work) holdsBack(i int) bool {
	t := &w.takes[i]
	return t.Op == store.Hit && !w.results[i].Allowed && (t.Group == 0 || !t.Shadow)
}
