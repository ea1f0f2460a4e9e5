package loadgen

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/headgate/headgate/internal/sleep"
)

// maxAnswer bounds what is read of an answer, in bytes, and MaxHeader what is read of its header: each request
// that is under way may hold as much, and a server that is asked may be anybody's.
const (
	maxAnswer = 64 << 10
	MaxHeader = 32 << 10
)

// OverHTTP asks POST /v1/check.
type OverHTTP struct {
	Client *http.Client
	// Request makes the request about a key.
	Request func(ctx context.Context, key int, body io.Reader) (*http.Request, error)
	// Body is the body about a key.
	Body func(key int) []byte
	// Slow says whether the next request is that of a slow caller, whose second half of the
	// body comes Pause after the first. It is called from many goroutines.
	Slow  func() bool
	Pause time.Duration
}

// Send is a Sender.
func (h *OverHTTP) Send(ctx context.Context, key int) (a Answer) {
	text := h.Body(key)
	body := io.Reader(bytes.NewReader(text))
	if a.Slow = h.Slow(); a.Slow {
		body = &slowBody{ctx: ctx, rest: text, pause: h.Pause}
	}
	r, err := h.Request(ctx, key, body)
	if err == nil {
		r.ContentLength = int64(len(text))
		err = h.ask(r, &a)
	}
	if err != nil {
		a.Code, a.Err = reasonOf(err), err
	}
	return a
}

func (h *OverHTTP) ask(r *http.Request, a *Answer) error {
	resp, err := h.Client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return err
	}
	a.Code = strconv.Itoa(resp.StatusCode)
	var said struct {
		Allowed, Matched *bool
		Degraded         string
	}
	if json.Unmarshal(text, &said) == nil && said.Allowed != nil {
		a.Decided, a.Allowed, a.Degraded = true, *said.Allowed, said.Degraded != ""
		a.Unmatched = said.Matched != nil && !*said.Matched
	}
	return nil
}

// reasonOf returns why there was no answer, in few words, because they are counted.
func reasonOf(err error) string {
	var network net.Error
	switch {
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return "timeout"
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return "cannot " + op.Op
	}
	return "no answer"
}

// slowBody is the body of a caller that is slow.
type slowBody struct {
	ctx    context.Context
	rest   []byte
	pause  time.Duration
	paused bool
}

// Read implements io.Reader.
func (s *slowBody) Read(p []byte) (int, error) {
	if len(s.rest) == 0 {
		return 0, io.EOF
	}
	n := len(s.rest)
	if !s.paused {
		s.paused = true
		n = max(n/2, 1)
	} else if err := sleep.For(s.ctx, s.pause); err != nil {
		return 0, err
	}
	n = copy(p, s.rest[:n])
	s.rest = s.rest[n:]
	return n, nil
}
