package httpcheck

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/callers"
	"github.com/headgate/headgate/internal/httpanswer"
	"github.com/headgate/headgate/internal/openapi"
	"github.com/headgate/headgate/internal/problems"
	"github.com/headgate/headgate/internal/strictjson"
	"github.com/headgate/headgate/internal/turns"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/trace"
)

// Checker decides requests[i] into responses[i]. An error names a malformed
// request and means that nothing was decided.
type Checker interface {
	Check(ctx context.Context, requests []headgate.Request, responses []headgate.Response) error
}

// Options configures the handler.
type Options struct {
	// Checker decides; required. It says what callers have a right to: a
	// headgate.Door refuses limits that they name, refunds and resets, unless its
	// Rights have them, and the answer is 403.
	Checker Checker
	// Admit returns what decides for who sent a request, in place of Checker, or a
	// *callers.Refused; nil means that Checker decides for all.
	Admit func(*http.Request) (Checker, error)
	// AdmitReserver is Admit for the paths that reserve and settle, of which a caller may
	// have a right to some alone; nil is Admit.
	AdmitReserver func(*http.Request) (Checker, error)
	// Answer says which header fields are sent, and which body a denial has.
	Answer httpanswer.Options
	// JSON serves /json; nil means that there is no such path.
	JSON http.Handler
	// Explain serves /v1/explain; nil means that there is no such path.
	Explain http.Handler
	// Parts are what the document says of JSON and Explain.
	Parts []openapi.Part
	// Ready returns why the server should get no traffic (it drains, it has no
	// rules), nil when it should. A nil Ready is always ready.
	Ready func() error
	// Now is the clock of X-RateLimit-Reset; nil means time.Now.
	Now func() time.Time
	// Turns are the places of requests that wait for the store; nil has places for all.
	Turns *turns.Turns
}

