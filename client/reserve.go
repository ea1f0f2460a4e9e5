package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/reservation"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/verdict"
)

// wireReserve is the body of POST /v1/reserve.
type wireReserve struct {
	wireCheck
	ID    string `json:"id,omitempty"`
	TTLMS int64  `json:"ttl_ms,omitempty"`
}

// wireSettle is the body of POST /v1/commit and /v1/cancel.
type wireSettle struct {
	Reservation string            `json:"reservation"`
	Hits        []int64           `json:"hits,omitempty"`
	Attributes  map[string]string `json:"attributes,omitempty"`
}

// Reserve is headgate.Limiter.Reserve over the wire. When the server does not answer
// and the failure mode lets the request pass, there is no reservation, as the zero
// value says, and what the request uses is not counted; what the server may have
// reserved in time stays charged.
func (c *Checker) Reserve(ctx context.Context, req *headgate.Request, o reservation.Options, resp *headgate.Response) (reservation.Reservation, error) {
	var r reservation.Reservation
	body, err := encodeReserve(req, o)
	if err != nil {
		c.counts.refused.Add(1)
		return r, refusedOne(resp, err)
	}
	reason, err := c.ask(ctx, question{target: c.base.JoinPath("/v1/reserve").String(), body: body, requests: 1, trace: req.Origin.Trace}, func(answer *http.Response, body []byte) (reason store.Reason, err error) {
		r, reason, err = decodeReserved(answer, body, req, resp)
		return reason, err
	})
	if c.degraded(1, reason, err) {
		answerByMode(req, resp, c.options.Failure, reason)
	}
	return r, refusedOne(resp, err)
}

// refusedOne is refused for one response; err may be nil.
func refusedOne(resp *headgate.Response, err error) error {
	if err != nil {
		*resp = headgate.Response{Verdicts: resp.Verdicts[:0]}
	}
	return err
}

func encodeReserve(req *headgate.Request, o reservation.Options) ([]byte, error) {
	if err := o.Validate(); err != nil { // also because ttl_ms has no parts of a millisecond
		return nil, fmt.Errorf("remote reserve: %w", err)
	}
	if !utf8.ValidString(o.ID) {
		return nil, fmt.Errorf("remote reserve: %w: the id is not UTF-8", reservation.ErrMalformed)
	}
	for i := range req.Descriptors {
		if d := &req.Descriptors[i]; d.Op != store.Hit || d.Limit != nil {
			return nil, fmt.Errorf("remote reserve: descriptor %d: %w; hint: hits, limited by the server's rules", i, reservation.ErrMalformed)
		}
	}
	check, err := encodeCheck(req)
	if err != nil {
		return nil, fmt.Errorf("remote reserve: %w", err)
	}
	body, err := json.Marshal(wireReserve{check, o.ID, int64(o.TTL / time.Millisecond)})
	if err == nil && len(body) > maxBody {
		err = fmt.Errorf("%d bytes; hint: at most %d", len(body), maxBody)
	}
	if err != nil {
		return nil, fmt.Errorf("remote reserve: %w", err)
	}
	return body, nil
}

// decodeReserved fills in resp from an answer, and returns the reservation in it.
func decodeReserved(answer *http.Response, body []byte, req *headgate.Request, resp *headgate.Response) (reservation.Reservation, store.Reason, error) {
	var r reservation.Reservation
	responses := [1]headgate.Response{*resp}
	reason, err := decodeAnswer(answer, body, []headgate.Request{*req}, responses[:])
	if reason != store.NoReason || err != nil {
		return r, reason, err
	}
	var told struct {
		Reservation string `json:"reservation"`
	}
	if json.Unmarshal(body, &told) != nil {
		return r, store.Misconfigured, nil
	}
	if responses[0].Allowed {
		if r, err = reservation.Parse(told.Reservation); err != nil {
			return r, store.Misconfigured, nil
		}
	}
	*resp = responses[0]
	return r, store.NoReason, nil
}

