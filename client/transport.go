package client

import (
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"
)

// Defaults of a Transport.
const (
	// DefaultMaxWait bounds each wait.
	DefaultMaxWait = 30 * time.Second
	// DefaultMaxRetries is how often one request is sent again.
	DefaultMaxRetries = 3
	// DefaultPaceBelow is the part of a limit below which requests are spread.
	DefaultPaceBelow = 0.2
)

// Transport is an http.RoundTripper that keeps to the limits that servers tell.
// The zero value works. It must not be copied or changed once it is used; it is
// safe for concurrent use, and starts no goroutine.
//
// Before a request it waits
//   - while a server has asked, by Retry-After with 429 or 503, to be left alone
//     (for a day at most). When that takes longer than MaxWait, or than the
//     request's context allows, the request fails at once with a *WaitError, and
//     is not sent;
//   - when a limit is used up, until its reset, but no longer than MaxWait: then
//     the server decides. When the context does not allow this wait: *WaitError;
//   - when little of a limit is left, so that the rest is spread over the time to
//     the reset. This wait is skipped where the context is too short for it, for
//     the request would pass.
//
// After an answer of 429 or 503 it sends the request again, if it is idempotent,
// its body can be sent again, MaxRetries is not reached, and the partition has
// retries to spend: one for every ten requests and one every ten seconds, at most
// ten saved. It waits for Retry-After, or for the reset where the limit is used
// up, lengthened by up to a tenth (at most a second) at random; else for half to
// all of 100 ms, doubled every time up to 10 s. Where that wait is longer than
// MaxWait or than the context allows, the answer is returned as it is.
//
// What is known is kept per partition: the origin (scheme, host, port), the
// credentials (Authorization, X-Api-Key, Api-Key; only their hash is kept) and what
// Partition returns. At most 1,024 partitions are kept, and 16 policies of each.
type Transport struct {
	// Base sends; nil means http.DefaultTransport.
	Base http.RoundTripper
	// MaxWait bounds each wait; 0 means DefaultMaxWait, less than 0 never waits.
	MaxWait time.Duration
	// MaxRetries is how often one request is sent again; 0 means
	// DefaultMaxRetries, less than 0 never.
	MaxRetries int
	// PaceBelow is the part of a limit, from 0 to 1, below which requests are
	// spread; 0 means DefaultPaceBelow, less than 0 never spreads.
	PaceBelow float64
	// Partition divides the requests to one origin where its limits are not
	// shared by all of them: by route, or reads from writes. nil does not divide.
	Partition func(*http.Request) string
	// Idempotent says whether a request may be sent again. nil means GET, HEAD,
	// OPTIONS, TRACE, PUT and DELETE, and any method with a header field
	// Idempotency-Key or X-Idempotency-Key, as net/http has it.
	Idempotent func(*http.Request) bool
	// Observe, when not nil, is told of every wait and retry. It must not block.
	Observe func(Event)

	random  func() float64 // nil means rand.Float64
	origins table
	counts  counts
}

// Stats is what a Transport has done so far.
type Stats struct {
	// Requests is how many requests came in, and Sent how many went out, the
	// retries among them.
	Requests, Sent uint64
	// Paced, Blocked, Retried, GaveUp and Refused count the events.
	Paced, Blocked, Retried, GaveUp, Refused uint64
	// Waited is the time that requests were meant to wait, all together.
	Waited time.Duration
	// Partitions is how many are remembered now.
	Partitions int
}

type counts struct {
	requests, sent, waited atomic.Uint64
	events                 [Refused + 1]atomic.Uint64
}

// Stats returns a snapshot of the counters.
func (t *Transport) Stats() Stats {
	c := &t.counts
	return Stats{
		Requests: c.requests.Load(), Sent: c.sent.Load(), Waited: time.Duration(c.waited.Load()),
		Paced: c.events[Paced].Load(), Blocked: c.events[Blocked].Load(), Retried: c.events[Retried].Load(),
		GaveUp: c.events[GaveUp].Load(), Refused: c.events[Refused].Load(),
		Partitions: t.origins.size(),
	}
}

// CloseIdleConnections closes those of Base, for http.Client.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func (t *Transport) base() http.RoundTripper {
	if t.Base != nil {
		return t.Base
	}
	return http.DefaultTransport
}

// maxWait returns MaxWait with its default.
func (t *Transport) maxWait() time.Duration {
	if t.MaxWait == 0 {
		return DefaultMaxWait
	}
	return max(t.MaxWait, 0)
}

func (t *Transport) maxRetries() int {
	if t.MaxRetries == 0 {
		return DefaultMaxRetries
	}
	return t.MaxRetries
}

func (t *Transport) paceBelow() float64 {
	if t.PaceBelow == 0 {
		return DefaultPaceBelow
	}
	return min(t.PaceBelow, 1)
}

func (t *Transport) draw() float64 {
	if t.random != nil {
		return t.random()
	}
	return rand.Float64()
}

func (t *Transport) tell(e Event) {
	t.counts.events[e.Kind].Add(1)
	if e.Kind <= Retried {
		t.counts.waited.Add(uint64(max(e.Wait, 0)))
	}
	if t.Observe != nil {
		t.Observe(e)
	}
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	t.counts.requests.Add(1)
	custom := ""
	if t.Partition != nil {
		custom = t.Partition(req)
	}
	x := exchange{transport: t, original: req, partition: t.origins.get(t.origins.keyOf(req, custom))}
	return x.run()
}

var _ http.RoundTripper = (*Transport)(nil)
