package headgate

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/headgate/headgate/internal/once"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/repeat"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/verdict"
)

// CheckOnce is Check for requests of which some carry an id: ids[i] names the check of
// requests[i], "" names none. A check with an id is decided and charged once; one that
// repeats it, on whatever node, gets the first answer and is charged nothing. It is a
// repetition when its id, its domain and the entries of its descriptors are the same. Where
// its hits, operations, limits or attributes differ then, the error is repeat.ErrConflict,
// and nothing of the call is decided; but where another call gave the id up and a third took it
// while this one waited, the rest of the call has been decided by then.
//
// The first answer is whether the request may pass, what each limit said of itself, and
// what it holds; its times are counted down, so that they name the same instants. It is
// remembered for a minute, or as long as DoorOptions say; a denial no longer than until the request would pass,
// and not at all when the store did not decide.
//
// A check that was begun is decided to its end, also when ctx ends, because a repetition
// needs its answer. One that repeats it meanwhile waits for the answer, for as long as
// Options.AnswersAwaited, but no longer than half of the time of ctx. When there is none by then, as the
// node has died, it is told what would be decided, and charged nothing. So a check is never
// charged twice as long as the store keeps what it has acknowledged; when it does not say
// whether an id is taken, nothing is charged, and failure modes answer. Only when the store
// has no room for another id the check is decided as one without.
//
// Observers are told of the first check alone.
func (l *Limiter) CheckOnce(ctx context.Context, requests []Request, ids []string, responses []Response) error {
	if !carriesID(ids) {
		return l.Check(ctx, requests, responses)
	}
	o := &onceCall{limiter: l, requests: requests, responses: responses, rights: &everyRight}
	return o.checked(ctx, ids, repeat.DefaultLifetime)
}

// carriesID reports whether a check has an id.
func carriesID(ids []string) bool {
	return slices.ContainsFunc(ids, func(id string) bool { return id != "" })
}

// CheckIDs returns what came of checks with an id so far.
func (l *Limiter) CheckIDs() repeat.Counts { return l.answers.Counts() }

// CheckOnce is Limiter.CheckOnce for the callers of d. It sets Origin.Front of the
// requests. Its error may be a *RightsError.
func (d *Door) CheckOnce(ctx context.Context, requests []Request, ids []string, responses []Response) error {
	if !carriesID(ids) {
		return d.Check(ctx, requests, responses)
	}
	d.name(requests)
	o := &onceCall{limiter: d.limiter, requests: requests, responses: responses, rights: &d.options.Rights}
	return d.checked(requests, o.checked(ctx, ids, repeat.Lifetime(d.options.AnswersLast)))
}

// onceCall is one call of checks of which some carry an id. It is their once.Decider.
type onceCall struct {
	limiter   *Limiter
	requests  []Request
	responses []Response
	rights    *Rights
	once.Call
}

// checked is check, and leaves nothing Allowed where that ends with an error.
func (o *onceCall) checked(ctx context.Context, ids []string, lasts time.Duration) error {
	if err := o.check(ctx, ids, lasts); err != nil {
		return refused(o.responses, err)
	}
	return nil
}

