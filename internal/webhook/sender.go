package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/hideurl"
	"github.com/headgate/headgate/internal/sleep"
)

const (
	// maxQueue bounds the events that wait for one receiver.
	maxQueue = 10_000
	// maxTries is how often an event is sent before it is given up.
	maxTries = 10
	// workers is how many events are sent to one receiver at once.
	workers = 4
	// sendTimeout bounds one try.
	sendTimeout = 10 * time.Second
	// minPause is the pause after the first try, which doubles, and maxPause bounds
	// it. maxRetryAfter bounds what a receiver asks for.
	minPause, maxPause = time.Second, 5 * time.Minute
	maxRetryAfter      = time.Hour
	// maxAnswer bounds what is read of the body of an answer, in bytes: enough that
	// most connections can be used again.
	maxAnswer = 4 << 10
)

// sender sends events to one receiver.
type sender struct {
	*Receiver
	label   string
	client  *http.Client
	events  chan Event
	now     func() time.Time
	onError func(error)

	told, sent, failed, dropped, retried atomic.Uint64
}

func newSender(i int, r *Receiver, transport http.RoundTripper, o *Options) *sender {
	return &sender{
		Receiver: r, label: fmt.Sprintf("out[%d] (%s)", i, r.URL.Host),
		client: &http.Client{
			Transport: transport, Timeout: sendTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		events: make(chan Event, maxQueue), now: o.Now, onError: o.OnError,
	}
}

// threshold returns the highest threshold of the receiver up to reached, 0 for none.
func (s *sender) threshold(reached int) (highest int) {
	for _, t := range s.Thresholds {
		if t <= reached {
			highest = t
		}
	}
	return highest
}

func (s *sender) wants(t Type) bool { return slices.Contains(s.Events, t) }

// queue takes an event, unless too many wait already.
func (s *sender) queue(e Event) {
	s.told.Add(1)
	select {
	case s.events <- e:
	default:
		s.dropped.Add(1)
	}
}

func (s *sender) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-s.events:
			s.deliver(ctx, &e)
		}
	}
}

// deliver sends an event until it is taken, given up, or ctx ends.
func (s *sender) deliver(ctx context.Context, e *Event) {
	body, err := json.Marshal(e)
	if err != nil {
		panic(err) // text, numbers and times only
	}
	for try := 1; ; try++ {
		err := s.send(ctx, body)
		if err == nil {
			s.sent.Add(1)
			return
		}
		if ctx.Err() != nil {
			return
		}
		var refused *refusal
		if try == maxTries || errors.As(err, &refused) && refused.final {
			s.failed.Add(1)
			s.onError(fmt.Errorf("webhook %s: event %s was given up after try %d: %w", s.label, e.ID, try, err))
			return
		}
		if sleep.For(ctx, pause(try, refused, rand.Float64())) != nil {
			return
		}
		s.retried.Add(1)
	}
}

// pause returns how long to wait after a try that failed: doubled for each, between
// half and all of it by spread, a random number in [0, 1), and not less than the
// receiver asked for.
func pause(try int, refused *refusal, spread float64) time.Duration {
	longest := min(maxPause, minPause<<min(try-1, 30))
	p := longest/2 + time.Duration(spread*float64(longest/2))
	if refused != nil {
		p = max(p, refused.after)
	}
	return p
}

// refusal is an answer that is not 2xx.
type refusal struct {
	status int
	// final says that the same request will not be taken later either.
	final bool
	// after is how long the receiver wants to be left alone.
	after time.Duration
}

// Error implements error.
func (r *refusal) Error() string { return "status " + strconv.Itoa(r.status) }

// send makes one try. The error does not hold the address.
func (s *sender) send(ctx context.Context, body []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL.String(), bytes.NewReader(body))
	if err != nil {
		return errors.New("no request can be made of the address")
	}
	now := s.now()
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "headgate")
	r.Header.Set(SignatureHeader, Sign(s.Keys, body, now))
	answer, err := s.client.Do(r)
	if err != nil {
		return hideurl.In(err)
	}
	_, _ = io.CopyN(io.Discard, answer.Body, maxAnswer)
	_ = answer.Body.Close()
	if answer.StatusCode/100 == 2 {
		return nil
	}
	return &refusal{answer.StatusCode, final(answer.StatusCode), retryAfter(answer.Header.Get("Retry-After"), now)}
}

// final reports whether a status says that sending the same again is no use: a
// redirect, which is not followed, and what says that the request is at fault.
func final(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return status < 500
}

// retryAfter reads a field of that name (RFC 9110, section 10.2.3); 0 when there is
// none.
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return min(maxRetryAfter, time.Duration(seconds)*time.Second)
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(maxRetryAfter, max(0, at.Sub(now)))
	}
	return 0
}

func (s *sender) addTo(sum *Stats) {
	// Told last: so Queued is never below what it is.
	sent, failed, dropped := s.sent.Load(), s.failed.Load(), s.dropped.Load()
	told := s.told.Load()
	sum.Sent += sent
	sum.Failed += failed
	sum.Dropped += dropped
	sum.Retried += s.retried.Load()
	sum.Told += told
	sum.Queued += int64(told - sent - failed - dropped)
}
