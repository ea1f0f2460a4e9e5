package headgate

import (
	"bytes"
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/repeat"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/verdict"
)

// answerMemory is where the answers to checks with an id are remembered, and counts what
// came of them.
type answerMemory struct {
	store store.Swapper // nil: nowhere
	// patience is how long a check waits for the answer to the one that it repeats.
	patience time.Duration

	first, repeated, abandoned, conflicts, forgotten, undecided atomic.Uint64
}

// remember fills in what o says.
func (m *answerMemory) remember(o *Options) {
	m.store, m.patience = o.Answers, cmp.Or(o.AnswersAwaited, awaitWithin)
	if m.store == nil {
		m.store, _ = o.Store.(store.Swapper)
	}
}

func (m *answerMemory) counts() repeat.Counts {
	return repeat.Counts{
		First: m.first.Load(), Repeated: m.repeated.Load(), Abandoned: m.abandoned.Load(),
		Conflicts: m.conflicts.Load(), Forgotten: m.forgotten.Load(), Undecided: m.undecided.Load(),
	}
}

// keptAnswer counts a check that was decided: kept says that the store has noted what is to
// be remembered of it.
func (m *answerMemory) keptAnswer(kept bool) {
	if kept {
		m.first.Add(1)
	} else {
		m.forgotten.Add(1)
	}
}

// lasts returns for how long the answer r is remembered, where others are for so long; 0
// for not at all. A denial is no longer true when the request would pass; and one that the
// store has not decided is not the last word.
func (r *Response) lasts(most time.Duration) time.Duration {
	if r.Allowed {
		return most
	}
	v := r.Speaker()
	switch {
	case r.Degraded() != store.NoReason:
		return 0
	case v == nil || v.Decision.Never:
		return most
	case v.Role == rules.InFlight:
		most = min(most, repeat.MaxSlotDenied)
	}
	return min(most, max(v.Decision.RetryAfter, time.Millisecond))
}

// appendAnswer appends r as it is remembered for so long. Of an answer that is too long to
// be remembered whole, the verdict that speaks for it is.
func (r *Response) appendAnswer(dst []byte, f repeat.Fingerprint, lasts time.Duration) []byte {
	a := repeat.Answer{Allowed: r.Allowed, Lasts: lasts, Decision: r.ID, Hold: r.Hold, HoldFor: r.HoldFor}
	a.Limits = make([]repeat.Limit, len(r.Verdicts))
	for i := range r.Verdicts {
		a.Limits[i] = r.Verdicts[i].remembered()
	}
	whole := a.Append(dst, f)
	if len(whole)-len(dst) <= store.MaxSwapValue {
		return whole
	}
	a.Limits = a.Limits[:0]
	if v := r.Speaker(); v != nil {
		a.Limits = append(a.Limits, v.remembered())
	}
	if short := a.Append(dst, f); len(short)-len(dst) <= store.MaxSwapValue {
		return short
	}
	a.Limits = nil // a name of hundreds of bytes
	return a.Append(dst, f)
}

// remembered returns what is remembered of v.
func (v *Verdict) remembered() repeat.Limit {
	l := repeat.Limit{
		Descriptor: v.Descriptor, Name: v.Name, Role: uint8(v.Role), Source: uint8(v.Source), Effect: v.Effect,
		By: v.By, Degraded: v.Degraded, Hits: v.Hits, Decision: v.Decision,
	}
	if v.By.OfStore() {
		l.By = verdict.ByStore // which of them is for those who watch now, and no text of an answer
	}
	if v.Rule != nil {
		l.Rule = v.Rule.ID
	}
	if v.Limit != nil {
		l.Spec = repeat.AppendSpec(nil, &v.Limit.Spec)
	}
	return l
}

// replay fills in resp by an answer to req that was remembered. What rules and limits are
// called there is looked up among those in force; a limit whose rule is gone is answered as
// one without a rule.
func (l *Limiter) replay(req *Request, a *repeat.Answer, resp *Response) {
	p := l.begin(l.switches.Load())
	responses := [1]Response{{Verdicts: resp.Verdicts[:0]}}
	defer func() { *resp = responses[0] }()
	defer l.finish(p, responses[:])
	var now Response
	p.addRequest(req, &now)
	r := &responses[0]
	r.Allowed, r.DomainKnown, r.ID, r.Hold, r.HoldFor = a.Allowed, now.DomainKnown, a.Decision, a.Hold, a.HoldFor
	for i := range a.Limits {
		r.Verdicts = append(r.Verdicts, now.recall(&a.Limits[i], i))
	}
}

// recall returns the verdict that was remembered as limit i; r has those of the rules in
// force, undecided.
func (r *Response) recall(l *repeat.Limit, i int) Verdict {
	v := Verdict{
		Descriptor: l.Descriptor, Name: l.Name, Role: rules.Role(l.Role), Source: tenant.Source(l.Source), Effect: l.Effect,
		By: l.By, Degraded: l.Degraded, Hits: l.Hits, Decision: l.Decision,
	}
	same := r.sameAs(l, i)
	if same != nil {
		v.Rule, v.Tenant, v.Depth, v.Tier = same.Rule, same.Tenant, same.Depth, same.Tier
	}
	switch {
	case len(l.Spec) == 0:
	case same != nil && same.Limit != nil && isSpec(same.Limit, l.Spec):
		v.Limit = same.Limit
	default:
		v.Limit = limitOf(l.Spec)
	}
	return v
}

// limitOf makes the limit that was remembered; nil where a newer version knows more than
// this one.
func limitOf(spec []byte) *limit.Limit {
	s, err := repeat.ReadSpec(spec)
	if err != nil {
		return nil
	}
	l, err := limit.New(s)
	if err != nil {
		return nil
	}
	return l
}

// sameAs returns the verdict of r that is of the limit l, which was the one at i.
func (r *Response) sameAs(l *repeat.Limit, i int) *Verdict {
	is := func(v *Verdict) bool {
		return v.Descriptor == l.Descriptor && v.Role == rules.Role(l.Role) && v.Rule != nil && v.Rule.ID == l.Rule
	}
	if i < len(r.Verdicts) && is(&r.Verdicts[i]) {
		return &r.Verdicts[i]
	}
	for j := range r.Verdicts {
		if is(&r.Verdicts[j]) {
			return &r.Verdicts[j]
		}
	}
	return nil
}

// isSpec reports whether l is the limit that was remembered.
func isSpec(l *limit.Limit, spec []byte) bool {
	var room [128]byte
	return bytes.Equal(repeat.AppendSpec(room[:0], &l.Spec), spec)
}

// answerAway answers req as if the store had failed with err, which is not asked: the
// fallback and the failure modes of the rules decide.
func (l *Limiter) answerAway(ctx context.Context, req *Request, resp *Response, err error) {
	responses := [1]Response{{Verdicts: resp.Verdicts[:0]}}
	l.decideAway(ctx, req, responses[:], err)
	*resp = responses[0]
	l.tell(req, resp, NotTimed)
}

func (l *Limiter) decideAway(ctx context.Context, req *Request, responses []Response, err error) {
	p := l.begin(l.switches.Load())
	defer l.finish(p, responses)
	p.addRequest(req, &responses[0])
	p.bindKeys()
	for i := range p.results {
		p.results[i] = store.Result{Err: err}
	}
	l.fallBack(ctx, &p.batch)
	p.answer(&responses[0], p.spans[0].verdicts)
}
