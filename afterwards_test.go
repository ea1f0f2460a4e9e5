package headgate_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
)

// punctual is a store that decides nothing for a caller whose context has ended, as
// stores behind a network do. After each call it does what then says.
type punctual struct {
	store.Store
	then func()
}

func (p *punctual) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	if ctx.Err() != nil {
		for i := range takes {
			results[i] = store.Result{Err: &store.Error{Op: "take", Store: "test", Reason: store.Timeout, Err: ctx.Err()}}
		}
		return
	}
	p.Store.Take(ctx, takes, results)
	if p.then != nil {
		p.then()
	}
}

const shaped = `
domain: d
descriptors:
- {key: a, rate_limit: {unit: second, requests_per_unit: 10, algorithm: leaky_queue, max_delay: 1s}}
`

// A place in a queue is given back though the context of its caller has ended, and
// though the store heeds contexts.
func TestWaitGivesItsPlaceBackAfterItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, shaped, headgate.Options{Store: &punctual{Store: memory(t)}})
		req := headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{on("a:1")}}
		if err := b.limiter.Wait(t.Context(), &req, new(headgate.Response)); err != nil {
			t.Fatal(err)
		}
		before := b.remaining("a:1")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if err := b.limiter.Wait(ctx, &req, new(headgate.Response)); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("the wait ended with %v, want that of its context", err)
		}
		if after := b.remaining("a:1"); after != before {
			t.Errorf("%d places are left, want %d as before the one that was given up", after, before)
		}
	})
}

// One that comes when too many wait is told so at once, and its hits are given back.
func TestWaitIsRefusedWhereTooManyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, shaped, headgate.Options{Store: memory(t), MaxWaiting: 1})
		req := headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{on("a:1")}}
		b.check(on("a:1")) // the next has to wait
		waited := make(chan error)
		go func() { waited <- b.limiter.Wait(t.Context(), &req, new(headgate.Response)) }()
		synctest.Wait() // until it waits
		before, start := b.remaining("a:1"), time.Now()
		var resp headgate.Response
		if err := b.limiter.Wait(t.Context(), &req, &resp); !errors.Is(err, headgate.ErrQueueFull) || time.Since(start) != 0 {
			t.Errorf("the second that waits: %v after %v, want ErrQueueFull at once", err, time.Since(start))
		}
		if after := b.remaining("a:1"); after != before {
			t.Errorf("%d places are left, want %d: the refused one gives its hits back", after, before)
		}
		if err := <-waited; err != nil {
			t.Errorf("the first that waits: %v", err)
		}
		if err := b.limiter.Wait(t.Context(), &req, &resp); err != nil {
			t.Errorf("the next, when nobody waits any more: %v", err)
		}
	})
}

// What follows a denial is done though its caller has gone meanwhile: the denial
// counts towards the ban, and the slot is free again.
func TestDenialsAreFollowedUpAfterTheirContext(t *testing.T) {
	const yaml = `
domain: d
descriptors:
- {key: user, concurrency: {limit: 2, timeout: 1m, hold: request_id}, rate_limit: {unit: hour, requests_per_unit: 1}, ban: {after: 2, within: 1h, for: 2h}}
`
	buckets := &punctual{Store: memory(t)}
	b := newBench(t, yaml, headgate.Options{Store: buckets})
	b.by(1, store.Hit, 1, "user:u")
	b.release(1, "user:u")
	for hold := limit.Hold(2); hold <= 3; hold++ {
		ctx, cancel := context.WithCancel(t.Context())
		buckets.then = cancel
		d := on("user:u")
		responses := make([]headgate.Response, 1)
		if err := b.limiter.Check(ctx, []headgate.Request{{Domain: "d", Hold: hold, Descriptors: []headgate.Descriptor{d}}}, responses); err != nil {
			t.Fatal(err)
		}
		if responses[0].Allowed || ctx.Err() == nil {
			t.Fatalf("allowed=%v, context %v: the test is about nothing", responses[0].Allowed, ctx.Err())
		}
	}
	buckets.then = nil
	if free := b.free("user:u"); free != 2 {
		t.Errorf("%d slots are free, want 2: those who were denied hold none", free)
	}
	r := b.by(4, store.Hit, 1, "user:u")
	if v := r.Speaker(); r.Allowed || v.Role != rules.Banning || v.Decision.RetryAfter != 2*time.Hour {
		t.Errorf("after two denials: allowed=%v, %v says %+v, want the ban", r.Allowed, v.Role, v.Decision)
	}
}

// A rule that fails closed denies requests while the store is away, and nothing that
// gives back or forgets.
//
//promise:away-closed
func TestE1ClosedDeniesHitsAlone(t *testing.T) {
	const yaml = `
domain: d
descriptors:
- {key: user, failure_mode: closed, concurrency: {limit: 2, timeout: 1m, hold: request_id}, rate_limit: {unit: hour, requests_per_unit: 1}}
`
	b := newBench(t, yaml, headgate.Options{Store: failing{&store.Error{Op: "take", Store: "test", Reason: store.Timeout}}})
	for op, allowed := range map[store.Op]bool{
		store.Hit: false, store.Refund: true, store.Reset: true, store.Renew: true, store.Release: true,
	} {
		hits := int64(1)
		if op == store.Renew || op == store.Release || op == store.Reset {
			hits = 0
		}
		r := b.by(1, op, hits, "user:u")
		if r.Allowed != allowed || r.Degraded() != store.Timeout {
			t.Errorf("%v: allowed=%v degraded=%q, want allowed=%v", op, r.Allowed, r.Degraded(), allowed)
		}
	}
}
