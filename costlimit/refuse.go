package costlimit

import (
	"errors"
	"net/http"

	"github.com/headgate/headgate/httplimit"
)

// refusal is what a client is told whose request cannot be decided.
type refusal struct {
	status        int
	code, message string
}

// refusalOf returns what err means to a client. No text of an error is in it.
func refusalOf(err error) refusal {
	var beyond *http.MaxBytesError // of a handler around this one
	switch {
	case errors.Is(err, errTooLarge), errors.As(err, &beyond):
		return refusal{http.StatusRequestEntityTooLarge, "BODY_TOO_LARGE", "The body of the request is too large."}
	case errors.Is(err, errTooMany):
		return refusal{http.StatusServiceUnavailable, "SERVICE_UNAVAILABLE", "There are too many requests now. Retry in 1 second."}
	}
	return refusal{http.StatusBadRequest, "BAD_REQUEST", "The body of the request is malformed."}
}

// refuse answers a request whose body was not read.
func (m *Middleware) refuse(w http.ResponseWriter, r *http.Request, err error) {
	m.counts.unreadable.Add(1)
	no := refusalOf(err)
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	if no.status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "1")
	}
	httplimit.WriteRefusal(w, r, m.options.Limits.Answer.Body, no.status, no.code, no.message)
}
