// Package httpcheck answers rate limit checks over HTTP and JSON.
//
//	POST /v1/check    one check or a batch
//	POST /ratelimit/check
//	                  one key by a limit that the caller names, always 200
//	POST /v1/renew    a request is still in flight, and keeps its slots
//	POST /v1/release  it has ended, and frees them
//	POST /v1/reserve  charges an estimate
//	POST /v1/commit   settles it by what was used
//	POST /v1/cancel   settles it by nothing
//	     /json        Envoy's ShouldRateLimit in proto3 JSON
//	     /healthcheck 200 "OK", or 500 and why not
//
// # POST /v1/check
//
// A check has one of two forms. By the server's rules:
//
//	{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"42"}],"hits":1}]}
//
// (or, in place of entries, "descriptor":"user:42,endpoint:POST /orders", the text
// form of package descriptor), or by a limit that the caller names, which needs
// no rule:
//
//	{"key":"user:42","limit":100,"window_ms":60000,"hits":1,"algorithm":"gcra","burst":20}
//
// where hits, algorithm (sliding_window) and burst may be left out. The bucket
// is that of the key and the window: another limit or burst goes on with its
// counts, another window has its own, so one key can be held to 10 per second and
// 1000 per day.
//
// hits default to 1; 0 is a peek, which counts nothing; a negative
// number gives hits back. "op" beside them is "hit" (default), "charge" (charges that
// many whether they fit or not, for what has been used already), "refund" (gives
// back that many) or "reset" (forgets the bucket). "attributes" beside domain is
// an object of strings for rules that take their cost from the request:
// {"content_length":"512","header:x-cost":"3","claim:plan":"5"}.
//
// The answer has status 200, 429 when denied, or 503 when a rule that fails
// closed could not be decided (one that fails open is 429 where this node alone has let
// its whole limit pass), with the header fields of package httpanswer:
//
//	{"allowed":true,"limit":100,"remaining":73,"reset_ms":41200,"window_ends_ms":41200,"retry_after_s":0,"matched":true,"rule":"api.user","degraded":""}
//
// matched is false when no rule and no limit of the caller applied, as with a domain that
// is misspelt: then the request passes unchecked. limit is left out where nothing limits,
// remaining and reset_ms where nothing was counted, retry_after_s when the request can never pass. delay_ms is there
// when a limit that shapes wants the request held back. degraded says why the
// store did not decide. A denial also has the members of the body preset that
// Options.Answer chooses, so that a gateway can pass them on: error and message,
// or those of a problem, whose media type the answer then has.
//
// role is there when the limit that speaks is not a main one: "concurrency",
// "secondary", "sustained" or "ban". limit and remaining then count requests in
// flight, hits, milliseconds in flight or denials. soft lists the soft limits that an allowed
// request is above, at most 16:
//
//	"soft":[{"action":"degrade","rule":"api.user","percent":80,"limit":100,"remaining":12,"header":"X-Degraded","value":"1"}]
//
// where warn has nothing more, delay has delay_ms (which is in the decision's
// delay_ms too), and challenge has challenge.
//
// {"checks":[...]} takes many checks of either form and decides them in order
// and in one call. Its answer has always status 200: {"results":[...]}, one for
// each. As there are no header fields that say it, each result also has the name
// and the window_s of its limit, where it has such, and the status of a denial without
// counts. A malformed check refuses the
// whole batch, and nothing is charged.
//
// # POST /ratelimit/check
//
// It takes the second form of a check, without op and hold, and answers a decision with
// status 200 whatever it is, also when the store did not answer:
//
//	{"allowed":false,"remaining":0,"reset_ms":41200,"window_ends_ms":11200,"retry_after_s":1,"matched":true,"degraded":""}
//
// The header fields are those of /v1/check but for Retry-After. Only what is wrong with the
// call itself has another status.
//
// # Ids
//
// A check of either form and of either path may have "id", up to 256 bytes. One that is
// repeated by its id, for the same domain or key and the same descriptors, gets the first
// answer and is charged nothing (see headgate.Limiter.CheckOnce). In a batch each check has
// its own. When hits, limits, operations or attributes differ from the first time the call
// is answered 409, and nothing of it is decided. A store of others that keeps no answers is
// 501.
//
// # Who sent the request
//
// A check of either form may have "client_ip" and "user_agent", those of the client that
// the caller asks for, and the call the header field traceparent (W3C Trace Context), of
// the trace that all of its checks are part of. Nothing is decided by them: they are for
// those who watch decisions. A client_ip that is no IP address is refused; a user_agent
// may be as long as the body, of which events keep the beginning; a traceparent that
// cannot be read is none.
//
// # Requests in flight
//
// A check of either form may have "hold": an id of up to 256 bytes, or true to have
// one drawn. By it the request takes a slot of each limit on concurrency, and says
// that its time in flight counts. The answer to a request that holds something has
//
//	"hold":{"id":"0a1b2c3d4e5f60","renew_within_ms":60000}
//
// also where a descriptor entry named it (concurrency.hold of a rule). Without a
// hold no slot is taken: such limits only say whether one is free. A denied request
// holds nothing.
//
// POST /v1/renew and /v1/release take the same body again, a check or a batch,
// with the hold that was answered. Renew before renew_within_ms is over, and
// release at the end; slots of whoever does neither are free after the timeout.
// "in_flight_ms", up to a day, is the time since the check or the last renewal, for
// limits on sustained concurrency: it is charged in any case. hits and
// attributes may stand there and say nothing. The answer is that of a check, always
// allowed; when it has no hold, nothing is held any more and there is nothing to
// renew. degraded says that the store could not: try again. That is safe: renewing
// or releasing twice is the same as once, except that in_flight_ms is charged each
// time, so leave it out of a retry. A batch may also mix all of this at /v1/check,
// by op "renew" and "release", where hits are the milliseconds.
//
// # Reservations
//
// POST /v1/reserve takes a check of the first form, of hits alone, and beside it "id"
// (up to 128 bytes; asking again with it, for the same, reserves nothing more) and
// "ttl_ms" (1,000 to 3,600,000, default 300,000). An allowed answer is that of a check
// with
//
//	"reservation":"AR0...","expires_at":"2026-11-20T12:05:00.000Z"
//
// POST /v1/commit takes {"reservation":"AR0...","hits":1234}, where hits may also be an
// array with a number for each descriptor, and "attributes" those that have become
// known; what is left out stays as estimated. POST /v1/cancel takes {"reservation":"AR0..."}. Both answer
//
//	{"settled":true,"outcome":"settled","rule":"api.user","limit":100,"remaining":73,"reset_ms":41200,"degraded":""}
//
// with outcome "settled_before" where a call before has settled it: then nothing is
// charged or given back. Where there was nothing to settle it is "unknown", with
// "settled":false. When the store does not answer they answer 503 with "settled":false; to
// try again is safe. A reservation whose time is over is 410.
//
// # Trust
//
// Whoever may ask can spend anybody's quota: this is an interface for gateways
// and services, not for their clients. Bind it accordingly. Requests that a
// browser sends from another site are refused. Limits that callers name, refunds and
// resets take a right (headgate.Rights): whoever may name a limit is not limited. Who
// comes in by a token or a certificate has its rights, see package callers.
//
// Whoever knows the id of a hold can release it, and nobody else: it is the
// capability, and asks for no more trust than a check. One that is drawn here has
// 53 random bits. Who names holds by ids that clients choose lets a client free
// the slots of another whose id it knows, and use one slot for many requests.
//
// Reservations are no secret and ask for no more trust than a check either: what one
// says that it has charged is given back only if the store remembers that it was made,
// and once. A commit may charge more than a limit has left, up to its max_debt.
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
	mux.HandleFunc(DocumentPath, h.describe)
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

// admit returns what decides for who sent r.
func (h *handler) admit(r *http.Request) (Checker, error) {
	if h.options.Admit == nil {
		return h.options.Checker, nil
	}
	return h.options.Admit(r)
}

// read takes in the body of a request that may be one, of who may come in; whoever gets a
// call releases it.
func (h *handler) read(w http.ResponseWriter, r *http.Request) (*call, bool) {
	if p, ok := h.acceptable(r); !ok {
		if p.status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", http.MethodPost)
		}
		writeProblem(w, p)
		return nil, false
	}
	checker, err := h.admit(r)
	if err != nil {
		writeProblem(w, problem{status: callers.KeepOut(w, err), detail: err.Error()}.hinted())
		return nil, false
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
	c, ok := h.read(w, r)
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
		hint: "POST /v1/check, /ratelimit/check, /v1/renew, /v1/release, /v1/reserve, /v1/commit, /v1/cancel, /json; GET /healthcheck, " + DocumentPath,
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
