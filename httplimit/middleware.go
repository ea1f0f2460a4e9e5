package httplimit

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/admission"
	"github.com/headgate/headgate/internal/fastclock"
	"github.com/headgate/headgate/internal/httpanswer"
	"github.com/headgate/headgate/internal/watched"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/trace"
)

// Middleware limits requests. It is safe for concurrent use. Make one with New.
type Middleware struct {
	options    Options
	gate       *admission.Gate
	encoder    *httpanswer.Encoder
	byRule     map[string]*httpanswer.Encoder
	upstream   httpanswer.UpstreamNames
	attributes []attribute
	skip       skipList
	calls      sync.Pool // of *call

	limits []admission.Limit

	skipped, refused atomic.Uint64
}

// call is the working memory of one request.
type call struct {
	pass    admission.Pass
	subject Subject
	fields  httpanswer.Writer  // for the client
	actions []httpanswer.Field // for the handler
	body    []byte
}

// New returns a Middleware that asks checker.
func New(checker Checker, o Options) (*Middleware, error) {
	m, err := newMiddleware(checker, o)
	if err != nil {
		return nil, fmt.Errorf("new middleware: %w", err)
	}
	return m, nil
}

func newMiddleware(checker Checker, o Options) (*Middleware, error) {
	gate, err := admission.New(admission.Options{
		Checker: checker, FailClosed: o.FailClosed, MaxWait: o.MaxWait, MaxWaiting: o.MaxWaiting,
		MaxRefunds: o.MaxRefunds, RefundTimeout: o.RefundTimeout,
	})
	if err != nil {
		return nil, err
	}
	if o.Identify == nil {
		o.Identify = RemoteAddress
	}
	if o.Now == nil {
		o.Now = fastclock.NewWall().Now
	}
	m := &Middleware{options: o, gate: gate}
	if m.skip, err = newSkipList(o.SkipPaths, o.SkipMethods); err != nil {
		return nil, err
	}
	m.upstream.Spell = http.CanonicalHeaderKey
	if m.limits, err = admission.NewLimits(o.Limits); err != nil {
		return nil, err
	}
	if m.options.Domain, err = admission.DomainOf(o.Domain, m.limits); err != nil {
		return nil, err
	}
	if m.encoder, err = o.Answer.encoder(); err != nil {
		return nil, err
	}
	for id, answer := range o.AnswerByRule {
		encoder, err := answer.encoder()
		if err != nil {
			return nil, fmt.Errorf("rule %s: %w", id, err)
		}
		if m.byRule == nil {
			m.byRule = make(map[string]*httpanswer.Encoder, len(o.AnswerByRule))
		}
		m.byRule[id] = encoder
	}
	if m.attributes, err = newAttributes(o.Attributes); err != nil {
		return nil, err
	}
	m.calls.New = func() any {
		c := new(call)
		c.subject = Subject{&c.pass, m.options.Now}
		c.pass.Limits = m.limits
		return c
	}
	return m, nil
}

// Wrap returns a handler that runs next for the requests that may pass. It can
// be used for any number of handlers, which then share the counts.
func (m *Middleware) Wrap(next http.Handler) http.Handler {
	refuseNil("Wrap", "handler", next == nil)
	return &handler{m, next}
}

// refuseNil panics with words where f, which makes something that serves requests, is given nil:
// it would be found by the first request only.
func refuseNil(f, what string, isNil bool) {
	if isNil {
		panic("httplimit." + f + ": the " + what + " is nil; hint: pass one that is made already")
	}
}

