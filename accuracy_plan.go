package headgate

import (
	"context"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
)

// How the decisions of sampled keys are measured.
//
// For each main limit with such a key the batch has one more take, behind all others, on
// its reference. It stands alone, since in a group it would take part in what is being
// measured: of a group that is denied by what is remembered nothing is asked, and one over
// several shards costs a trip more. So a reference never holds anything back, and no
// verdict tells of it: whoever is told of verdicts, such as metrics and answers, is told
// what a client could be told.
//
// The reference shall have counted what the limit let pass, and nothing else, also for
// those who look at it meanwhile.
//
//   - A limit that decides alone asks the same of its reference. Mostly both say the same,
//     and the reference is right already. What differs the follow-up call puts right:
//     hits that passed and did not fit are charged, hits that fit and did not pass are
//     given back.
//   - Of a limit in a group nobody knows beforehand what the others say, and they may deny
//     at any rate. It peeks, and what has passed is charged in the follow-up call, whose
//     answer says whether it fit.

// measurement is the comparison of one decision.
type measurement struct {
	// request and verdict say which decision, of is its take.
	request, verdict, of int
	// take is that on the reference, at 1 + its correction in the follow-up call, 0 for
	// none.
	take, at int
	ref      *reference
	counts   AccuracyCounts
}

// addMeasurements appends the takes on references of the requests that are planned.
func (p *plan) addMeasurements(responses []Response) {
	sampled := p.limiter.accuracy.sample
	for i := range responses {
		first := len(p.measurements)
		s := p.spans[i].verdicts
		for j, t := range p.verdictTake[s.from:s.to] {
			if t < 0 || !sampled.has(p.keyOf(t)) || p.measured(first, t) {
				continue
			}
			if ref := p.referenceOf(&responses[i].Verdicts[j], t); ref != nil {
				p.addMeasurement(measurement{request: i, verdict: j, of: t, ref: ref})
			}
		}
	}
}

// measured reports whether one of the measurements since first is of take t: verdicts of
// one request may share a bucket.
func (p *plan) measured(first, t int) bool {
	for i := first; i < len(p.measurements); i++ {
		if p.measurements[i].of == t {
			return true
		}
	}
	return false
}

// referenceOf returns the reference of take t, to which v belongs; nil where it is none
// that can be measured.
func (p *plan) referenceOf(v *Verdict, t int) *reference {
	take := &p.takes[t]
	if v.Role != rules.Main || v.Rule == nil || v.Limit == nil || v.Watched || take.Hits == 0 && take.Op != store.Reset {
		return nil
	}
	return p.limiter.accuracy.of(v.Limit)
}

// keyOf returns the key of take t.
func (p *plan) keyOf(t int) []byte {
	from := 0
	if t > 0 {
		from = p.ends[t-1]
	}
	return p.keys[from:p.ends[t]]
}

// addMeasurement appends the take of m: what the limit is asked, so that refunds, resets
// and charges reach the reference as well, but a peek where it is in a group. It has no
// mode, so that it is decided exactly and is no hot key; that it is denied may be
// remembered, as of any.
func (p *plan) addMeasurement(m measurement) {
	take := p.takes[m.of]
	if take.Op == store.Hit && take.Group != 0 {
		take.Hits = 0
	}
	m.take = len(p.takes)
	p.keys = descriptor.AppendReferenceKey(p.keys, p.keyOf(m.of))
	p.ends = append(p.ends, len(p.keys))
	p.addTake(store.Take{Limit: m.ref.exact, Hits: take.Hits, Op: take.Op}, NotLocal)
	p.measurements = append(p.measurements, m)
}

// addCorrections judges the decisions that are measured, and appends what makes their
// references right.
func (p *plan) addCorrections(responses []Response) {
	for i := range p.measurements {
		m := &p.measurements[i]
		take, r := p.takes[m.take], &p.results[m.take]
		if take.Op != store.Hit {
			continue
		}
		if r.Err != nil {
			m.counts.Missed = 1
			continue
		}
		hits := p.takes[m.of].Hits
		fits, peeked := r.Allowed && (take.Hits > 0 || r.Remaining >= hits), take.Hits == 0
		passed := p.compared(m, &responses[m.request], fits)
		switch {
		case passed && (peeked || !fits):
			take.Op, take.Limit, take.Hits = store.Charge, m.ref.wide, hits
		case !passed && !peeked && fits:
			take.Op = store.Refund
		default:
			continue
		}
		p.addAgain(-1, take)
		m.at = len(p.again)
	}
}

