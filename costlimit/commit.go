package costlimit

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/reservation"
	"github.com/headgate/headgate/store"
)

// outcome returns what each descriptor of a request has cost, and nil where that is not
// known: then the estimate stays.
func (m *Middleware) outcome(ctx context.Context, c *call, a *answer) []int64 {
	if a.meter != nil {
		used := a.meter.Close()
		switch {
		case used.Told:
			m.counts.told.Add(1)
		case a.status >= http.StatusBadRequest:
			m.counts.refused.Add(1)
			return m.used(c, nil)
		}
		if used.Guessed {
			m.counts.guessed.Add(1)
		}
		return m.used(c, used.Counts)
	}
	switch {
	case a.status == 0 && !a.ended && ctx.Err() != nil, a.status == http.StatusBadGateway && ctx.Err() != nil:
		// The client left before the answer began: the question may have been read.
		m.counts.guessed.Add(1)
		return m.used(c, m.options.Shape.Meter(c.asked, nil).Close().Counts)
	case a.status >= http.StatusBadRequest, a.status == 0 && !a.ended:
		m.counts.refused.Add(1)
		return m.used(c, nil)
	}
	m.counts.unread.Add(1)
	return nil
}

// Bounds of commits that the store did not answer in time.
const (
	// maxLate bounds those that are tried again at a time.
	maxLate = 1000
	// lateTries is how often each is tried again, after 1, 2, 4, 8 and 16 seconds.
	lateTries    = 5
	firstRetry   = time.Second
	lateDeadline = 5 * time.Second
)

// commit settles the reservation of c by what was used. It ends within the CommitTimeout
// though ctx may have ended, and goes on in the background where that was not enough.
func (m *Middleware) commit(ctx context.Context, c *call, hits []int64) {
	ctx = context.WithoutCancel(ctx)
	if m.settles(ctx, c, hits, m.options.CommitTimeout) {
		return
	}
	select {
	case m.late <- struct{}{}:
	default:
		m.counts.lost.Add(1)
		return
	}
	m.counts.late.Add(1)
	go func() {
		defer func() { <-m.late }()
		for wait := range lateTries {
			if sleep.For(ctx, firstRetry<<wait) == nil && m.settles(ctx, c, hits, lateDeadline) {
				return
			}
		}
		m.counts.lost.Add(1)
	}()
}

// settles tries to settle the reservation of c, and reports whether there is nothing more
// to try.
func (m *Middleware) settles(ctx context.Context, c *call, hits []int64, timeout time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var resp headgate.Response
	outcome, err := m.reserver.Commit(ctx, c.reservation, reservation.Actual{Hits: hits}, &resp)
	switch {
	case errors.Is(err, reservation.ErrExpired):
		return m.chargeRest(ctx, c, hits)
	case err != nil:
		return errors.Is(err, reservation.ErrMalformed) || errors.Is(err, headgate.ErrHits)
	}
	return outcome != reservation.Undecided
}

// chargeRest charges what was used beyond the estimate, which stays charged, of a
// reservation whose time is over.
func (m *Middleware) chargeRest(ctx context.Context, c *call, hits []int64) bool {
	var rest []headgate.Descriptor
	for i, d := range c.descriptors {
		if i < len(hits) && hits[i] > d.Hits {
			rest = append(rest, headgate.Descriptor{Entries: slices.Clone(d.Entries), Hits: hits[i] - d.Hits, Op: store.Charge})
		}
	}
	if len(rest) == 0 {
		return true
	}
	requests, responses := [1]headgate.Request{{Domain: c.domain, Descriptors: rest}}, [1]headgate.Response{}
	// It is not known of an error whether it was charged; to charge twice would be worse.
	if err := m.reserver.Check(ctx, requests[:], responses[:]); err != nil || responses[0].Degraded() != store.NoReason {
		m.counts.lost.Add(1)
	}
	return true
}
