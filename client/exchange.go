package client

import (
	"io"
	"net/http"
	"time"

	"github.com/headgate/headgate/internal/sleep"
)

// exchange is one request until its answer.
type exchange struct {
	transport *Transport
	partition *partition
	// original is the request of the caller. It is sent first; later ones are
	// copies with a new body.
	original *http.Request
	attempt  int
	// holdsUnit says that the request waits with its unit reserved.
	holdsUnit bool
}

func (x *exchange) run() (*http.Response, error) {
	req := x.original
	for {
		if err := x.hold(); err != nil {
			x.partition.leave(x.holdsUnit)
			closeBody(req)
			return nil, err
		}
		number := x.partition.send(time.Now(), x.attempt > 0, x.holdsUnit)
		x.holdsUnit = false
		x.transport.counts.sent.Add(1)
		resp, err := x.transport.base().RoundTrip(req)
		if err != nil || resp == nil {
			return resp, err
		}
		told := x.learn(resp, number)
		if !isRefusal(resp.StatusCode) {
			return resp, nil
		}
		again, wait := x.prepare(resp, told)
		if again == nil {
			return resp, nil
		}
		drain(resp.Body)
		if err := sleep.For(x.original.Context(), wait); err != nil {
			closeBody(again)
			return nil, err
		}
		req = again
	}
}

func isRefusal(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
}

// hold waits until the request may go out: at most MaxWait for the sake of the
// limits, and as long because the server asks for it.
func (x *exchange) hold() error {
	t := x.transport
	pacing, blocking, passed := t.maxWait(), t.maxWait(), false
	for {
		d := x.partition.admit(time.Now(), t.paceBelow(), passed)
		if d.wait <= 0 {
			return nil
		}
		kind, left := Paced, &pacing
		if d.blocked {
			kind, left = Blocked, &blocking
		}
		x.holdsUnit = x.holdsUnit || d.isVoluntary()
		wait, err := x.allowance(d, *left)
		if err != nil {
			return err
		}
		if wait > 0 {
			t.tell(Event{Kind: kind, Request: x.original, Wait: wait, Policy: d.name, Attempt: x.attempt})
			if err := sleep.For(x.original.Context(), wait); err != nil {
				return err
			}
		}
		*left -= wait
		// After the wait for a reset the new numbers count, unless the time for
		// waiting is over: then the server decides.
		passed = passed || d.isVoluntary() || d.empty && pacing <= 0
	}
}

// allowance returns how much of a wait may be waited, when left of MaxWait is
// left; a *WaitError when it would be in vain.
func (x *exchange) allowance(d delay, left time.Duration) (time.Duration, error) {
	if d.blocked && d.wait > left {
		return 0, x.refuse(d, MaxWaitBound)
	}
	wait, spare := min(d.wait, left), maxTold
	if deadline, ok := x.original.Context().Deadline(); ok {
		spare = time.Until(deadline)
	}
	switch {
	case spare <= wait && d.isVoluntary():
		return 0, nil // it would pass as it is: the wait is for those after it
	case spare <= wait:
		return 0, x.refuse(d, ContextDeadline)
	case d.isVoluntary():
		return wait, nil
	}
	return min(jittered(wait, x.transport.draw()), spare), nil
}

// refuse fails the request.
func (x *exchange) refuse(d delay, bound Bound) error {
	x.transport.tell(Event{Kind: Refused, Request: x.original, Wait: d.wait, Policy: d.name, Attempt: x.attempt})
	u := x.original.URL
	return &WaitError{Origin: u.Scheme + "://" + u.Host, Policy: d.name, Wait: d.wait, Bound: bound}
}

// learn takes in what an answer says about limits. Of a refusal it returns when
// to come back by the word of the server, 0 if it gives none.
func (x *exchange) learn(resp *http.Response, number uint64) time.Duration {
	if !isRefusal(resp.StatusCode) && !tells(resp.Header) {
		return 0
	}
	now := time.Now()
	var policies [4]Policy
	var levels [4]Level
	l := Limits{Policies: policies[:0], Levels: levels[:0]}
	l.read(resp.Header, now)
	var blocked, wait time.Duration
	if isRefusal(resp.StatusCode) {
		blocked, _ = RetryAfter(resp.Header, now)
		if wait = blocked; wait == 0 {
			wait = l.empty()
		}
	}
	x.partition.learn(&l, blocked, number, now)
	return wait
}

// empty returns the longest time to the reset of a limit that is used up, 0 if
// none is.
func (l *Limits) empty() time.Duration {
	var wait time.Duration
	for i := range l.Levels {
		if one := &l.Levels[i]; one.Remaining == 0 && one.Unit == "" {
			wait = max(wait, one.ResetAfter)
		}
	}
	return wait
}

// prepare returns the request that is sent next after a refusal, and when; nil
// when resp is the last word. told is the wait that the server named.
func (x *exchange) prepare(resp *http.Response, told time.Duration) (*http.Request, time.Duration) {
	t := x.transport
	if t.maxRetries() < 0 || !isReplayable(x.original) || !t.isIdempotent(x.original) {
		return nil, 0
	}
	now, wait := time.Now(), told
	if told <= 0 {
		wait = backoff(x.attempt+1, t.draw())
	}
	event := Event{Kind: GaveUp, Request: x.original, Wait: wait, Attempt: x.attempt, Status: resp.StatusCode}
	spare := maxTold
	if deadline, ok := x.original.Context().Deadline(); ok {
		spare = deadline.Sub(now)
	}
	if x.attempt >= t.maxRetries() || wait > t.maxWait() || wait >= spare || !x.partition.spendRetry(now) {
		t.tell(event)
		return nil, 0
	}
	if told > 0 {
		wait = min(jittered(told, t.draw()), spare)
		event.Wait = wait
	}
	again := new(http.Request)
	*again = *x.original
	if hasBody(x.original) {
		body, err := x.original.GetBody()
		if err != nil {
			t.tell(event)
			return nil, 0
		}
		again.Body = body
	}
	event.Kind = Retried
	t.tell(event)
	x.attempt++
	return again, wait
}

func hasBody(req *http.Request) bool { return req.Body != nil && req.Body != http.NoBody }

// isReplayable reports whether the body of a request can be sent again.
func isReplayable(req *http.Request) bool { return !hasBody(req) || req.GetBody != nil }

func (t *Transport) isIdempotent(req *http.Request) bool {
	if t.Idempotent != nil {
		return t.Idempotent(req)
	}
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return req.Header["Idempotency-Key"] != nil || req.Header["X-Idempotency-Key"] != nil
}

// closeBody closes the body of a request that is not sent, as RoundTrip must.
func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}

// maxDrain bounds what is read of a refusal to use its connection again; a
// connection with more to say is closed.
const maxDrain = 16 << 10

// drain reads the rest of a body and closes it. Time is bounded by the context
// of the request, as any reading of the body is.
func drain(body io.ReadCloser) {
	if body == nil {
		return
	}
	_, _ = io.CopyN(io.Discard, body, maxDrain)
	body.Close()
}
