package headgate

import (
	"context"
	"time"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
)

// Delay returns how long the request must wait before it goes on: the longest
// delay of the limits that shape it (leaky_queue) and of the soft limits that it
// is above, 0 when denied.
func (r *Response) Delay() time.Duration {
	var delay time.Duration
	if !r.Allowed {
		return 0
	}
	for i := range r.Verdicts {
		v := &r.Verdicts[i]
		if v.Enforced() {
			delay = max(delay, v.Decision.Delay)
		}
		if soft := v.Soft(); soft != nil && soft.Action == rules.Delay {
			delay = max(delay, soft.Delay)
		}
	}
	return delay
}

// Wait is Check for one request that also waits out its delay. What the request
// holds is not renewed meanwhile. It returns when the request may go on or is denied (see
// Response.Allowed). When ctx ends first, the request gives up its place: the
// hits are refunded and ctx's error is returned. At most Options.MaxWaiting
// calls wait at a time; one more is refunded and returns ErrQueueFull.
func (l *Limiter) Wait(ctx context.Context, req *Request, resp *Response) error {
	responses := []Response{*resp}
	if err := l.Check(ctx, []Request{*req}, responses); err != nil {
		return err
	}
	*resp = responses[0]
	delay := resp.Delay()
	if delay == 0 {
		return nil
	}
	select {
	case l.waiting <- struct{}{}:
		defer func() { <-l.waiting }()
	default:
		l.giveUp(ctx, req)
		return ErrQueueFull
	}
	if err := sleep(ctx, delay); err != nil {
		l.giveUp(ctx, req)
		return err
	}
	return nil
}

// giveUp refunds what req was charged, though its context may have ended.
func (l *Limiter) giveUp(ctx context.Context, req *Request) {
	refund := *req
	refund.Descriptors = make([]Descriptor, len(req.Descriptors))
	for i, d := range req.Descriptors {
		d.Op = store.Refund
		refund.Descriptors[i] = d
	}
	// The only error of Check is a malformed request, and this one was not.
	_ = l.Check(context.WithoutCancel(ctx), []Request{refund}, make([]Response, 1))
}