// NewHandler returns the handler of all paths of this package.
func NewHandler(o Options) (http.Handler, error) {
	if o.Checker == nil {
		return nil, errors.New("check handler: no Checker; hint: pass a headgate.Limiter")
	}
	encoder, err := httpanswer.New(o.Answer)
	if err != nil {
		return nil, err
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.AdmitReserver == nil {
		o.AdmitReserver = o.Admit
	}
	h := &handler{options: o, encoder: encoder, limits: newCallerLimits(), origins: http.NewCrossOriginProtection(), document: documentOf(o.Parts)}
	h.calls.New = func() any { return new(call) }
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/check", h.checks(store.Hit))
	mux.HandleFunc("/ratelimit/check", h.plain)
	mux.HandleFunc("/v1/renew", h.checks(store.Renew))
	mux.HandleFunc("/v1/release", h.checks(store.Release))
	if _, ok := o.Checker.(Reserver); ok {
		served := &reservations{h}
		mux.HandleFunc("/v1/reserve", served.reserve)
		mux.HandleFunc("/v1/commit", served.commit)
		mux.HandleFunc("/v1/cancel", served.cancel)
	}
	mux.HandleFunc("/healthcheck", h.health)
	mux.HandleFunc(documentPath, h.describe)
	if o.JSON != nil {
		mux.Handle("/json", h.sameSite(o.JSON))
	}
	if o.Explain != nil {
		mux.Handle("/v1/explain", h.sameSite(o.Explain))
	}
	mux.HandleFunc("/", notFound)
	return asWritten(mux), nil
}

// asWritten answers paths that have empty segments or dots as those of nothing. The mux would
// redirect from them, and no client of an API follows that with its body.
func asWritten(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodConnect || path.Clean(r.URL.Path) != r.URL.Path {
			notFound(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

type handler struct {
	options Options
	encoder *httpanswer.Encoder
	limits  *callerLimits
	origins *http.CrossOriginProtection
	// document is the OpenAPI document of all paths.
	document []byte
	calls    sync.Pool // of *call
}

// call is the working memory of one request.
type call struct {
	checker   Checker
	body      bytes.Buffer
	decoder   decoder
	responses []headgate.Response
	fields    httpanswer.Writer
	out       []byte
}

// maxPooledBody and maxPooledChecks keep one huge request from staying in the
// pool for ever.
const (
	maxPooledBody   = 64 << 10
	maxPooledChecks = 64
)

func (h *handler) release(c *call) {
	if c.body.Cap() > maxPooledBody || cap(c.responses) > maxPooledChecks || cap(c.decoder.descriptors) > maxPooledChecks {
		return
	}
	// Nothing may keep a body, a rule or a limit alive.
	d := &c.decoder
	clear(d.requests)
	clear(d.holds)
	clear(d.ids)
	clear(d.descriptors)
	clear(d.entries)
	for i := range c.responses {
		verdicts := c.responses[i].Verdicts
		clear(verdicts)
		c.responses[i] = headgate.Response{Verdicts: verdicts[:0]}
	}
	c.checker = nil
	*d = decoder{requests: d.requests[:0], holds: d.holds[:0], ids: d.ids[:0], descriptors: d.descriptors[:0], entries: d.entries[:0]}
	c.body.Reset()
	c.out = c.out[:0]
	h.calls.Put(c)
}

// checks serves checks on which verb is done, which is store.Hit where each says
// what.
func (h *handler) checks(verb store.Op) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { h.check(w, r, verb) }
}

// admission returns what decides for who sent a request, or a *callers.Refused; nil has
// Options.Checker decide for all.
type admission func(*http.Request) (Checker, error)

// read takes in the body of a request that may be one, of whom admit lets in; whoever gets a
// call releases it.
func (h *handler) read(w http.ResponseWriter, r *http.Request, admit admission) (*call, bool) {
	if p, ok := h.acceptable(r); !ok {
		if p.status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", http.MethodPost)
		}
		writeProblem(w, p)
		return nil, false
	}
	checker := h.options.Checker
	if admit != nil {
		var err error
		if checker, err = admit(r); err != nil {
			writeProblem(w, problem{status: callers.KeepOut(w, err), detail: err.Error()}.hinted())
			return nil, false
		}
	}
	c := h.calls.Get().(*call)
	c.checker = checker
	body := r.Body
	if r.ContentLength < 0 || r.ContentLength > maxBody {
		body = http.MaxBytesReader(w, body, maxBody)
	}
	if _, err := c.body.ReadFrom(body); err != nil {
		h.release(c)
		writeProblem(w, unreadable(err))
		return nil, false
	}
	return c, true
}

// prepare makes d ready for the body of r, on which verb is done.
func (h *handler) prepare(d *decoder, r *http.Request, verb store.Op) {
	d.limits, d.verb = h.limits, verb
	d.trace = trace.ParentOf(r.Header["Traceparent"])
}

func (h *handler) check(w http.ResponseWriter, r *http.Request, verb store.Op) {
	c, ok := h.read(w, r, h.options.Admit)
	if !ok {
		return
	}
	defer h.release(c)
	h.prepare(&c.decoder, r, verb)
	if err := c.decoder.decode(c.body.String()); err != nil {
		writeProblem(w, malformed(err))
		return
	}
	requests := c.decoder.requests
	for len(c.responses) < len(requests) {
		c.responses = append(c.responses, headgate.Response{})
	}
	responses := c.responses[:len(requests)]
	if err := h.decide(r.Context(), c, responses); err != nil {
		writeProblem(w, refused(err, c.decoder.batch))
		return
	}
	if c.decoder.batch {
		h.writeBatch(w, c, responses)
	} else {
		h.writeOne(w, c, &responses[0], told{id: c.decoder.holds[0]})
	}
}

// response is the memory for one answer.
func (c *call) response() *headgate.Response {
	if len(c.responses) == 0 {
		c.responses = append(c.responses, headgate.Response{})
	}
	return &c.responses[0]
}

func (h *handler) writeOne(w http.ResponseWriter, c *call, resp *headgate.Response, t told) {
	s := h.encoder.Summarize(resp)
	h.encoder.WriteFields(&c.fields, &c.decoder.requests[0], resp, &s, h.options.Now())
	c.fields.Set(w.Header())
	c.out = appendDecision(c.out, resp, &s, t)
	media := mediaJSON
	if !resp.Allowed {
		// The members of the preset follow in the same object: its brace
		// gives way to a comma.
		last := len(c.out) - 1
		c.out = h.encoder.AppendBody(c.out[:last], &c.decoder.requests[0], resp, &s)
		c.out[last] = ','
		media = h.encoder.ContentType(&s)
	}
	c.out = append(c.out, '\n')
	write(w, s.Status, media, c.out)
}

func (h *handler) writeBatch(w http.ResponseWriter, c *call, responses []headgate.Response) {
	c.out = append(c.out, `{"results":[`...)
	for i := range responses {
		if i > 0 {
			c.out = append(c.out, ',')
		}
		s := h.encoder.Summarize(&responses[i])
		c.out = appendDecision(c.out, &responses[i], &s, told{id: c.decoder.holds[i], inBatch: true})
	}
	c.out = append(c.out, "]}\n"...)
	write(w, http.StatusOK, mediaJSON, c.out)
}

// acceptable refuses, before the body is read, what is no check.
func (h *handler) acceptable(r *http.Request) (problem, bool) {
	if r.Method != http.MethodPost {
		return problem{status: http.StatusMethodNotAllowed, detail: r.Method + " is not served here", hint: "POST a JSON object"}, false
	}
	if err := h.origins.Check(r); err != nil {
		return crossSite, false
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return problem{status: http.StatusUnsupportedMediaType, detail: "content coding " + strictjson.Quoted(coding) + " is not read", hint: "send the body as it is"}, false
	}
	if media := r.Header.Get("Content-Type"); !readable(media) {
		return problem{status: http.StatusUnsupportedMediaType, detail: "media type " + strictjson.Quoted(media) + " is not read", hint: "send application/json"}, false
	}
	return problem{}, true
}

// readable accepts JSON under its own names and under those that tools send when
// nobody told them better (curl -d: a form), and refuses what must be something
// else.
func readable(media string) bool {
	if media == "" || media == mediaJSON {
		return true
	}
	name, _, err := mime.ParseMediaType(media)
	if err != nil {
		return false
	}
	switch name {
	case "application/json", "text/json", "text/plain", "application/x-www-form-urlencoded", "application/octet-stream":
		return true
	}
	return strings.HasSuffix(name, "+json")
}

func unreadable(err error) problem {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return problem{status: statusTooLarge, detail: "the body is longer than 1 MiB", hint: "send several requests; hash long values"}
	}
	return problem{status: http.StatusBadRequest, detail: "the body could not be read: " + err.Error()}
}

func malformed(err *strictjson.Error) problem {
	p := problem{status: err.Status, detail: err.What, hint: err.Hint}
	p.status = cmp.Or(p.status, http.StatusBadRequest)
	if err.Path != "" {
		p.detail = err.Path + ": " + err.What
	}
	return p
}

var crossSite = problem{
	status: http.StatusForbidden, detail: "a browser sent this from another site",
	hint: "ask from a gateway or a service",
}

// sameSite keeps web pages from spending the quota of others through the
// browser of somebody who can reach this server.
func (h *handler) sameSite(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := h.origins.Check(r); err != nil {
			writeProblem(w, crossSite)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// health serves /healthcheck.
func (h *handler) health(w http.ResponseWriter, _ *http.Request) {
	status, text := http.StatusOK, "OK"
	if h.options.Ready != nil {
		if err := h.options.Ready(); err != nil {
			status, text = http.StatusInternalServerError, err.Error()
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text))
}

func notFound(w http.ResponseWriter, r *http.Request) {
	writeProblem(w, problem{
		status: http.StatusNotFound, detail: "nothing is served at " + strictjson.Quoted(r.URL.Path),
		hint: "POST /v1/check, /ratelimit/check, /v1/renew, /v1/release, /v1/reserve, /v1/commit, /v1/cancel, /json; GET /healthcheck, " + documentPath,
	})
}

func writeProblem(w http.ResponseWriter, p problem) {
	w.Header().Set("Cache-Control", "no-store")
	problems.Write(w, p.status, problemBody{problems.Of(p.status, p.detail), p.hint})
}

const mediaJSON = "application/json"

// contentJSON is what nearly all answers have as their Content-Type. Nobody writes to it.
var contentJSON = []string{mediaJSON}

// write sends an answer. That the client may be gone is nobody's error.
func write(w http.ResponseWriter, status int, media string, body []byte) {
	if media == mediaJSON {
		w.Header()["Content-Type"] = contentJSON
	} else {
		w.Header().Set("Content-Type", media)
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
