package httpcheck

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/httpanswer"
	"github.com/headgate/headgate/internal/strictjson"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/reservation"
	"github.com/headgate/headgate/store"
)

// Reserver is a Checker that also reserves, as headgate.Limiter does. With one,
// /v1/reserve, /v1/commit and /v1/cancel are served.
type Reserver interface {
	Reserve(context.Context, *headgate.Request, reservation.Options, *headgate.Response) (reservation.Reservation, error)
	Commit(context.Context, reservation.Reservation, reservation.Actual, *headgate.Response) (reservation.Outcome, error)
	Cancel(context.Context, reservation.Reservation, *headgate.Response) (reservation.Outcome, error)
}

// reservations serves the paths of reservations.
type reservations struct{ *handler }

// reserver is what reserves for who sent the call.
func (c *call) reserver() Reserver { return c.checker.(Reserver) }

// reserve serves /v1/reserve.
func (h *reservations) reserve(w http.ResponseWriter, r *http.Request) {
	c, ok := h.read(w, r, h.options.AdmitReserver)
	if !ok {
		return
	}
	defer h.release(c)
	d := &c.decoder
	h.prepare(d, r, store.Hit)
	d.reserves = true
	if err := d.decode(c.body.String()); err != nil {
		writeProblem(w, malformed(err))
		return
	}
	resp := c.response()
	ctx, end := h.options.Turns.Begin(r.Context())
	defer end()
	made, err := c.reserver().Reserve(ctx, &d.requests[0], d.reservation, resp)
	if err == nil {
		err = httpanswer.Heard(ctx, c.responses[:1])
	}
	if err != nil {
		writeProblem(w, refused(err, false))
		return
	}
	h.writeOne(w, c, resp, told{id: d.holds[0], reservation: made})
}

// commit serves /v1/commit.
func (h *reservations) commit(w http.ResponseWriter, r *http.Request) {
	h.settle(w, r, "/v1/commit", func(ctx context.Context, by Reserver, s *settlement, resp *headgate.Response) (reservation.Outcome, error) {
		return by.Commit(ctx, s.reservation, s.actual, resp)
	})
}

// cancel serves /v1/cancel.
func (h *reservations) cancel(w http.ResponseWriter, r *http.Request) {
	h.settle(w, r, "/v1/cancel", func(ctx context.Context, by Reserver, s *settlement, resp *headgate.Response) (reservation.Outcome, error) {
		return by.Cancel(ctx, s.reservation, resp)
	})
}

// settle does what reports of a reservation ask for, also where the caller has gone.
func (h *reservations) settle(w http.ResponseWriter, r *http.Request, path string, do func(context.Context, Reserver, *settlement, *headgate.Response) (reservation.Outcome, error)) {
	c, ok := h.read(w, r, h.options.AdmitReserver)
	if !ok {
		return
	}
	defer h.release(c)
	var s settlement
	if err := c.decoder.settlement(c.body.String(), &s, path == "/v1/cancel"); err != nil {
		writeProblem(w, malformed(err))
		return
	}
	resp := c.response()
	ctx, end := h.options.Turns.Begin(context.WithoutCancel(r.Context()))
	defer end()
	outcome, err := do(ctx, c.reserver(), &s, resp)
	if err != nil {
		writeProblem(w, refused(err, false))
		return
	}
	h.writeSettled(w, c, resp, outcome)
}

// writeSettled answers a commit or a cancellation. One that is undecided is to be
// tried again; one that is unknown is not.
func (h *reservations) writeSettled(w http.ResponseWriter, c *call, resp *headgate.Response, outcome reservation.Outcome) {
	status := http.StatusOK
	if outcome == reservation.Undecided {
		status = http.StatusServiceUnavailable
		w.Header().Set("Retry-After", "1")
	}
	c.out = append(c.out, `{"settled":`...)
	c.out = strconv.AppendBool(c.out, outcome == reservation.Settled || outcome == reservation.SettledBefore)
	c.out = appendText(c.out, `,"outcome":`, outcome.String())
	s := h.encoder.Summarize(resp)
	c.out = appendCounts(append(c.out, ','), &s)
	c.out = appendText(c.out, `,"degraded":`, string(resp.Degraded()))
	c.out = append(c.out, "}\n"...)
	w.Header().Set("Cache-Control", "no-store")
	write(w, status, mediaJSON, c.out)
}

// appendCounts appends what is left of the tightest limit, without a comma in front.
func appendCounts(dst []byte, s *httpanswer.Summary) []byte {
	return appendTightest(appendText(dst, `"rule":`, ruleOf(s.Verdict)), s)
}

