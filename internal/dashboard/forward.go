package dashboard

import (
	"context"
	"net/http"
	"strings"

	"github.com/headgate/headgate/internal/refusals"
)

// asking are the header fields of a request that the admin API gets, and answering those
// of its answers that the browser does not.
var (
	asking    = []string{"Accept", "Content-Type", "Idempotency-Key", "If-Match", "If-None-Match", "Last-Event-Id", "User-Agent"}
	answering = []string{"Set-Cookie", "Www-Authenticate"}
)

// forward asks the admin API in the name of a session.
func (h *handler) forward(w http.ResponseWriter, r *http.Request) {
	s := h.session(r)
	if s == nil {
		because := refusals.NoSession
		if h.brought(r) != nil {
			because = refusals.UnknownSession
		}
		h.refusals.Refused(refusals.Dashboard, because, r, "")
		fail(http.StatusUnauthorized, "nobody is logged in").write(w)
		return
	}
	// What is still being answered ends with the session: streams go on for hours.
	ctx, cancel := context.WithTimeout(refusals.Through(r.Context(), refusals.Dashboard), s.expires.Sub(h.now()))
	defer cancel()
	defer context.AfterFunc(s.ended, cancel)()
	asked := r.Clone(ctx)
	asked.URL.Path = adminPath + strings.TrimPrefix(r.URL.Path, apiPath)
	asked.URL.RawPath = ""
	if raw, ok := strings.CutPrefix(r.URL.RawPath, apiPath); ok {
		asked.URL.RawPath = adminPath + raw
	}
	asked.Header = http.Header{"Authorization": {"Bearer " + s.token(ctx)}}
	for _, name := range asking {
		if values := r.Header.Values(name); len(values) > 0 {
			asked.Header[name] = values
		}
	}
	h.api.ServeHTTP(&forwarded{ResponseWriter: w, refused: func() {
		h.sessions.drop(s)
		h.forget(w, r)
	}}, asked)
}

// forwarded is how the admin API answers a browser. Streams are flushed through it.
type forwarded struct {
	http.ResponseWriter
	refused func() // the token is not good any more
	begun   bool
}

// Unwrap is for http.ResponseController.
func (f *forwarded) Unwrap() http.ResponseWriter { return f.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (f *forwarded) WriteHeader(status int) {
	if !f.begun && status >= http.StatusOK {
		f.begun = true
		for _, name := range answering {
			f.Header().Del(name)
		}
		if status == http.StatusUnauthorized {
			f.refused()
		}
	}
	f.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (f *forwarded) Write(b []byte) (int, error) {
	if !f.begun {
		f.WriteHeader(http.StatusOK)
	}
	return f.ResponseWriter.Write(b)
}

// Flush implements http.Flusher.
func (f *forwarded) Flush() {
	if !f.begun {
		f.WriteHeader(http.StatusOK)
	}
	_ = http.NewResponseController(f.ResponseWriter).Flush() // what cannot flush sends all the same
}
