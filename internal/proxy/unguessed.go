package proxy

import "net/http"

// unguessed is a ResponseWriter for answers of the backend. Without it net/http would look at
// the body of an answer that names no media type, and name one that the backend did not: a
// browser would run what it takes for HTML by that.
type unguessed struct {
	http.ResponseWriter
	// informed says that the client knows of answers that come before the answer (1xx). One of
	// HTTP/1.0 takes the first for the whole.
	informed bool
}

// Unwrap lets an http.ResponseController find what the writer can do.
func (u unguessed) Unwrap() http.ResponseWriter { return u.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (u unguessed) WriteHeader(status int) {
	if status < http.StatusOK && !u.informed {
		return
	}
	// Not before, because package httputil clears the header after each informational answer.
	if h := u.Header(); len(h["Content-Type"]) == 0 {
		h["Content-Type"] = nil // there, so that none is guessed, and written as nothing
	}
	u.ResponseWriter.WriteHeader(status)
}
