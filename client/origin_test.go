package client_test

import (
	"context"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/client"
	"github.com/headgate/headgate/internal/httpcheck"
	"github.com/headgate/headgate/reservation"
	"github.com/headgate/headgate/trace"
)

// origins is a Checker that keeps who sent the last requests.
type origins struct {
	mu   sync.Mutex
	last []headgate.Origin
}

func (o *origins) Check(_ context.Context, requests []headgate.Request, responses []headgate.Response) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = nil
	for i := range requests {
		origin := requests[i].Origin
		origin.UserAgent = strings.Clone(origin.UserAgent)
		o.last, responses[i].Allowed = append(o.last, origin), true
	}
	return nil
}

// The server hears of who sent a request what the caller knows.
func TestOriginTravels(t *testing.T) {
	server := new(origins)
	remote := remote(t, client.CheckerOptions{URL: serve(t, server, httpcheck.Options{})})
	check := func(from ...headgate.Origin) []headgate.Origin {
		t.Helper()
		requests, responses := make([]headgate.Request, len(from)), make([]headgate.Response, len(from))
		for i := range from {
			requests[i] = ask(1, "user", "42")
			requests[i].Origin = from[i]
		}
		if err := remote.Check(t.Context(), requests, responses); err != nil {
			t.Fatal(err)
		}
		for i := range responses {
			if reason := responses[i].Degraded(); reason != "" {
				t.Fatal(reason)
			}
		}
		server.mu.Lock()
		defer server.mu.Unlock()
		return server.last
	}
	known := headgate.Origin{
		ClientIP: netip.MustParseAddr("203.0.113.9"), UserAgent: `curl "8" <é>`,
		Trace: trace.Parent{ID: [16]byte{1}, Span: [8]byte{2}, Sampled: true},
	}
	if got := check(known)[0]; got != known {
		t.Errorf("%+v arrived as %+v", known, got)
	}
	if got := check(headgate.Origin{})[0]; got != (headgate.Origin{}) {
		t.Errorf("nothing arrived as %+v", got)
	}
	// One call is part of one trace.
	got := check(headgate.Origin{}, known, headgate.Origin{Trace: trace.Parent{ID: [16]byte{9}, Span: [8]byte{9}}})
	if got[0] != (headgate.Origin{Trace: known.Trace}) || got[1] != known || got[2] != got[0] {
		t.Errorf("in a batch: %+v", got)
	}
	// What a client may choose does not make a check that the wire does not carry.
	hostile := headgate.Origin{ClientIP: netip.MustParseAddr("fe80::1%eth0"), UserAgent: strings.Repeat("\xff", 9) + strings.Repeat("é", 1<<20)}
	if got := check(hostile)[0]; got.ClientIP.String() != "fe80::1" || len(got.UserAgent) > 256 || len(got.UserAgent) < 200 || !utf8.ValidString(got.UserAgent) {
		t.Errorf("%+v", got)
	}
}

// A reservation is part of the trace of its request.
func TestTraceOfAReservation(t *testing.T) {
	var seen traced
	limiter := newLimiter(t)
	remote := remote(t, client.CheckerOptions{URL: serve(t, &reserver{limiter, &seen}, httpcheck.Options{})})
	req := ask(1, "user", "42")
	req.Origin.Trace = trace.Parent{ID: [16]byte{1}, Span: [8]byte{2}}
	var resp headgate.Response
	if _, err := remote.Reserve(t.Context(), &req, reservation.Options{TTL: time.Minute}, &resp); err != nil || resp.Degraded() != "" {
		t.Fatal(err, resp.Degraded())
	}
	if got := seen.last(); got != req.Origin.Trace {
		t.Errorf("part of %+v, want %+v", got, req.Origin.Trace)
	}
}

// traced keeps the trace of a request.
type traced struct {
	mu    sync.Mutex
	trace trace.Parent
}

func (t *traced) last() trace.Parent {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.trace
}

// reserver is a limiter that tells of the traces of reservations.
type reserver struct {
	*headgate.Limiter
	seen *traced
}

func (r *reserver) Reserve(ctx context.Context, req *headgate.Request, o reservation.Options, resp *headgate.Response) (reservation.Reservation, error) {
	r.seen.mu.Lock()
	r.seen.trace = req.Origin.Trace
	r.seen.mu.Unlock()
	return r.Limiter.Reserve(ctx, req, o, resp)
}