// Commit is headgate.Limiter.Commit over the wire. When the server does not answer, the
// outcome is Undecided: to try again is safe.
func (c *Checker) Commit(ctx context.Context, r reservation.Reservation, actual reservation.Actual, resp *headgate.Response) (reservation.Outcome, error) {
	body := wireSettle{Reservation: r.String(), Hits: actual.Hits}
	for _, hits := range actual.Hits {
		if hits < 0 || hits > limit.MaxQuota {
			c.counts.refused.Add(1)
			return reservation.Undecided, fmt.Errorf("remote commit: %w: %d; hint: 0 to %d", headgate.ErrHits, hits, int64(limit.MaxQuota))
		}
	}
	var err error
	if body.Attributes, err = encodeAttributes(actual.Attributes); err != nil {
		c.counts.refused.Add(1)
		return reservation.Undecided, fmt.Errorf("remote commit: %w", err)
	}
	return c.settle(ctx, "commit", body, resp)
}

// Cancel is headgate.Limiter.Cancel over the wire; see Commit.
func (c *Checker) Cancel(ctx context.Context, r reservation.Reservation, resp *headgate.Response) (reservation.Outcome, error) {
	return c.settle(ctx, "cancel", wireSettle{Reservation: r.String()}, resp)
}

func (c *Checker) settle(ctx context.Context, verb string, what wireSettle, resp *headgate.Response) (reservation.Outcome, error) {
	if resp == nil {
		resp = new(headgate.Response)
	}
	if what.Reservation == "" {
		c.counts.refused.Add(1)
		return reservation.Undecided, fmt.Errorf("remote %s: %w: it reserves nothing", verb, reservation.ErrMalformed)
	}
	body, err := json.Marshal(what)
	if err != nil {
		return reservation.Undecided, fmt.Errorf("remote %s: %w", verb, err)
	}
	outcome := reservation.Undecided
	reason, err := c.ask(ctx, question{target: c.base.JoinPath("/v1/" + verb).String(), body: body, requests: 1}, func(answer *http.Response, body []byte) (reason store.Reason, err error) {
		outcome, reason, err = decodeSettled(answer, body, resp)
		return reason, err
	})
	if c.degraded(1, reason, err) {
		v := headgate.Verdict{By: verdict.ByFailureMode, Degraded: reason, Decision: limit.Decision{Allowed: true}}
		*resp = headgate.Response{Allowed: true, Verdicts: append(resp.Verdicts[:0], v)}
	}
	return outcome, refusedOne(resp, err)
}

// decodeSettled reads the answer to a commit or a cancellation.
func decodeSettled(answer *http.Response, body []byte, resp *headgate.Response) (reservation.Outcome, store.Reason, error) {
	switch answer.StatusCode {
	case http.StatusOK, http.StatusServiceUnavailable:
	case http.StatusGone:
		reason, err := decodeProblem(answer, body)
		if err != nil {
			err = fmt.Errorf("remote settlement: %w", reservation.ErrExpired)
		}
		return reservation.Undecided, reason, err
	default:
		reason, err := decodeRefusal(answer, body)
		return reservation.Undecided, reason, err
	}
	var told struct {
		wireDecision
		Outcome string `json:"outcome"`
	}
	if json.Unmarshal(body, &told) != nil {
		return reservation.Undecided, foreign(answer.StatusCode), nil
	}
	for _, outcome := range [...]reservation.Outcome{reservation.Undecided, reservation.Settled, reservation.SettledBefore, reservation.Unknown} {
		if outcome.String() == told.Outcome {
			allowed := true
			told.Allowed = &allowed
			told.fill(&headgate.Request{Descriptors: make([]headgate.Descriptor, 1)}, resp, &Limits{})
			return outcome, store.NoReason, nil
		}
	}
	return reservation.Undecided, foreign(answer.StatusCode), nil
}
