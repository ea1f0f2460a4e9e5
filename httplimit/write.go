package httplimit

import (
	"errors"
	"net/http"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/admission"
	"github.com/headgate/headgate/internal/httpanswer"
)

// writeBody sends an answer in place of the handler's, to HEAD its head alone. That the client
// may be gone is nobody's error.
func writeBody(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body)
	}
}

// refuse answers a request that cannot be decided at all.
func (m *Middleware) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil && !admission.Malformed(err) {
		// Most likely the client is gone, but it may be a deadline of the server.
		w.Header().Set("Retry-After", "1")
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	m.refused.Add(1)
	if m.options.OnError != nil {
		m.options.OnError(r, err)
	}
	status := m.refusalStatus(err)
	w.Header().Set("Cache-Control", "no-store")
	switch {
	case status == http.StatusUnauthorized && m.options.Challenge != "":
		w.Header().Set("Www-Authenticate", m.options.Challenge)
	case status == http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	}
	code, message := refusalText(status)
	WriteRefusal(w, r, m.options.Answer.Body, status, code, message)
}

// refusalStatus is 4xx, but for what is a fault of ours: no address where one must
// be, and no keys to verify a token.
func (m *Middleware) refusalStatus(err error) int {
	var credential *identity.RefusedError
	status, refused := http.StatusBadRequest, errors.As(err, &credential)
	switch {
	case m.options.IdentifyStatus != nil && !admission.Malformed(err):
		status = m.options.IdentifyStatus(err)
	case errors.Is(err, identity.ErrNoAddress):
		return http.StatusInternalServerError
	case refused && credential.Reason.Ours():
		return http.StatusServiceUnavailable
	case refused && credential.Forbidden:
		return http.StatusForbidden
	case refused && credential.Reason == identity.Conflicting:
	case m.options.Challenge != "" && (refused || errors.Is(err, ErrUnidentified)):
		status = http.StatusUnauthorized
	}
	if status < 400 || status > 499 || status == http.StatusTooManyRequests {
		return http.StatusBadRequest
	}
	return status
}

// refusalText returns what is told of a refusal. It does not show the error: that may hold
// what the client sent.
func refusalText(status int) (code, message string) {
	switch status {
	case http.StatusUnauthorized:
		return "UNAUTHENTICATED", "The request needs good credentials."
	case http.StatusForbidden:
		return "FORBIDDEN", "The API key is not known here."
	case http.StatusInternalServerError:
		return "INTERNAL_ERROR", "It cannot be told who asks."
	case http.StatusServiceUnavailable:
		return "SERVICE_UNAVAILABLE", "The credentials cannot be verified now. Retry in 1 second."
	}
	return "BAD_REQUEST", "The request does not say clearly who asks."
}

// WriteRefusal answers a request that another handler refuses, with a body of the shape that
// denials have. code and message are shown as they are: letters, digits, spaces, '_' and '.'.
func WriteRefusal(w http.ResponseWriter, r *http.Request, b Body, status int, code, message string) {
	f := httpanswer.Fault{Status: status, Code: code, Message: message}
	w.Header().Set("Content-Type", httpanswer.MediaType(b))
	writeBody(w, r, status, f.AppendBody(nil, b))
}