type handler struct {
	*Middleware
	next http.Handler
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if len(h.limits) == 0 { // without rules there are no soft limits
		h.dropForged(r)
	}
	if h.skips(r) {
		h.skipped.Add(1)
		h.next.ServeHTTP(w, r)
		return
	}
	c := h.calls.Get().(*call)
	if err := h.describe(c, r); err != nil {
		h.release(c)
		h.refuse(w, r, err)
		return
	}
	if len(c.pass.Descriptors) == 0 {
		h.release(c)
		h.skipped.Add(1)
		h.next.ServeHTTP(w, r)
		return
	}
	if err := h.gate.Admit(r.Context(), &c.pass); err != nil {
		h.release(c)
		h.refuse(w, r, err)
		return
	}
	if err := c.pass.Failure(); err != nil && h.options.OnError != nil {
		h.options.OnError(r, err)
	}
	if c.pass.Holds() {
		// Whatever becomes of the handler: a panic, a connection taken over, a
		// client that is gone.
		defer h.letGo(r.Context(), c)
	}
	h.answer(w, r, c)
}

// answer tells what was decided and runs the handler, if it may.
func (h *handler) answer(w http.ResponseWriter, r *http.Request, c *call) {
	resp := c.pass.Response()
	encoder := h.encoderOf(resp)
	s := encoder.Summarize(resp)
	encoder.WriteFields(&c.fields, c.pass.Request(), resp, &s, h.options.Now())
	denied := s.Status != http.StatusOK
	if denied && h.options.Denied == nil {
		c.fields.Media(encoder.ContentType(&s))
	}
	c.fields.SetCanonical(w.Header())
	if h.options.Override {
		speakFirst(w)
	}
	if h.options.ExposeHeaders && len(r.Header["Origin"]) > 0 {
		w.Header().Add("Access-Control-Expose-Headers", c.fields.Exposed())
	}
	if h.options.PassResult || denied && h.options.Denied != nil {
		r = r.WithContext(&resultContext{r.Context(), resultOf(resp, &s)})
	}
	if len(h.limits) == 0 { // without rules there are no soft limits
		h.setActions(r, c)
	}
	switch {
	case denied && h.options.Denied != nil:
		h.release(c)
		h.options.Denied.ServeHTTP(w, r)
	case denied:
		c.body = append(encoder.AppendBody(c.body, c.pass.Request(), resp, &s), '\n')
		writeBody(w, r, s.Status, c.body)
		h.release(c)
	case h.options.Refund != nil || h.options.Override:
		h.observe(w, r, c)
	default:
		h.release(c)
		h.next.ServeHTTP(w, r)
	}
}

// letGo frees what c holds when the handler has ended.
func (m *Middleware) letGo(ctx context.Context, c *call) {
	m.gate.Release(ctx, &c.pass)
	m.release(c)
}

// dropForged removes from a request the fields that only we set, also where they are
// written with underscores: CGI and its heirs (WSGI, Rack, PHP) read those as dashes.
func (m *Middleware) dropForged(r *http.Request) {
	names := m.upstream.Of(m.gate.Rules())
	if len(names) == 0 {
		return
	}
	for _, name := range names {
		delete(r.Header, name)
	}
	for sent := range r.Header {
		if strings.IndexByte(sent, '_') < 0 {
			continue
		}
		read := strings.ReplaceAll(sent, "_", "-")
		for _, name := range names {
			if strings.EqualFold(read, name) {
				delete(r.Header, sent)
			}
		}
	}
}

// setActions sets what soft limits ask of whatever serves the request.
func (m *Middleware) setActions(r *http.Request, c *call) {
	c.actions = httpanswer.AppendUpstream(c.actions, c.pass.Response())
	for _, f := range c.actions {
		r.Header.Set(f.Name, f.Value)
	}
}

// observe runs the handler with a ResponseWriter that sees the status, and
// gives hits back where that says so. A panic of the handler goes on.
func (h *handler) observe(w http.ResponseWriter, r *http.Request, c *call) {
	var fields *httpanswer.Writer
	if h.options.Override {
		fields = &c.fields
	}
	watching, rec := watched.Writer[recorder](w, recorder{fields: fields})
	returned := false
	defer func() {
		if h.options.Refund != nil && h.options.Refund(rec.final(returned)) {
			h.gate.Refund(r.Context(), &c.pass)
		}
		h.release(c)
	}()
	h.next.ServeHTTP(watching, r)
	rec.Begin(http.StatusOK, w.Header()) // of a handler that wrote nothing
	returned = true
}

