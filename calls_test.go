package headgate_test

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/reservation"
	"github.com/headgate/headgate/store"
)

// TestPeekLeavesRequestsAlone: what is peeked at can be checked after that, and is charged; Forget
// and errors leave it alone too.
func TestPeekLeavesRequestsAlone(t *testing.T) {
	b := newBench(t, orders, headgate.Options{})
	ask := func() []headgate.Request {
		d := on("api_key:k")
		d.Hits = 2
		return []headgate.Request{{Domain: "d", Descriptors: []headgate.Descriptor{d}}}
	}
	requests, responses := ask(), make([]headgate.Response, 1)
	malformed := append(ask(), headgate.Request{})
	for name, peek := range map[string]func() error{
		"peek":      func() error { return b.limiter.Peek(t.Context(), requests, responses) },
		"peek in":   func() error { return b.limiter.PeekIn(t.Context(), b.store, requests, responses) },
		"forget":    func() error { return b.limiter.Forget(t.Context(), requests, responses) },
		"malformed": func() error { return ignore(b.limiter.Peek(t.Context(), malformed, make([]headgate.Response, 2))) },
	} {
		if err := peek(); err != nil || !reflect.DeepEqual(requests, ask()) || !reflect.DeepEqual(malformed[:1], ask()) {
			t.Errorf("%s: %v; left %+v and %+v", name, err, requests, malformed[:1])
		}
	}
	if err := b.limiter.Check(t.Context(), requests, responses); err != nil || responses[0].Speaker().Decision.Remaining != 3 {
		t.Errorf("%v, %+v; want 3 left of 5", err, responses[0].Verdicts)
	}
}

// ignore returns nil for the error that is wanted.
func ignore(err error) error {
	if err == nil {
		return fmt.Errorf("no error")
	}
	return nil
}

// TestErrorsLeaveNothingAllowed: whoever overlooks an error does not go by the response to a call
// before.
func TestErrorsLeaveNothingAllowed(t *testing.T) {
	b := newBench(t, orders, headgate.Options{})
	good := headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{on("api_key:k")}}
	bad := headgate.Request{Domain: "d"}
	ctx := t.Context()
	for name, call := range map[string]func(resp, other *headgate.Response) error{
		"check": func(resp, other *headgate.Response) error {
			responses := []headgate.Response{*resp, *other}
			defer func() { *resp, *other = responses[0], responses[1] }()
			return b.limiter.Check(ctx, []headgate.Request{good, bad}, responses)
		},
		"check of too few": func(resp, other *headgate.Response) error {
			responses := []headgate.Response{*resp, *other}
			defer func() { *resp, *other = responses[0], responses[1] }()
			return b.limiter.Check(ctx, []headgate.Request{good}, responses)
		},
		"check once": func(resp, other *headgate.Response) error {
			responses := []headgate.Response{*resp, *other}
			defer func() { *resp, *other = responses[0], responses[1] }()
			return b.limiter.CheckOnce(ctx, []headgate.Request{good, bad}, []string{"one-1234567890123456", ""}, responses)
		},
		"peek": func(resp, other *headgate.Response) error {
			responses := []headgate.Response{*resp, *other}
			defer func() { *resp, *other = responses[0], responses[1] }()
			return b.limiter.Peek(ctx, []headgate.Request{good, bad}, responses)
		},
		"dry run": func(resp, other *headgate.Response) error { return b.limiter.DryRun(ctx, &bad, resp, other) },
		"wait": func(resp, other *headgate.Response) error {
			other.Allowed = false
			return b.limiter.Wait(ctx, &bad, resp)
		},
		"reserve": func(resp, other *headgate.Response) error {
			other.Allowed = false
			_, err := b.limiter.Reserve(ctx, &bad, reservation.Options{}, resp)
			return err
		},
		"commit": func(resp, other *headgate.Response) error {
			other.Allowed = false
			_, err := b.limiter.Commit(ctx, reservation.Reservation{}, reservation.Actual{}, resp)
			return err
		},
	} {
		resp, other := headgate.Response{Allowed: true}, headgate.Response{Allowed: true}
		if err := call(&resp, &other); err == nil || resp.Allowed || other.Allowed {
			t.Errorf("%s: %v, allowed %v and %v", name, err, resp.Allowed, other.Allowed)
		}
	}
}

