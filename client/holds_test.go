package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/client"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/httpcheck"
	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
)

const guarded = `
domain: api
descriptors:
  - {key: job, rate_limit: {unit: hour, requests_per_unit: 100, name: jobs}, concurrency: {limit: 1, timeout: 5s, hold: request_id}}
  - {key: long, secondary_limits: [{name: time, concurrency: 1, over: 10s}]}
  - {key: bad, rate_limit: {unit: second, requests_per_unit: 0}, ban: {after: 1, within: 1m, for: 1h}}
  - {key: late, rate_limit: {unit: hour, requests_per_unit: 2, name: late}, soft_limit: {at: 50%, action: delay, delay: 250ms}}
  - {key: less, rate_limit: {unit: hour, requests_per_unit: 4}, soft_limit: {at: 25%, action: degrade, header: X-Degraded, value: "yes"}}
`

// near returns a limiter and a Checker that asks it over the wire.
func near(t *testing.T) (*headgate.Limiter, *client.Checker) {
	t.Helper()
	set := testrules.Load(t, guarded)
	buckets, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { buckets.Close() })
	limiter, err := headgate.New(headgate.Options{Store: buckets, Rules: set})
	if err != nil {
		t.Fatal(err)
	}
	return limiter, remote(t, client.CheckerOptions{URL: serve(t, limiter, httpcheck.Options{})})
}

type checker interface {
	Check(ctx context.Context, requests []headgate.Request, responses []headgate.Response) error
}

func check(t *testing.T, c checker, req headgate.Request) headgate.Response {
	t.Helper()
	responses := make([]headgate.Response, 1)
	if err := c.Check(t.Context(), []headgate.Request{req}, responses); err != nil {
		t.Fatal(err)
	}
	return responses[0]
}

func by(hold limit.Hold, req headgate.Request) headgate.Request {
	req.Hold = hold
	return req
}

// A slot that is taken here can be renewed and released there: a Hold is the same
// on both sides of the wire.
func TestHoldsOverTheWire(t *testing.T) {
	limiter, far := near(t)
	for _, c := range [][2]checker{{limiter, far}, {far, limiter}, {far, far}} {
		job := by(limit.NewHold(), ask(1, "job", "x"))
		other := by(limit.NewHold(), ask(1, "job", "x"))
		r := check(t, c[0], job)
		if !r.Allowed || r.Hold != job.Hold || r.HoldFor != 5*time.Second {
			t.Fatalf("%T: allowed=%v, holds by %d for %v", c[0], r.Allowed, r.Hold, r.HoldFor)
		}
		denied := check(t, c[1], other)
		if v := denied.Speaker(); denied.Allowed || denied.Hold != 0 || v.Role != rules.InFlight || v.Limit.Algorithm != limit.Concurrency {
			t.Fatalf("%T: a second: %+v", c[1], denied)
		}
		job.Turn(store.Renew, 2*time.Second)
		if r := check(t, c[1], job); !r.Allowed || r.Hold != job.Hold || r.HoldFor != 5*time.Second {
			t.Errorf("%T: renewed: %+v", c[1], r)
		}
		job.Turn(store.Release, time.Second)
		if r := check(t, c[1], job); !r.Allowed || r.Hold != 0 {
			t.Errorf("%T: released: %+v", c[1], r)
		}
		if !check(t, c[0], other).Allowed {
			t.Fatalf("%T: denied after the release", c[0])
		}
		other.Turn(store.Release, 0)
		check(t, c[1], other)
	}
	named := ask(1, "job", "y", "request_id", "r1")
	if r := check(t, far, named); r.Hold != limit.HoldOf("r1") {
		t.Errorf("by an entry: holds by %d", r.Hold)
	}
	named.Turn(store.Release, 0)
	check(t, far, named)
	if !check(t, limiter, ask(1, "job", "y")).Allowed {
		t.Error("not released by its entry")
	}
}

// late is a way to a server on which its answers get lost.
type late struct{}

func (late) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err == nil {
		err = errors.Join(resp.Body.Close(), context.DeadlineExceeded)
	}
	return nil, err
}

// A request whose answer was late may have a slot: who passes by the failure mode
// knows that it has something to release, and who is denied does not.
func TestLateAnswerMayHold(t *testing.T) {
	limiter, far := near(t)
	url := serve(t, limiter, httpcheck.Options{})
	open := remote(t, client.CheckerOptions{URL: url, Budget: time.Minute, Transport: late{}})
	job := by(7, ask(1, "job", "x"))
	if r := check(t, open, job); !r.Allowed || r.Hold != 7 || r.HoldFor != time.Minute || r.Degraded() != store.Timeout {
		t.Fatalf("passed by failure mode: %+v", r)
	}
	if check(t, far, by(8, ask(1, "job", "x"))).Allowed {
		t.Fatal("the slot was not taken")
	}
	job.Turn(store.Release, 0)
	if r := check(t, open, job); r.Hold != 0 {
		t.Errorf("released: %+v", r)
	}
	if !check(t, far, by(8, ask(1, "job", "x"))).Allowed {
		t.Error("the slot was not released")
	}
	closed := remote(t, client.CheckerOptions{URL: url, Budget: time.Minute, Transport: late{}, Failure: rules.Closed})
	for _, c := range []struct {
		checker
		req headgate.Request
	}{{closed, by(9, ask(1, "job", "y"))}, {open, by(9, ask(0, "job", "y"))}, {open, ask(1, "job", "y")}} {
		if r := check(t, c.checker, c.req); r.Hold != 0 {
			t.Errorf("hold %d, %d hits: %+v", c.req.Hold, c.req.Descriptors[0].Hits, r)
		}
	}
}

