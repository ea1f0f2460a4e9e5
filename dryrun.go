package headgate

import (
	"context"
	"fmt"
	"slices"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// DryRun tells what Check would say of req now, and charges nothing: before has the
// limits as a peek finds them, after as the request would leave them, each with the same
// verdicts in the same order. Both are of one instant. No observer is told, and req is
// left alone. The verdict slices are reused.
//
// after has the verdicts and times of the answer of Check, to the microsecond. Its counts
// are those after all that Check does, which are those that it answers, but for what a
// denied request gives back and for denials towards bans. A request without a Hold takes
// no slot. Layers of the store that decide by what one node knows say in their packages
// what they tell of it.
//
// Neither before nor after may be nil. An error says what is wrong with req, see Check.
func (l *Limiter) DryRun(ctx context.Context, req *Request, before, after *Response) error {
	if err := req.validate(); err != nil {
		before.empty()
		after.empty()
		return fmt.Errorf("dry run: %w", err)
	}
	p := l.begin(l.switches.Load())
	requests, responses := [1]Request{*req}, [1]Response{{Verdicts: after.Verdicts[:0]}}
	defer func() { *after = responses[0] }()
	defer l.finish(p, responses[:])
	resp := &responses[0]
	p.dryRun = true
	p.addRequest(&requests[0], resp)
	p.bindKeys()
	n := len(p.takes)
	takes, results := make([]store.Take, 2*n), make([]store.Result, 2*n)
	for i, t := range p.takes {
		t.DryRun = true
		takes[i], takes[n+i] = store.Take{Key: t.Key, Limit: t.Limit, Shadow: t.Shadow, DryRun: true, Mode: t.Mode}, t
	}
	l.take(ctx, l.store, takes, results)
	*before = *resp
	before.Verdicts = append([]Verdict(nil), resp.Verdicts...)
	peeks, _ := l.answerDryRun(ctx, &p.batch, takes[:n], results[:n], before)
	_, fellBack := l.answerDryRun(ctx, &p.batch, takes[n:], results[n:], resp)
	l.coverDenials(ctx, p, requests[:], responses[:], nil)
	l.countDryRun(ctx, l.store, &p.batch, responses[:], peeks, false)
	if fellBack {
		l.countDryRun(ctx, l.fallback, &p.batch, responses[:], peeks, true)
	}
	p.answer(resp, p.spans[0].verdicts)
	return nil
}

// answerDryRun answers resp by what the store has said of takes, and the fallback where
// that is asked. It returns what they have said, and whether the fallback was asked.
func (l *Limiter) answerDryRun(ctx context.Context, b *batch, takes []store.Take, results []store.Result, resp *Response) (said []store.Result, fellBack bool) {
	copy(b.takes, takes)
	copy(b.results, results)
	b.clearAgain()
	fellBack = l.fallBack(ctx, b)
	b.answer(resp, b.spans[0].verdicts)
	return slices.Clone(b.results), fellBack
}

// countDryRun counts what is done after the answer, by s: a denied request
// gives back what it took, and denials lead to bans. What the store undoes itself, and
// what is given back to buckets that know nothing of it, leaves what peeks have found.
func (l *Limiter) countDryRun(ctx context.Context, s store.Store, b *batch, responses []Response, peeks []store.Result, locally bool) {
	count := func(t int, said *store.Result) {
		if said.Err == nil || locally {
			b.results[t].Remaining, b.results[t].ResetAfter = said.Remaining, said.ResetAfter
		}
	}
	b.clearAgain()
	b.addCompensation(responses, false, locally)
	if locally {
		b.sayParts()
	}
	l.takeAgain(ctx, s, b)
	if _, denied := b.fate(b.spans[0].takes, locally); denied {
		for t := range b.takes {
			if b.takes[t].Group != 0 && b.decided(t, locally) {
				count(t, &peeks[t])
			}
		}
	}
	for i, t := range b.againOf {
		said := &b.againResults[i]
		if b.again[i].Op == store.Refund && b.again[i].Limit.Algorithm != limit.Concurrency {
			said = &peeks[t]
		}
		count(t, said)
	}
}

// Peek tells what is left of the limits that Check would ask, and charges nothing: it asks for 0
// hits, whatever the hits and Ops of the requests, which are left alone. So a Response is Allowed
// also where a hit would be denied; DryRun tells what Check would say. It tells no observer, and
// rules that are switched off answer too, by what they have counted.
func (l *Limiter) Peek(ctx context.Context, requests []Request, responses []Response) error {
	return l.decideUnseen(ctx, "peek", store.Hit, requests, responses)
}

// PeekIn is Peek on s in place of the store of the limiter: on a store that has the same buckets as
// they were a moment ago, such as a replica. It asks s once and does nothing else: it compensates
// nothing, and does not ask the burst pools and top-ups of tenants whose quotas deny.
func (l *Limiter) PeekIn(ctx context.Context, s store.Store, requests []Request, responses []Response) error {
	requests, err := unseen("peek", store.Hit, requests, responses)
	if err != nil {
		return err
	}
	p := l.begin(nil)
	defer l.finish(p, responses)
	p.addRequests(requests, responses)
	p.bindKeys()
	l.exchange(ctx, s, &p.batch)
	p.answerAll(responses)
	return nil
}

// Forget is Check for the resets of operators, who ask for no decision: it asks for resets,
// whatever the hits and Ops of the requests, which are left alone. It tells no observer, and
// reaches rules that are switched off too.
func (l *Limiter) Forget(ctx context.Context, requests []Request, responses []Response) error {
	return l.decideUnseen(ctx, "forget", store.Reset, requests, responses)
}

// decideUnseen decides op, without hits, and tells no observer.
func (l *Limiter) decideUnseen(ctx context.Context, what string, op store.Op, requests []Request, responses []Response) error {
	requests, err := unseen(what, op, requests, responses)
	if err != nil {
		return err
	}
	_, err = l.decide(ctx, requests, responses, nil, &everyRight)
	return err
}

// unseen returns copies of requests whose descriptors all ask for op, without hits. They are copies
// because the caller may have the requests decided after that.
func unseen(what string, op store.Op, requests []Request, responses []Response) ([]Request, error) {
	if err := oneForEach(what, requests, responses); err != nil {
		return nil, refused(responses, err)
	}
	requests = slices.Clone(requests)
	for i := range requests {
		list := slices.Clone(requests[i].Descriptors)
		for j := range list {
			list[j].Op, list[j].Hits = op, 0
		}
		requests[i].Descriptors = list
		if err := requests[i].validate(); err != nil {
			return nil, refused(responses, fmt.Errorf("%s: request %d: %w", what, i, err))
		}
	}
	return requests, nil
}
