package client

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/repeat"
	"github.com/headgate/headgate/store"
)

// MaxRetries bounds CheckerOptions.Retries.
const MaxRetries = 5

// retryPause is the pause before the first call that is sent again; it doubles with each.
const retryPause = time.Millisecond

// CheckOnce is headgate.Limiter.CheckOnce over the wire. When the server does not answer
// the requests are answered by failure mode, and may have been charged there: to ask again
// by the same ids is safe, and is done here as CheckerOptions.Retries say where all requests
// have one. An id is UTF-8 here.
func (c *Checker) CheckOnce(ctx context.Context, requests []headgate.Request, ids []string, responses []headgate.Response) error {
	switch {
	case len(requests) != len(responses):
		return refused(responses, fmt.Errorf("remote check: %d requests but %d responses; hint: give one response for each request", len(requests), len(responses)))
	case len(ids) != len(requests):
		return refused(responses, fmt.Errorf("remote check: %d requests but %d ids; hint: give one id for each request, \"\" for none", len(requests), len(ids)))
	case len(requests) == 0:
		return nil
	}
	for i, id := range ids {
		err := repeat.ValidateID(id)
		if err == nil && !utf8.ValidString(id) {
			err = fmt.Errorf("%w: it is not UTF-8", repeat.ErrID)
		}
		if err != nil {
			c.counts.refused.Add(1)
			return refused(responses, fmt.Errorf("remote check: request %d: %w", i, err))
		}
	}
	return c.check(ctx, requests, ids, responses)
}

// drawIDs draws an id for each of n requests, none where nothing is sent again.
func (c *Checker) drawIDs(n int) []string {
	if c.options.Retries == 0 {
		return nil
	}
	var b [16]byte
	rand.Read(b[:]) // never fails
	text := base64.RawURLEncoding.EncodeToString(b[:])
	if n == 1 {
		return []string{text}
	}
	ids := make([]string, n)
	for i := range ids {
		ids[i] = text + "-" + strconv.Itoa(i)
	}
	return ids
}

// allNamed reports whether each of ids is one.
func allNamed(ids []string) bool { return len(ids) > 0 && !slices.Contains(ids, "") }

// exchanges sends q until there is an answer, or no time or try is left. Each try has an
// even share of the time that is left.
func (c *Checker) exchanges(ctx context.Context, q *question, decode func(*http.Response, []byte) (store.Reason, error)) (store.Reason, error) {
	for tries := q.retries; ; tries-- {
		reason, err := c.try(ctx, q, tries, decode)
		if tries == 0 || err != nil || !isLost(reason) {
			return reason, err
		}
		if sleep.For(ctx, retryPause<<(q.retries-tries)) != nil {
			return reason, nil
		}
		c.counts.retried.Add(1)
	}
}

// isLost reports whether the server may have decided without being heard.
func isLost(reason store.Reason) bool { return reason == store.Timeout || reason == store.Unavailable }

// try sends q once, when so many tries may follow.
func (c *Checker) try(ctx context.Context, q *question, follow int, decode func(*http.Response, []byte) (store.Reason, error)) (store.Reason, error) {
	if end, ok := ctx.Deadline(); ok && follow > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)/time.Duration(follow+1))
		defer cancel()
	}
	return c.exchange(ctx, q, decode)
}