// appendTightest appends the limit that speaks and what is left of it, as far as there is one.
func appendTightest(dst []byte, s *httpanswer.Summary) []byte {
	if s.Verdict != nil && s.Verdict.Limit != nil {
		dst = appendInt(dst, `,"limit":`, s.Verdict.Decision.Limit)
	}
	if s.Counted {
		dst = appendLeft(dst, s)
	}
	return dst
}

// refused says what a Checker or a Reserver found wrong with a request. Of many it names the
// one; a single one has no number.
func refused(err error, many bool) problem {
	p := problem{status: http.StatusBadRequest, detail: err.Error()}
	if denied, ok := errors.AsType[*headgate.RightsError](err); ok {
		p.status, p.hint = http.StatusForbidden, denied.Hint
		if p.detail = denied.What; denied.Descriptor >= 0 {
			p.detail = fmt.Sprintf("request %d: descriptor %d: %s", denied.Request, denied.Descriptor, denied.What)
		}
	}
	p = p.hinted()
	switch { // in the words of JSON
	case errors.Is(err, headgate.ErrNoDomain):
		p.hint = "domain is the one of rules, such as \"api\""
	case errors.Is(err, headgate.ErrNoDescriptors):
		p.hint = `descriptors: [{"descriptor":"user:42"}]`
	}
	if errors.Is(err, reservation.ErrExpired) {
		p.status = http.StatusGone
	}
	if status := statusOfID(err); status != 0 {
		p.status = status
	}
	if !many {
		p.detail = strings.Replace(p.detail, "request 0: ", "", 1)
	}
	return p
}

// appendReservation appends the members that a check does not have.
func appendReservation(dst []byte, r reservation.Reservation) []byte {
	dst = appendText(dst, `,"reservation":`, r.String())
	dst = append(dst, `,"expires_at":"`...)
	dst = r.Expires().UTC().AppendFormat(dst, "2006-01-02T15:04:05.000Z")
	return append(dst, '"')
}

// settlement is the body of /v1/commit and /v1/cancel.
type settlement struct {
	reservation reservation.Reservation
	actual      reservation.Actual
}

// settlement reads a whole body; that of a cancellation names the reservation alone.
func (d *decoder) settlement(text string, s *settlement, cancels bool) *strictjson.Error {
	d.Scanner = strictjson.NewScanner(text)
	given := false
	err := d.Object(func(name string) (err *strictjson.Error) {
		switch {
		case name == "reservation":
			given = true
			s.reservation, err = d.reservationText()
		case name == "hits" && !cancels:
			s.actual.Hits, err = d.actualHits()
		case name == "attributes" && !cancels:
			s.actual.Attributes, err = d.attributes()
		case cancels:
			err = &strictjson.Error{What: "unknown member of a cancellation", Hint: "reservation"}
		default:
			err = &strictjson.Error{What: "unknown member of a commit", Hint: "reservation, hits, attributes"}
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case !given:
		return &strictjson.Error{What: "no reservation", Hint: "send the one that /v1/reserve answered"}
	}
	return d.End()
}

func (d *decoder) reservationText() (reservation.Reservation, *strictjson.Error) {
	text, err := d.Text()
	if err != nil {
		return reservation.Reservation{}, err
	}
	r, parseErr := reservation.Parse(text)
	if parseErr != nil {
		return reservation.Reservation{}, &strictjson.Error{What: parseErr.Error()}
	}
	return r, nil
}

// actualHits reads one number for all descriptors, or one for each.
func (d *decoder) actualHits() (hits []int64, err *strictjson.Error) {
	one := func(int) *strictjson.Error {
		n, err := d.Integer(0, limit.MaxQuota)
		hits = append(hits, n)
		return err
	}
	if d.Next() != '[' {
		return hits, one(0)
	}
	if err := d.Array(descriptor.MaxDescriptors, one); err != nil {
		return nil, err
	}
	if len(hits) == 0 {
		return nil, &strictjson.Error{What: "empty", Hint: "one number, or one for each descriptor"}
	}
	return hits, nil
}

// maxTTL is the longest ttl_ms.
const maxTTL = int64(reservation.MaxTTL / time.Millisecond)

// reserveMember reads a member that only /v1/reserve has.
func (d *decoder) reserveMember(name string) (err *strictjson.Error) {
	if name == "ttl_ms" {
		var ms int64
		ms, err = d.Integer(int64(reservation.MinTTL/time.Millisecond), maxTTL)
		d.reservation.TTL = time.Duration(ms) * time.Millisecond
		return err
	}
	if d.reservation.ID, err = d.Text(); err == nil && d.reservation.ID == "" {
		return &strictjson.Error{What: "empty", Hint: "an id, or leave it out to have one drawn"}
	}
	return err
}
