package httplimit

import (
	"net/http"

	"github.com/headgate/headgate/internal/httpanswer"
)

// recorder sees the status of an answer, and puts fields over those of the handler
// right before they leave.
type recorder struct {
	status int                // 0: not answered yet
	fields *httpanswer.Writer // nil: none
}

// Begin implements watched.Watcher.
func (c *recorder) Begin(status int, h http.Header) {
	if c.status != 0 {
		return
	}
	c.status = status
	if c.fields != nil {
		c.fields.ReplaceCanonical(h)
	}
}

// Hijacked implements watched.Watcher.
func (c *recorder) Hijacked() {
	if c.status == 0 {
		c.status = http.StatusSwitchingProtocols
	}
}

// final is the status of the answer. A server ends one that panicked without
// any: 500 comes closest.
func (c *recorder) final(returned bool) int {
	switch {
	case c.status != 0:
		return c.status
	case returned:
		return http.StatusOK
	}
	return http.StatusInternalServerError
}

// speakFirst keeps the Middlewares around this one from putting their fields over those of
// this one, which has Override as they do.
func speakFirst(w http.ResponseWriter) {
	for w != nil {
		if watching, ok := w.(interface{ Watcher() any }); ok {
			if outer, ok := watching.Watcher().(*recorder); ok {
				outer.fields = nil
			}
		}
		wrapping, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return
		}
		w = wrapping.Unwrap()
	}
}
