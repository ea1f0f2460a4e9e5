package client_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/client"
	"github.com/headgate/headgate/internal/httpcheck"
	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/reservation"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
)

const reservable = `
domain: api
descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 100, name: hits}}
  - {key: sent, cost: {from: content_length}, rate_limit: {unit: hour, requests_per_unit: 100}}
`

// TestA10ReserveOverWire: a reservation that is made over the wire is settled by a
// Limiter on the same store, and the other way round.
func TestA10ReserveOverWire(t *testing.T) {
	set := testrules.Load(t, reservable)
	buckets, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer buckets.Close()
	now := time.Now()
	near, err := headgate.New(headgate.Options{Store: buckets, Rules: set, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	far := remote(t, client.CheckerOptions{URL: serve(t, near, httpcheck.Options{})})
	request := ask(40, "user", "1")
	request.Descriptors = append(request.Descriptors, ask(1, "sent", "x").Descriptors...)
	var resp headgate.Response

	r, err := far.Reserve(t.Context(), &request, reservation.Options{ID: "a", TTL: time.Minute}, &resp)
	if err != nil || !resp.Allowed || r.ID() != "a" || r.Expires().Sub(now) > time.Minute {
		t.Fatalf("%v, %+v, %v", r, resp, err)
	}
	if outcome, err := near.Commit(t.Context(), r, reservation.Actual{Hits: []int64{70, 1}}, &resp); outcome != reservation.Settled || err != nil {
		t.Fatal(outcome, err)
	}
	for range 2 {
		if outcome, err := far.Cancel(t.Context(), r, &resp); outcome != reservation.SettledBefore || err != nil {
			t.Fatal(outcome, err)
		}
	}
	never := reservation.Made(bytes.Replace([]byte(r.Claims()), []byte("\x01a"), []byte("\x01b"), 1), nil, r.Expires())
	if outcome, err := far.Cancel(t.Context(), never, &resp); outcome != reservation.Unknown || err != nil {
		t.Fatal(outcome, err)
	}
	if r, err := far.Reserve(t.Context(), &request, reservation.Options{}, &resp); err != nil || resp.Allowed || r != (reservation.Reservation{}) {
		t.Fatalf("70 and 40 of 100: %v, %+v, %v", r, resp, err)
	}
	request.Descriptors[0].Hits = 10
	r, err = near.Reserve(t.Context(), &request, reservation.Options{}, &resp)
	if err != nil || !resp.Allowed {
		t.Fatalf("%+v, %v", resp, err)
	}
	actual := reservation.Actual{Attributes: ask(1, "content_length", "5").Descriptors[0].Entries}
	if outcome, err := far.Commit(t.Context(), r, actual, &resp); outcome != reservation.Settled || err != nil || resp.Speaker().Decision.Remaining != 20 {
		t.Fatalf("%v, %v, %+v", outcome, err, resp)
	}
	if left := check(t, near, ask(0, "sent", "x")).Verdicts[0].Decision.Remaining; left != 94 {
		t.Errorf("%d left of what is sent, want 94", left)
	}

	late, err := far.Reserve(t.Context(), &request, reservation.Options{}, &resp)
	if err != nil || !resp.Allowed {
		t.Fatal(err)
	}
	now = now.Add(5 * time.Minute)
	if _, err := far.Commit(t.Context(), late, reservation.Actual{}, &resp); !errors.Is(err, reservation.ErrExpired) {
		t.Errorf("late: %v", err)
	}
	for name, try := range map[string]func() error{
		"nothing": func() error { _, err := far.Cancel(t.Context(), reservation.Reservation{}, &resp); return err },
		"hits": func() error {
			_, err := far.Commit(t.Context(), late, reservation.Actual{Hits: []int64{-1}}, &resp)
			return err
		},
		"an id": func() error {
			_, err := far.Reserve(t.Context(), &request, reservation.Options{ID: "\xff"}, &resp)
			return err
		},
		"a ttl": func() error {
			_, err := far.Reserve(t.Context(), &request, reservation.Options{TTL: time.Millisecond}, &resp)
			return err
		},
		"a ttl that the wire would make the default": func() error {
			_, err := far.Reserve(t.Context(), &request, reservation.Options{TTL: time.Millisecond - 1}, &resp)
			return err
		},
		"a ttl that the wire would cut": func() error {
			_, err := far.Reserve(t.Context(), &request, reservation.Options{TTL: time.Minute + 1}, &resp)
			return err
		},
		"a refund": func() error {
			refund := ask(1, "user", "1")
			refund.Descriptors[0].Op = store.Refund
			_, err := far.Reserve(t.Context(), &refund, reservation.Options{}, &resp)
			return err
		},
	} {
		if err := try(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if s := far.Stats(); s.Degraded != 0 || s.Refused != 8 {
		t.Errorf("%+v", s)
	}
}

// TestA10ReserveWithoutServer: by failure mode, and without a reservation.
func TestA10ReserveWithoutServer(t *testing.T) {
	request := ask(1, "user", "1")
	var resp headgate.Response
	for _, mode := range []rules.FailureMode{rules.Open, rules.Closed} {
		far := remote(t, client.CheckerOptions{URL: "http://127.0.0.1:1", Failure: mode})
		r, err := far.Reserve(t.Context(), &request, reservation.Options{}, &resp)
		if err != nil || resp.Allowed != (mode == rules.Open) || resp.Degraded() == store.NoReason || r != (reservation.Reservation{}) {
			t.Errorf("%v: %v, %+v, %v", mode, r, resp, err)
		}
		made, err := reservation.Parse(settleable(t))
		if err != nil {
			t.Fatal(err)
		}
		if outcome, err := far.Commit(t.Context(), made, reservation.Actual{}, &resp); outcome != reservation.Undecided || err != nil || resp.Degraded() == store.NoReason {
			t.Errorf("%v: %v, %+v, %v", mode, outcome, resp, err)
		}
	}
}

func settleable(t *testing.T) string {
	t.Helper()
	request := ask(1, "user", "1")
	var resp headgate.Response
	r, err := newLimiter(t).Reserve(t.Context(), &request, reservation.Options{}, &resp)
	if err != nil {
		t.Fatal(err)
	}
	return r.String()
}

// TestSettlingNeedsNoResponse: who settles may not want to know what is left, whether the server
// answers or not.
func TestSettlingNeedsNoResponse(t *testing.T) {
	url := serve(t, newLimiter(t), httpcheck.Options{})
	far := remote(t, client.CheckerOptions{URL: url, Budget: time.Minute})
	req := ask(1, "user", "1")
	r, err := far.Reserve(t.Context(), &req, reservation.Options{}, new(headgate.Response))
	if err != nil {
		t.Fatal(err)
	}
	if outcome, err := far.Cancel(t.Context(), r, nil); err != nil || outcome != reservation.Settled {
		t.Errorf("%v, %v", outcome, err)
	}
	away := remote(t, client.CheckerOptions{URL: "http://headgate.test", Transport: transportFunc(func(*http.Request) (*http.Response, error) { return nil, io.EOF })})
	if outcome, err := away.Commit(t.Context(), r, reservation.Actual{}, nil); err != nil || outcome != reservation.Undecided {
		t.Errorf("away: %v, %v", outcome, err)
	}
}

// TestRefusedReservationIsNotAllowed: by the checker or the server, and also where resp is that of a
// call before.
func TestRefusedReservationIsNotAllowed(t *testing.T) {
	door := newLimiter(t).Door(headgate.DoorOptions{Rights: headgate.Rights{Check: true}}) // and not to reserve
	far := remote(t, client.CheckerOptions{URL: serve(t, door, httpcheck.Options{}), Budget: time.Minute})
	here, there := ask(1, "user", "1"), ask(1, "user", "1")
	here.Descriptors[0].Op = store.Refund
	for name, req := range map[string]headgate.Request{"here": here, "there": there} {
		resp := headgate.Response{Allowed: true}
		if _, err := far.Reserve(t.Context(), &req, reservation.Options{}, &resp); err == nil || resp.Allowed {
			t.Errorf("%s: %v, allowed %v", name, err, resp.Allowed)
		}
	}
}