// compared counts what m came to, and reports whether the limit let its hits pass. In a
// group that is the group's doing too.
func (p *plan) compared(m *measurement, resp *Response, fits bool) (passed bool) {
	v := &resp.Verdicts[m.verdict]
	denied := !v.Decision.Allowed
	passed = !denied && !v.Skipped && !v.Source.Beyond() && (p.takes[m.of].Group == 0 || resp.Allowed)
	switch {
	case passed:
		m.counts.Decided = 1
		if !fits {
			m.counts.WrongAllowed = 1
		}
	case denied && resp.decidedBy(resp.ownOf(m.verdict)):
		m.counts.Decided = 1
		if fits {
			m.counts.WrongDenied = 1
		}
	}
	return passed
}

// ownOf returns the verdicts on the rule and the descriptor of verdict j.
func (r *Response) ownOf(j int) span {
	v, from := &r.Verdicts[j], j
	for from > 0 && r.Verdicts[from-1].Rule == v.Rule && r.Verdicts[from-1].Descriptor == v.Descriptor {
		from--
	}
	return span{from, r.sameRule(from)}
}

// readCorrections takes over what references say of hits that have passed: by how much they
// are too much, and where they were only peeked at before, whether they are.
func (p *plan) readCorrections() {
	for i := range p.measurements {
		m := &p.measurements[i]
		if m.at == 0 || p.again[m.at-1].Op != store.Charge {
			continue
		}
		r := &p.againResults[m.at-1]
		if r.Err != nil {
			m.counts = AccuracyCounts{Missed: 1}
			continue
		}
		m.counts.Overshoot = m.ref.overshoot(&r.Decision)
		if p.takes[m.take].Hits == 0 {
			m.counts.WrongAllowed = 0
			if m.counts.Overshoot > 0 {
				m.counts.WrongAllowed = 1
			}
		}
	}
}

// count counts what is measured, after the corrections.
func (p *plan) count(responses []Response) {
	for i := range p.measurements {
		m := &p.measurements[i]
		if m.counts == (AccuracyCounts{}) {
			continue
		}
		v := &responses[m.request].Verdicts[m.verdict]
		p.rules.gauges[v.Rule.Index()].add(&m.counts, m.ref, p.instant())
	}
}

// addReferences appends what references are told of the answers.
func (p *plan) addReferences(responses []Response) {
	switch {
	case len(p.measurements) > 0:
		p.addCorrections(responses)
	case p.reserves && p.limiter.accuracy != nil && responses[0].Allowed:
		p.addMirrored(&responses[0])
	}
}

// addMirrored appends what the takes of a reservation have charged and given back, for
// the references of those that are sampled. Reservations are not measured: what is known
// of their cost when they are decided is an estimate.
func (p *plan) addMirrored(resp *Response) {
	next := 0
	for i := range resp.Verdicts {
		t := p.verdictTake[i]
		if t < next {
			continue
		}
		next = t + 1 // verdicts that share a bucket have one take
		take, r := p.takes[t], &p.results[t]
		if !p.limiter.accuracy.sample.has(take.Key) {
			continue
		}
		ref := p.referenceOf(&resp.Verdicts[i], t)
		if ref == nil || r.Err != nil || r.Skipped || take.Op == store.Hit && !r.Allowed {
			continue
		}
		if take.Op == store.Hit {
			take.Op = store.Charge
		}
		start := len(p.keys)
		p.keys = descriptor.AppendReferenceKey(p.keys, take.Key)
		p.addAgain(-1, store.Take{Key: p.keys[start:len(p.keys):len(p.keys)], Limit: ref.exact, Hits: take.Hits, Op: take.Op})
	}
}

// mirror tells references what settling a reservation has charged and given back.
func (l *Limiter) mirror(ctx context.Context, p *plan, resp *Response) {
	p.again, p.againOf = p.again[:0], p.againOf[:0]
	if p.addMirrored(resp); len(p.again) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), followUpWithin)
	defer cancel()
	l.takeAgain(ctx, l.store, p)
}
