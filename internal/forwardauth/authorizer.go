package forwardauth

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/admission"
	"github.com/headgate/headgate/internal/callers"
	"github.com/headgate/headgate/internal/httpanswer"
	"github.com/headgate/headgate/internal/turns"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/trace"
)

// Options configures an Authorizer.
type Options struct {
	// Checker decides, Extractor tells who asks, and Answer what clients are told; all
	// required.
	Checker   Checker
	Extractor *identity.Extractor
	Answer    *httpanswer.Encoder
	// Peers may ask.
	Peers Peers
	// Turns are the places of requests that wait for the store; nil has places for all.
	Turns *turns.Turns
	// IDHeader is the header field of sub-requests that has the id of the check (see
	// headgate.Limiter.CheckOnce), set by the gateway and nobody else; "" is none.
	IDHeader string
	// Enter returns nil for a request of who may ask though he is no peer, or a
	// *callers.Refused; nil lets nobody else in. Peers are not asked for a token: the
	// header of their requests may have what their clients sent.
	Enter func(*http.Request) error
	// Domain is the domain of the rules. "" means the only one that Rules have.
	Domain string
	// Rules returns the rules in force, nil when there are none; required.
	Rules func() *rules.Set
	// OnTrouble, when not nil, is told of what an operator should put right: who asks
	// is no peer, a gateway does not say what it should, it is not known which rules
	// are meant. It is told of one of them and how many there were since it was last
	// told, at most once a second. The error holds nothing that a client sent. It must
	// not block.
	OnTrouble func(err error, count uint64)
	// OnRefused, when not nil, is told why the credential of a client was refused, and
	// where the client is, the zero value where that cannot be told. It must not block.
	OnRefused func(reason identity.Reason, client netip.Addr)
	// Now is the clock of tokens and of X-RateLimit-Reset; nil means time.Now.
	Now func() time.Time
}

// Authorizer decides the requests that gateways ask about. It is safe for
// concurrent use. Make one with New.
type Authorizer struct {
	options  Options
	troubles troubles
	upstream httpanswer.UpstreamNames
	facts    facts
	calls    sync.Pool // of *call

	refused, skipped, strangers atomic.Uint64
}

// call is the working memory of one decision.
type call struct {
	identity    identity.Identity
	descriptors []headgate.Descriptor
	requests    [1]headgate.Request
	responses   [1]headgate.Response
}