// check answers the requests, of which ids name some, and has the answers to these
// remembered for so long.
func (o *onceCall) check(ctx context.Context, ids []string, lasts time.Duration) error {
	l := o.limiter
	if len(ids) != len(o.requests) {
		return fmt.Errorf("check: %d requests but %d ids; hint: give one id for each request, \"\" for none", len(o.requests), len(ids))
	}
	if l.answers.Store == nil {
		return fmt.Errorf("check: %w", repeat.ErrNoStore)
	}
	if err := admit(o.requests, o.responses, o.rights); err != nil {
		return err
	}
	if err := l.permitRefunds(o.requests, o.rights); err != nil {
		return err
	}
	o.Call = l.answers.Begin(o, lasts)
	if err := o.name(ids); err != nil {
		return err
	}
	if err := o.Claim(ctx); err != nil {
		return err
	}
	if err := o.decide(ctx); err != nil {
		o.GiveUp(ctx)
		return err
	}
	o.Keep(ctx)
	for i := range o.Checks {
		if err := o.answerAsOthers(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// name adds the checks that carry an id.
func (o *onceCall) name(ids []string) error {
	var room, about []byte
	for i, id := range ids {
		if id == "" {
			continue
		}
		if err := repeat.ValidateID(id); err != nil {
			return fmt.Errorf("check: request %d: %w", i, err)
		}
		req := &o.requests[i]
		about, room = about[:0], room[:0]
		for j := range req.Descriptors {
			d := &req.Descriptors[j]
			about = repeat.AppendEntries(about, d.Entries)
			room = binary.AppendUvarint(append(room, byte(d.Op)), uint64(d.Hits))
			if d.Limit != nil {
				room = repeat.AppendSpec(append(room, 1), &d.Limit.Spec)
			} else {
				room = append(room, 0)
			}
		}
		f := repeat.FingerprintOf(repeat.AppendEntries(room, req.Attributes))
		if err := o.Add(i, repeat.AppendKey(nil, req.Domain, id, about), f); err != nil {
			return err
		}
	}
	return nil
}

// decide decides the requests that are decided now: those without an id and those that
// nobody has decided.
func (o *onceCall) decide(ctx context.Context) error {
	skip := make([]bool, len(o.requests))
	for i := range o.Checks {
		n := &o.Checks[i]
		skip[n.Request] = !n.Stand.Decides()
		if n.Stand == once.Mine {
			ctx = context.WithoutCancel(ctx)
		}
	}
	if !slices.Contains(skip, true) {
		return o.limiter.check(ctx, o.requests, o.responses, o.rights)
	}
	var requests []Request
	var responses []Response
	var of []int // in the call
	for i := range o.requests {
		if !skip[i] {
			requests, responses, of = append(requests, o.requests[i]), append(responses, o.responses[i]), append(of, i)
		}
	}
	if len(of) == 0 {
		return nil
	}
	err := o.limiter.check(ctx, requests, responses, o.rights)
	for i := range of {
		o.responses[of[i]] = responses[i]
	}
	if refused, ok := err.(*RightsError); ok {
		refused.Request = of[refused.Request]
	}
	return err
}

// Decide implements once.Decider.
func (o *onceCall) Decide(ctx context.Context, i int) error {
	return refusedAt(i, o.limiter.check(ctx, o.requests[i:i+1], o.responses[i:i+1], o.rights))
}

// Foresee implements once.Decider.
func (o *onceCall) Foresee(ctx context.Context, i int) error {
	var before Response
	if err := o.limiter.DryRun(ctx, &o.requests[i], &before, &o.responses[i]); err != nil {
		return fmt.Errorf("check: %w", err)
	}
	return nil
}

// Answer implements once.Decider.
func (o *onceCall) Answer(i int, f repeat.Fingerprint, most time.Duration) ([]byte, time.Duration) {
	resp := &o.responses[i]
	lasts := resp.lasts(most)
	if lasts <= 0 {
		return nil, 0
	}
	return resp.appendAnswer(nil, f, lasts), lasts
}

// answerAsOthers answers check i where it was not decided now: by what another call has
// decided, or an earlier check of this one, or as failure modes do.
func (o *onceCall) answerAsOthers(ctx context.Context, i int) error {
	stand, err := o.Resolve(ctx, i)
	if err != nil {
		return err
	}
	n := &o.Checks[i]
	requests, responses := o.requests[n.Request:n.Request+1], o.responses[n.Request:n.Request+1]
	switch stand {
	case once.Repeats:
		first, resp := &o.responses[n.Twin], &responses[0]
		verdicts := append(resp.Verdicts[:0], first.Verdicts...)
		*resp = *first
		resp.Verdicts = verdicts
	case once.Answered:
		o.limiter.replay(requests, &n.Answer, responses)
	case once.Unknown:
		o.limiter.answerAway(ctx, requests, responses, n.Err)
		o.limiter.tell(&requests[0], &responses[0], NotTimed)
	}
	return nil
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

// replay fills in responses, which is one, by an answer to its request that was remembered.
// What rules and limits are called there is looked up among those in force; a limit whose
// rule is gone is answered as one without a rule.
func (l *Limiter) replay(requests []Request, a *repeat.Answer, responses []Response) {
	p := l.begin(l.switches.Load())
	defer l.finish(p, responses)
	var now Response
	p.addRequest(&requests[0], &now)
	resp := &responses[0]
	resp.Allowed, resp.DomainKnown, resp.ID, resp.Hold, resp.HoldFor = a.Allowed, now.DomainKnown, a.Decision, a.Hold, a.HoldFor
	resp.Verdicts = resp.Verdicts[:0]
	for i := range a.Limits {
		resp.Verdicts = append(resp.Verdicts, now.recall(&a.Limits[i], i))
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

// answerAway answers requests as if the store had failed with err, which is not asked: the
// fallback and the failure modes of the rules decide.
func (l *Limiter) answerAway(ctx context.Context, requests []Request, responses []Response, err error) {
	p := l.begin(l.switches.Load())
	defer l.finish(p, responses)
	p.addRequests(requests, responses)
	p.bindKeys()
	for i := range p.results {
		p.results[i] = store.Result{Err: err}
	}
	l.fallBack(ctx, &p.batch)
	p.answerAll(responses)
}
