package httpshed

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/headgate/headgate/internal/watched"
	"github.com/headgate/headgate/overload"
)

// Middleware sheds requests. It is safe for concurrent use. Make one with New.
type Middleware struct {
	options Options
	// header is Options.Header as net/http spells it.
	header string
}

// New returns a Middleware, or says which option cannot be.
func New(o Options) (*Middleware, error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("new shedding middleware: %w", err)
	}
	if o.Classifier == nil {
		o.Classifier = new(overload.Classifier)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Middleware{options: o, header: http.CanonicalHeaderKey(o.Header)}, nil
}

// Wrap returns a handler that runs next for the requests that are admitted. It
// can be used for any number of handlers, which then share the limit.
func (m *Middleware) Wrap(next http.Handler) http.Handler { return &handler{m, next} }

type handler struct {
	*Middleware
	next http.Handler
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ticket, decision := h.options.Gate.Admit(h.Priority(r), h.options.Now())
	if !decision.Admitted() {
		refuse(w, r, decision)
		return
	}
	watching, rec := watched.Writer[recorder](w, recorder{m: h.Middleware, ticket: ticket})
	returned := false
	// Also after a panic, which goes on.
	defer func() { rec.end(r, returned) }()
	h.next.ServeHTTP(watching, r)
	returned = true
}

// Priority returns the priority of r.
func (m *Middleware) Priority(r *http.Request) overload.Priority {
	asked := overload.Asked{Method: r.Method, Path: r.URL.Path}
	if m.header != "" {
		if values := r.Header[m.header]; len(values) > 0 {
			asked.Header = lowest(values)
			asked.Trusted = m.options.Trusted != nil && m.options.Trusted(r)
		}
	}
	if m.options.Rule != nil {
		asked.Rule = m.options.Rule(r)
	}
	return m.options.Classifier.Priority(asked)
}

// maxHeaders is how many lines of the header are read, so that ten thousand cost
// no more than one. Nobody who is ours sends more.
const maxHeaders = 8

// lowest returns the word of the lowest priority among values: who sends two
// does not get the better one. Words that are no priority count as none.
func lowest(values []string) string {
	if len(values) > maxHeaders {
		return overload.P3.String()
	}
	word := values[0]
	for _, v := range values[1:] {
		if lower(v, word) {
			word = v
		}
	}
	return word
}

func lower(word, than string) bool {
	p, err := overload.ParsePriority(word)
	if err != nil {
		return false
	}
	other, err := overload.ParsePriority(than)
	return err != nil || p > other
}

const contentType = "application/problem+json"

// refuse answers a request that is shed.
func refuse(w http.ResponseWriter, r *http.Request, d overload.Decision) {
	seconds := d.RetryAfterSeconds()
	h := w.Header()
	h.Set("Retry-After", strconv.FormatInt(seconds, 10))
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", contentType)
	w.WriteHeader(overload.Status)
	if r.Method != http.MethodHead {
		// That the client may be gone is nobody's error.
		_, _ = w.Write(appendProblem(nil, seconds))
	}
}

// appendProblem appends the body of a refusal, of which the type is one of the
// RateLimit fields draft: a server that has less room than usual for everybody.
func appendProblem(dst []byte, seconds int64) []byte {
	dst = append(dst, `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Temporary Reduced Capacity","status":503,"detail":"The service is overloaded. Retry in `...)
	dst = strconv.AppendInt(dst, seconds, 10)
	if seconds == 1 {
		return append(dst, " second.\"}\n"...)
	}
	return append(dst, " seconds.\"}\n"...)
}