// TestWaitThatGivesUpIsNotAllowed: what was let in and has given its place back is not.
func TestWaitThatGivesUpIsNotAllowed(t *testing.T) {
	b := newBench(t, "domain: d\ndescriptors:\n- {key: q, rate_limit: {unit: second, requests_per_unit: 1, algorithm: leaky_queue, max_delay: 1h}}\n", headgate.Options{})
	req := headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{on("q:x")}}
	b.check(on("q:x"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var resp headgate.Response
	if err := b.limiter.Wait(ctx, &req, &resp); err == nil || resp.Allowed {
		t.Errorf("%v, allowed %v", err, resp.Allowed)
	}
}

// TestNegativeOptionsAreRefused: by an error that names the field, not by a panic.
func TestNegativeOptionsAreRefused(t *testing.T) {
	for field, o := range map[string]headgate.Options{
		"MaxWaiting -1":       {MaxWaiting: -1},
		"AnswersAwaited -1ns": {AnswersAwaited: -1},
	} {
		o.Store = memory(t)
		if _, err := headgate.New(o); err == nil || !strings.Contains(err.Error(), field) || !strings.Contains(err.Error(), "; hint: ") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// TestSettlingNeedsNoResponse: who settles may not want to know what is left.
func TestSettlingNeedsNoResponse(t *testing.T) {
	b := newBench(t, orders, headgate.Options{})
	reserve := func() reservation.Reservation {
		req := headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{on("api_key:k")}}
		r, err := b.limiter.Reserve(t.Context(), &req, reservation.Options{TTL: time.Minute}, new(headgate.Response))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if outcome, err := b.limiter.Commit(t.Context(), reserve(), reservation.Actual{Hits: []int64{2}}, nil); err != nil || outcome != reservation.Settled {
		t.Errorf("commit: %v, %v", outcome, err)
	}
	if outcome, err := b.limiter.Cancel(t.Context(), reserve(), nil); err != nil || outcome != reservation.Settled {
		t.Errorf("cancel: %v, %v", outcome, err)
	}
	if got := b.remaining("api_key:k"); got != 3 {
		t.Errorf("%d left, want 3 of 5", got)
	}
}

// TestKeyedOfNothingIsRefused: at once, and by words.
func TestKeyedOfNothingIsRefused(t *testing.T) {
	one := limit.Must(limit.PerMinute(1))
	for what, make := range map[string]func(){
		"store": func() { headgate.NewKeyed(nil, one) },
		"limit": func() { headgate.NewKeyed(memory(t), nil) },
	} {
		func() {
			defer func() {
				if words := fmt.Sprint(recover()); !strings.Contains(words, "new keyed: the "+what+" is nil; hint: ") {
					t.Errorf("%s: %s", what, words)
				}
			}()
			make()
		}()
	}
}

// TestKeyedAnswersPanicsOfItsStore: as it answers other failures.
func TestKeyedAnswersPanicsOfItsStore(t *testing.T) {
	k := headgate.NewKeyed(panicking{}, limit.Must(limit.PerMinute(2)))
	if d := k.Take(t.Context(), "user", 1); !d.Allowed || d.Degraded != store.Internal {
		t.Errorf("open: %+v", d)
	}
	if d := k.FailClosed().Take(t.Context(), "user", 1); d.Allowed || d.Degraded != store.Internal {
		t.Errorf("closed: %+v", d)
	}
}

// TestMalformedRequestsAreToldHow: each error has a hint.
func TestMalformedRequestsAreToldHow(t *testing.T) {
	b := newBench(t, orders, headgate.Options{})
	for name, c := range map[string]struct {
		requests  []headgate.Request
		responses int
	}{
		"no domain":      {[]headgate.Request{{Descriptors: []headgate.Descriptor{on("a:b")}}}, 1},
		"no descriptors": {[]headgate.Request{{Domain: "d"}}, 1},
		"lengths":        {make([]headgate.Request, 2), 1},
	} {
		if err := b.limiter.Check(t.Context(), c.requests, make([]headgate.Response, c.responses)); err == nil || !strings.Contains(err.Error(), "; hint: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