func TestSustainedTimeOverTheWire(t *testing.T) {
	_, far := near(t)
	long := by(1, ask(1, "long", "x"))
	if r := check(t, far, long); r.Hold != 1 || r.HoldFor != 10*time.Second || r.Speaker().Role != rules.Sustained {
		t.Fatalf("admitted: %+v", r)
	}
	long.Turn(store.Release, 12*time.Second)
	check(t, far, long)
	if r := check(t, far, by(2, ask(1, "long", "x"))); r.Allowed || r.Speaker().Role != rules.Sustained {
		t.Errorf("after 12 of 10 s: %+v", r)
	}
}

func TestBanAndSoftLimitsOverTheWire(t *testing.T) {
	limiter, far := near(t)
	check(t, far, ask(1, "bad", "x"))
	if r := check(t, far, ask(1, "bad", "x")); r.Allowed || r.Speaker().Role != rules.Banning || r.Speaker().Decision.RetryAfter < time.Hour {
		t.Errorf("banned: %+v", r)
	}
	if r := check(t, far, ask(1, "late", "x")); r.Delay() != 250*time.Millisecond || len(r.Verdicts) != 1 {
		t.Errorf("late: delayed by %v, %d verdicts", r.Delay(), len(r.Verdicts))
	}
	// The soft limit of the one that speaks, and of another one.
	both := ask(1, "late", "y")
	both.Descriptors = append(both.Descriptors, ask(1, "less", "y").Descriptors[0])
	r := check(t, far, both)
	local := check(t, limiter, headgate.Request{Domain: "api", Descriptors: []headgate.Descriptor{{Entries: []descriptor.Entry{{Key: "late", Value: "y"}}}, {Entries: []descriptor.Entry{{Key: "less", Value: "y"}}}}})
	if len(r.Verdicts) != 2 || len(local.Verdicts) != 2 {
		t.Fatalf("%d verdicts, in process %d", len(r.Verdicts), len(local.Verdicts))
	}
	for i := range r.Verdicts {
		got, want := &r.Verdicts[i], &local.Verdicts[i]
		if got.Soft() == nil || *got.Soft() != *want.Soft() || got.Rule.ID != want.Rule.ID || got.Decision.Remaining != want.Decision.Remaining {
			t.Errorf("verdict %d: %+v by %+v, in process %+v by %+v", i, got, got.Soft(), want, want.Soft())
		}
	}
	if v := r.Speaker(); v != &r.Verdicts[0] || r.Delay() != 250*time.Millisecond {
		t.Errorf("%+v speaks, delay %v", v, r.Delay())
	}
	if r := check(t, far, ask(1, "less", "z")); r.Delay() != 0 || r.Verdicts[0].Soft().Header != "X-Degraded" {
		t.Errorf("less: %+v", r)
	}
}

// What a server says that is none of ours, or a later one, does no harm.
func TestStrangeHoldsAndSoftLimits(t *testing.T) {
	for _, body := range []string{
		`{"allowed":true,"rule":"r","limit":1,"remaining":0,"hold":{"id":"","renew_within_ms":-5},"soft":[{"action":"sing"},{}]}`,
		`{"allowed":false,"rule":"r","limit":1,"role":"king","hold":{"id":"x","renew_within_ms":9},"soft":[{"action":"warn","percent":80,"limit":9}]}`,
	} {
		r := check(t, remote(t, answering(200, body)), ask(1, "a", "b"))
		if len(r.Verdicts) != 1 || r.Hold != 0 || r.Verdicts[0].Role != rules.Main || r.Verdicts[0].Soft() != nil {
			t.Errorf("%s: %+v", body, r)
		}
	}
	long := by(1, ask(1, "a", "b"))
	long.Turn(store.Renew, 48*time.Hour)
	far := remote(t, answering(200, `{"allowed":true}`))
	if err := far.Check(t.Context(), []headgate.Request{long}, make([]headgate.Response, 1)); err == nil {
		t.Error("two days in flight are sent")
	}
	if err := far.Check(t.Context(), []headgate.Request{by(limit.MaxHold+1, ask(1, "a", "b"))}, make([]headgate.Response, 1)); err == nil {
		t.Error("a hold out of range is sent")
	}
}

// answering is a server that answers one thing.
func answering(status int, body string) client.CheckerOptions {
	return client.CheckerOptions{URL: "http://headgate.test", Transport: roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body))}, nil
	})}
}

// TestDenialHoldsNothing: whatever a server says beside it.
func TestDenialHoldsNothing(t *testing.T) {
	for allowed, want := range map[bool]limit.Hold{true: 7, false: 0} {
		far := remote(t, client.CheckerOptions{URL: "http://headgate.test", Transport: transportFunc(func(*http.Request) (*http.Response, error) {
			body := fmt.Sprintf(`{"allowed":%v,"retry_after_s":1,"hold":{"id":%q,"renew_within_ms":1000}}`, allowed, limit.HoldText(7))
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}, nil
		})})
		responses := make([]headgate.Response, 1)
		if err := far.Check(t.Context(), []headgate.Request{ask(1, "user", "1")}, responses); err != nil || responses[0].Allowed != allowed || responses[0].Hold != want {
			t.Errorf("allowed %v: %+v, %v; want hold %d", allowed, responses[0], err, want)
		}
	}
}
