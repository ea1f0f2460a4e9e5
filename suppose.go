package headgate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// ErrSuppose is wrapped by the errors of Suppose for requests that are no hits.
var ErrSuppose = errors.New("only hits can be supposed")

// Suppose tells what Check would say of req now, and charges nothing: before has the
// limits as a peek finds them, after as the request would leave them, each with the same
// verdicts in the same order. No observer is told, and req is left alone. The verdict
// slices are reused.
//
// A peek does not tell all. Of a limit that denies, RetryAfter is 0 where only the store
// knows it (sliding_window, sub_windows, sliding_log); it is ResetAfter at most, unless the
// limit counts denied hits, which then weigh too. Of
// one that lets pass, ResetAfter stays what it was where only the store knows better (the
// windows). Slots are taken by nobody, and nothing is counted towards bans.
//
// An error says what is wrong with req, see Check and ErrSuppose.
func (l *Limiter) Suppose(ctx context.Context, req *Request, before, after *Response) error {
	if err := req.validate(); err != nil {
		return fmt.Errorf("suppose: %w", err)
	}
	for i := range req.Descriptors {
		if op := req.Descriptors[i].Op; op != store.Hit {
			return fmt.Errorf("suppose: descriptor %d: %w", i, ErrSuppose)
		}
	}
	p := l.begin()
	requests, responses := [1]Request{*req}, [1]Response{{Verdicts: after.Verdicts[:0]}}
	defer func() { *after = responses[0] }()
	defer l.finish(p, responses[:])
	resp := &responses[0]
	p.addRequest(&requests[0], resp)
	p.bindKeys()
	asked := slices.Clone(p.takes)
	asPeeks(p.takes)
	l.take(ctx, l.store, p.takes, p.results)
	l.fallBack(ctx, p)
	p.answer(resp, p.spans[0].verdicts)
	*before = *resp
	before.Verdicts = append([]Verdict(nil), resp.Verdicts...)
	copy(p.takes, asked)
	supposeAll(p.takes, p.results)
	p.answer(resp, p.spans[0].verdicts)
	p.supposes = true
	l.coverDenials(ctx, p, requests[:], responses[:])
	return nil
}

// asPeeks makes hits peeks, and parts groups.
func asPeeks(takes []store.Take) {
	for i := range takes {
		takes[i].Hits, takes[i].Hold, takes[i].Group = 0, 0, 0
	}
}

// supposeAgain is takeAgain for what is only supposed.
func (l *Limiter) supposeAgain(ctx context.Context, s store.Store, p *plan) {
	asked := slices.Clone(p.again)
	asPeeks(p.again)
	l.take(ctx, s, p.again, p.againResults)
	copy(p.again, asked)
	supposeAll(p.again, p.againResults)
}

// supposeAll turns the answers to peeks into those to takes, as a store gives them: all
// of a group or nothing.
func supposeAll(takes []store.Take, results []store.Result) {
	for i := 0; i < len(takes); {
		end := i + 1
		for takes[i].Group != 0 && end < len(takes) && takes[end].Group == takes[i].Group {
			end++
		}
		supposeGroup(takes[i:end], results[i:end])
		i = end
	}
}

func supposeGroup(takes []store.Take, results []store.Result) {
	denied := false
	for i := range takes {
		t, r := &takes[i], &results[i]
		denied = denied || r.Err == nil && !t.Shadow && !supposed(t, r.Decision).Allowed
	}
	for i := range takes {
		t, r := &takes[i], &results[i]
		d := supposed(t, r.Decision)
		if d.Allowed && denied {
			d = r.Decision
			d.Allowed = true
		}
		if !d.Allowed && t.Limit.CountDenied && (!denied || len(takes) == 1) {
			d.Remaining = 0 // the hits are counted, and more than there were
		}
		r.Decision = d
	}
}

// supposed returns what the limit of t says of it, given what it says of a peek.
func supposed(t *store.Take, peek limit.Decision) limit.Decision {
	d := peek
	if t.Hits == 0 {
		return d
	}
	l := t.Limit
	d.Allowed, d.Never, d.RetryAfter = t.Hits <= peek.Remaining, false, 0
	if l.Algorithm == limit.Ban || l.Algorithm == limit.Concurrency {
		// They count neither hits nor, here, slots.
		d.Allowed = peek.Remaining > 0
	}
	switch {
	case !d.Allowed:
		d.Never = t.Hits > d.Limit && l.Algorithm != limit.Ban
		if !d.Never {
			d.RetryAfter = retryAfter(l, t.Hits, peek.ResetAfter)
		}
	case l.Algorithm == limit.Ban || l.Algorithm == limit.Concurrency:
	default:
		d.Remaining -= t.Hits
		d.ResetAfter = resetAfter(l, t.Hits, peek.ResetAfter)
	}
	return d
}

// retryAfter returns when hits that do not fit would pass, 0 where that cannot be told.
func retryAfter(l *limit.Limit, hits int64, reset time.Duration) time.Duration {
	switch {
	case l.Algorithm.IsBucket():
		whole, part := l.Tolerance()
		_, den := l.EmissionInterval()
		over := float64(reset.Microseconds()) + drain(l, hits) - float64(whole) - float64(part)/float64(den)
		return micros(max(over, 1))
	case l.Algorithm == limit.FixedWindow, l.Algorithm == limit.Ban, l.Algorithm == limit.Concurrency:
		return reset
	}
	return 0
}

// resetAfter returns when a bucket is as if unused after hits that fit; what it was
// where that cannot be told.
func resetAfter(l *limit.Limit, hits int64, reset time.Duration) time.Duration {
	switch {
	case l.Algorithm.IsBucket():
		return micros(float64(reset.Microseconds()) + drain(l, hits))
	case l.Algorithm == limit.SlidingLog:
		return l.Period
	}
	return reset
}

// drain returns the time in which hits drain from a bucket, in microseconds.
func drain(l *limit.Limit, hits int64) float64 {
	num, den := l.EmissionInterval()
	return float64(hits) * float64(num) / float64(den)
}

// micros rounds up to whole microseconds.
func micros(n float64) time.Duration { return time.Duration(math.Ceil(n)) * time.Microsecond }
