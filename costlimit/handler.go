package costlimit

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/headgate/headgate/answercost"
)

// Wrap returns a handler that runs next for the requests whose cost is reserved. It can be
// used for any number of handlers.
func (m *Middleware) Wrap(next http.Handler) http.Handler {
	return &handler{m, m.limits.Wrap(&metered{m, next}), next}
}

type handler struct {
	*Middleware
	limited, next http.Handler
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !h.applies(r) {
		h.counts.passed.Add(1)
		h.next.ServeHTTP(w, r)
		return
	}
	body, err := h.read(r)
	defer h.kept.Add(-int64(cap(body)))
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	c := &call{asked: h.options.Shape.Ask(body)}
	r = r.WithContext(context.WithValue(r.Context(), callKey{}, c))
	r.Body = again{bytes.NewReader(body), r.Body}
	h.limited.ServeHTTP(w, r)
}

func (m *Middleware) applies(r *http.Request) bool {
	if m.options.Applies != nil {
		return m.options.Applies(r)
	}
	return r.Body != nil && r.Body != http.NoBody
}

// again is a body that was read.
type again struct {
	io.Reader
	io.Closer
}

var (
	errTooLarge = errors.New("the body of the request is too large")
	errTooMany  = errors.New("too many bodies of requests are kept")
)

// leastRoom is the room for a body of unknown length at first, in bytes.
const leastRoom = 4 << 10

// read reads the body of r. The room of what it returns is counted in kept, whatever the
// error.
func (m *Middleware) read(r *http.Request) ([]byte, error) {
	if r.ContentLength > m.options.MaxRequest {
		return nil, errTooLarge
	}
	if r.Body == nil {
		return nil, nil
	}
	var body []byte
	for {
		if len(body) == cap(body) {
			grown, err := m.grow(body, r.ContentLength)
			if err != nil {
				return body, err
			}
			body = grown
		}
		n, err := r.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case int64(len(body)) > m.options.MaxRequest:
			return body, errTooLarge
		case err == io.EOF:
			return body, nil
		case err != nil:
			return body, err
		}
	}
}

// grow returns body with more room, which it counts. What a client says of the length is
// believed only as far as it has sent: room doubles.
func (m *Middleware) grow(body []byte, says int64) ([]byte, error) {
	room := max(2*int64(cap(body)), leastRoom)
	if says >= 0 {
		room = min(room, max(says, int64(len(body)))+1) // one more, for the end
	}
	room = min(room, m.options.MaxRequest+1)
	if more := room - int64(cap(body)); m.kept.Add(more) > m.options.MaxKept {
		m.kept.Add(-more)
		return nil, errTooMany
	}
	grown := make([]byte, len(body), room)
	copy(grown, body)
	return grown, nil
}

// metered runs the handler for a request that may pass, and commits what its answer used.
type metered struct {
	*Middleware
	next http.Handler
}

// ServeHTTP implements http.Handler.
func (h *metered) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := callOf(r.Context())
	if c == nil || !c.reserved() {
		h.counts.passed.Add(1)
		h.next.ServeHTTP(w, r)
		return
	}
	askReadable(r.Header)
	reading := &answer{ResponseWriter: w, shape: h.options.Shape, asked: c.asked}
	// Whatever becomes of the handler: a panic, a connection taken over, a client that
	// is gone.
	defer func() { h.commit(r.Context(), c, h.outcome(r.Context(), c, reading)) }()
	h.next.ServeHTTP(reading, r)
	reading.ended = true
}

// askReadable has the answer come as it is, or compressed so that it can be read.
func askReadable(h http.Header) {
	for _, accepted := range h["Accept-Encoding"] {
		for coding := range strings.SplitSeq(accepted, ",") {
			name, quality, _ := strings.Cut(strings.ReplaceAll(coding, " ", ""), ";")
			if strings.EqualFold(name, "gzip") && (quality == "" || strings.Trim(quality, "q=0.") != "") {
				h["Accept-Encoding"] = []string{"gzip"}
				return
			}
		}
	}
	// Without the field any coding would do, and some transports would add one.
	h["Accept-Encoding"] = []string{"identity"}
}

// answer is a ResponseWriter that reads what passes.
type answer struct {
	http.ResponseWriter
	shape  *answercost.Shape
	asked  answercost.Asked
	status int               // 0: not answered yet
	meter  *answercost.Meter // nil: not readable
	ended  bool              // the handler has returned
}

// Unwrap lets an http.ResponseController find what the inner one can do.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		a.begin(status)
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) begin(status int) {
	if a.status != 0 {
		return
	}
	a.status = status
	if h := a.Header(); answercost.Readable(h) {
		a.meter = a.shape.Meter(a.asked, h)
	}
}

// Write implements http.ResponseWriter. What the client does not get any more was made for
// it, and costs.
func (a *answer) Write(p []byte) (int, error) {
	a.begin(http.StatusOK)
	if a.meter != nil {
		_, _ = a.meter.Write(p)
	}
	return a.ResponseWriter.Write(p)
}

// Flush implements http.Flusher, for handlers that ask for that and not by an
// http.ResponseController.
func (a *answer) Flush() { _ = a.FlushError() }

// FlushError is what an http.ResponseController asks for first.
func (a *answer) FlushError() error {
	a.begin(http.StatusOK)
	return http.NewResponseController(a.ResponseWriter).Flush()
}