// New returns an Authorizer.
func New(o Options) (*Authorizer, error) {
	if o.Checker == nil || o.Extractor == nil || o.Answer == nil || o.Rules == nil {
		return nil, errors.New("new authorizer: a Checker, an Extractor, an Answer and Rules are required")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	a := &Authorizer{options: o, calls: sync.Pool{New: func() any { return new(call) }}}
	a.upstream.Spell = func(name string) string { return name }
	return a, nil
}

// Reply is what a client is to hear, whichever way its gateway is told. The zero
// value is no reply.
type Reply struct {
	// Status is 200 when the request may pass; 429 and 503 are denials by a limit and
	// for want of a decision; 400 and 401 say that it does not tell who asks.
	Status int
	// Fields are the header fields for the client.
	Fields []httpanswer.Field
	// Upstream are header fields for whatever serves the request, if it may pass.
	Upstream []httpanswer.Field
	// Removed are the names of such fields that rules in force could set and have not:
	// a client must not send them in their place.
	Removed []string
	// Media is the type of Body; both are empty when the request may pass.
	Media string
	Body  []byte
}

// Decide decides the request that original describes. domain is that which the
// gateway's configuration names, "" if it names none.
func (a *Authorizer) Decide(original *http.Request, domain string) Reply {
	if isPreflight(original) {
		return a.skip()
	}
	domain, err := a.domain(domain)
	if err != nil {
		return a.Refuse(err)
	}
	if domain == "" { // there are no rules
		return a.skip()
	}
	c := a.calls.Get().(*call)
	defer a.release(c)
	now := a.options.Now()
	if err := a.describe(c, original, now); err != nil {
		a.tellRefused(original, err)
		return a.Refuse(err)
	}
	if len(c.descriptors) == 0 {
		return a.skip()
	}
	c.requests[0].Domain, c.requests[0].Descriptors = domain, c.descriptors
	if err := a.check(original, c); err != nil {
		return a.Refuse(err)
	}
	if httpanswer.Heard(original.Context(), c.responses[:]) != nil {
		return gone
	}
	return a.reply(c, now)
}

// gone answers a gateway that has gone, or has said that no more will come, before the store had
// answered. Nobody hears it as a rule, so that it is no trouble.
var gone = Reply{
	Status: http.StatusServiceUnavailable, Media: "text/plain; charset=utf-8",
	Fields: []httpanswer.Field{{Name: "Cache-Control", Value: "no-store"}},
	Body:   fmt.Appendln(nil, httpanswer.ErrGone),
}

// tellRefused tells that the credential of a client was refused, if that is what err says.
func (a *Authorizer) tellRefused(original *http.Request, err error) {
	var credential *identity.RefusedError
	if a.options.OnRefused != nil && errors.As(err, &credential) {
		a.options.OnRefused(credential.Reason, a.options.Extractor.Client(original, new(identity.Identity)))
	}
}

// describe fills c with what original is limited on and what it may cost.
func (a *Authorizer) describe(c *call, original *http.Request, now time.Time) error {
	if err := a.options.Extractor.Extract(original, now, &c.identity); err != nil {
		return err
	}
	for _, entries := range c.identity.Descriptors {
		c.descriptors = append(c.descriptors, headgate.Descriptor{Entries: entries, Hits: 1})
	}
	request := &c.requests[0]
	request.Origin = a.originOf(original, &c.identity)
	var err error
	request.Attributes, err = appendFacts(request.Attributes, a.facts.of(a.options.Rules()), original, c.identity.Token)
	return err
}

// originOf tells observers who sent original.
func (a *Authorizer) originOf(original *http.Request, who *identity.Identity) headgate.Origin {
	return headgate.Origin{
		ClientIP:  a.options.Extractor.Client(original, who),
		UserAgent: original.Header.Get("User-Agent"),
		Trace:     trace.ParentOf(original.Header["Traceparent"]),
	}
}

// skip lets a request pass that nothing limits.
func (a *Authorizer) skip() Reply {
	a.skipped.Add(1)
	return Reply{Status: http.StatusOK, Removed: a.removed(nil)}
}

// errDomain says that it is not known which rules are meant.
var errDomain = errors.New("the rules have several domains; hint: --auth-domain names one, and /auth/PROFILE@DOMAIN another one for a gateway")

// errDescriptor and errUndecided stand in for errors that are not for clients.
var (
	errDescriptor = malformed("what is known of the client makes no descriptor")
	errUndecided  = errors.New("the limit could not be checked; hint: the log of headgate says why")
)

// domain returns the domain to ask in; "" when there are no rules.
func (a *Authorizer) domain(named string) (string, error) {
	if named != "" {
		return named, nil
	}
	if a.options.Domain != "" {
		return a.options.Domain, nil
	}
	set := a.options.Rules()
	if set == nil {
		return "", nil
	}
	switch domains := set.Domains(); len(domains) {
	case 0:
		return "", nil
	case 1:
		return domains[0], nil
	}
	return "", errDomain
}

// reply says what was decided.
func (a *Authorizer) reply(c *call, now time.Time) Reply {
	resp := &c.responses[0]
	s := a.options.Answer.Summarize(resp)
	reply := Reply{Status: s.Status, Fields: a.options.Answer.AppendFields(nil, &c.requests[0], resp, &s, now)}
	if s.Status == http.StatusOK {
		reply.Upstream = httpanswer.AppendUpstream(nil, resp)
		reply.Removed = a.removed(reply.Upstream)
		return reply
	}
	reply.Media = a.options.Answer.ContentType(&s)
	reply.Body = append(a.options.Answer.AppendBody(nil, &c.requests[0], resp, &s), '\n')
	return reply
}

// removed returns the fields for the service behind that are not among told.
func (a *Authorizer) removed(told []httpanswer.Field) []string {
	var names []string
	for _, name := range a.upstream.Of(a.options.Rules()) {
		if !slices.ContainsFunc(told, func(f httpanswer.Field) bool { return strings.EqualFold(f.Name, name) }) {
			names = append(names, name)
		}
	}
	return names
}

// Refuse answers a request that was not decided, because of err: ErrMalformed for one
// that its gateway does not describe. The client hears what it could put right alone.
func (a *Authorizer) Refuse(err error) Reply {
	reply := Reply{
		Status: http.StatusServiceUnavailable, Media: "text/plain; charset=utf-8",
		Fields: []httpanswer.Field{{Name: "Cache-Control", Value: "no-store"}},
	}
	var credential *identity.RefusedError
	switch {
	case errors.As(err, &credential) && credential.Forbidden:
		reply.Status = http.StatusForbidden
	case errors.As(err, &credential) && !credential.Reason.Ours():
		reply.Status = http.StatusUnauthorized
	case admission.Malformed(err):
		err = errDescriptor // err may quote what the client sent
		fallthrough
	case errors.Is(err, ErrMalformed):
		reply.Status = http.StatusBadRequest
		a.trouble(err)
	default:
		a.trouble(err)
		err = errUndecided
		reply.Fields = append(reply.Fields, httpanswer.Field{Name: "Retry-After", Value: "1"})
	}
	if reply.Status != http.StatusServiceUnavailable {
		a.refused.Add(1)
	}
	reply.Body = fmt.Appendln(nil, err)
	return reply
}

// Admit returns an error for whoever asks from addr, the address of a connection's
// other end as package net writes it, is no peer, and whom enter does not let in; nil lets
// nobody in.
func (a *Authorizer) Admit(addr string, enter func() error) error {
	if a.options.Peers.Allow(addr) {
		return nil
	}
	if enter != nil {
		refused := enter()
		if refused == nil {
			return nil
		}
		if kept, ok := errors.AsType[*callers.Refused](refused); !ok || !kept.ShowsNothing() {
			return refused // who shows something hears about that
		}
	}
	a.strangers.Add(1)
	err := fmt.Errorf("%s asks and is no peer; hint: --auth-peers names the networks of gateways, --callers their tokens, which they show in "+callers.TokenHeader+", and certificates", hostOf(addr))
	a.trouble(err)
	return err
}

func (a *Authorizer) trouble(err error) {
	if count := a.troubles.add(a.options.Now()); count > 0 && a.options.OnTrouble != nil {
		a.options.OnTrouble(err, count)
	}
}

// maxPooled keeps one huge answer from staying in the pool for ever, in elements.
const maxPooled = 256

func (a *Authorizer) release(c *call) {
	if cap(c.responses[0].Verdicts) > maxPooled {
		return
	}
	clear(c.descriptors)
	c.descriptors = c.descriptors[:0]
	clear(c.requests[0].Attributes)
	c.requests[0] = headgate.Request{Attributes: c.requests[0].Attributes[:0]}
	c.responses[0] = headgate.Response{Verdicts: c.responses[0].Verdicts[:0]}
	c.identity.Token = nil
	a.calls.Put(c)
}

// isPreflight reports whether a browser asks by r what it may send. It sends no
// credentials with that and could not read a denial.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && len(r.Header["Origin"]) > 0 && len(r.Header["Access-Control-Request-Method"]) > 0
}

// Stats is what an Authorizer has counted since it was made, beside what its Checker
// is asked.
type Stats struct {
	// Refused counts requests that did not tell who asks (400 and 401), Skipped those
	// that nothing limits, Strangers those who asked and are no peers.
	Refused, Skipped, Strangers uint64
}

// Stats returns the counts.
func (a *Authorizer) Stats() Stats {
	return Stats{Refused: a.refused.Load(), Skipped: a.skipped.Load(), Strangers: a.strangers.Load()}
}