// describe fills c with what r is limited on.
func (m *Middleware) describe(c *call, r *http.Request) error {
	c.pass.Request().Domain = m.options.Domain
	if err := m.options.Identify(r, &c.subject); err != nil {
		return err
	}
	m.addOrigin(c, r)
	if m.options.Hits != nil {
		hits := min(max(m.options.Hits(r), 0), limit.MaxQuota)
		for i := range c.pass.Descriptors {
			c.pass.Descriptors[i].Hits = hits
		}
	}
	return m.addAttributes(c, r)
}

// addOrigin tells observers who sent r: by the peer where Identify has not found the
// client's address behind it.
func (m *Middleware) addOrigin(c *call, r *http.Request) {
	origin := &c.pass.Request().Origin
	if !origin.ClientIP.IsValid() {
		origin.ClientIP = admission.PeerAddr(r.RemoteAddr)
	}
	if agent := r.Header["User-Agent"]; len(agent) > 0 {
		origin.UserAgent = agent[0]
	}
	origin.Trace = trace.ParentOf(r.Header["Traceparent"])
}

func (m *Middleware) encoderOf(resp *headgate.Response) *httpanswer.Encoder {
	if m.byRule == nil {
		return m.encoder
	}
	if v := resp.Speaker(); v != nil && v.Rule != nil {
		if e := m.byRule[v.Rule.ID]; e != nil {
			return e
		}
	}
	return m.encoder
}

// maxPooledBody keeps one long body from staying in the pool for ever, in bytes.
const maxPooledBody = 16 << 10

// release returns c for another request, unless it holds something: see letGo.
func (m *Middleware) release(c *call) {
	if c.pass.Holds() || !c.pass.Reset() || cap(c.body) > maxPooledBody {
		return
	}
	c.actions, c.body = c.actions[:0], c.body[:0]
	m.calls.Put(c)
}

// Stats is what a Middleware has counted since it was made.
type Stats struct {
	// Allowed, Denied (429) and Unavailable (503) are the outcomes.
	Allowed, Denied, Unavailable uint64
	// Skipped counts requests that were not limited.
	Skipped uint64
	// Refused counts requests that were answered with 4xx, 500 or 503 because they
	// could not be identified or were malformed, GaveUp those whose client went away
	// while they were held back.
	Refused, GaveUp uint64
	// Failed counts errors of the Checker that FailClosed, or its absence,
	// answered; those requests are in Unavailable or Allowed too.
	Failed uint64
	// Delayed counts requests that were held back by limits that shape, and by soft
	// limits.
	Delayed uint64
	// Waiting is how many are held back now.
	Waiting int
	// Refunded counts requests whose hits were given back, RefundsDropped those
	// for which that failed or was too much at a time.
	Refunded, RefundsDropped uint64
	// Held is how many requests in flight hold slots of limits on concurrency, or
	// have their time counted. Renewed and RenewalsFailed count how often that was
	// renewed; Released counts requests whose slots were freed at their end,
	// ReleasesDropped those for which that failed for as long as they last: such
	// slots end by their timeout.
	Held                      int
	Renewed, RenewalsFailed   uint64
	Released, ReleasesDropped uint64
}

// Stats returns the counts.
func (m *Middleware) Stats() Stats {
	s := m.gate.Stats()
	return Stats{
		Allowed: s.Allowed, Denied: s.Denied, Unavailable: s.Unavailable,
		Skipped: m.skipped.Load(), Refused: m.refused.Load(), GaveUp: s.GaveUp,
		Failed: s.Failed, Delayed: s.Delayed, Waiting: s.Waiting,
		Refunded: s.Refunded, RefundsDropped: s.RefundsDropped,
		Held: s.Held, Renewed: s.Renewed, RenewalsFailed: s.RenewalsFailed,
		Released: s.Released, ReleasesDropped: s.ReleasesDropped,
	}
}
