package adminapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/drill"
	"github.com/headgate/headgate/internal/problems"
	"github.com/headgate/headgate/internal/refusals"
	"github.com/headgate/headgate/internal/switchboard"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
	"github.com/headgate/headgate/tenantusage"
	"github.com/headgate/headgate/trial"
)

// Accounts is the database: of accounts, and of the documents and rows that all nodes
// follow. Its errors are as sqltenant.DB has them.
type Accounts interface {
	Get(ctx context.Context, subject tenant.Subject) (sqltenant.Record, error)
	List(ctx context.Context, after tenant.Subject, n int) ([]sqltenant.Record, error)
	Find(ctx context.Context, o sqltenant.ListOptions) ([]sqltenant.Record, error)
	UpdateAll(ctx context.Context, changes []sqltenant.Change) ([]sqltenant.Record, error)
	Changes(ctx context.Context, after int64, n int) ([]sqltenant.Entry, error)

	Document(ctx context.Context, kind sqltenant.Kind, name string) (sqltenant.Document, error)
	Documents(ctx context.Context, kind sqltenant.Kind) ([]sqltenant.Document, error)
	DocumentHistory(ctx context.Context, kind sqltenant.Kind, name string, before int64, n int) ([]sqltenant.DocumentVersion, error)
	PutDocument(ctx context.Context, c sqltenant.DocumentChange) (sqltenant.Document, error)
	RuleRows(ctx context.Context) ([]sqltenant.RuleRow, error)
	PutRuleRow(ctx context.Context, c sqltenant.RuleRowChange) (sqltenant.RuleRow, int64, error)
	Note(ctx context.Context, a sqltenant.Action) error
}

var _ Accounts = (*sqltenant.DB)(nil)

// Switches is where switches are kept that are in no database. Its errors are as
// sqltenant.DB has them.
type Switches interface {
	Document(ctx context.Context, kind sqltenant.Kind, name string) (sqltenant.Document, error)
	Documents(ctx context.Context, kind sqltenant.Kind) ([]sqltenant.Document, error)
	PutDocument(ctx context.Context, c sqltenant.DocumentChange) (sqltenant.Document, error)
}

var (
	_ Switches = Accounts(nil)
	_ Switches = (*switchboard.Shared)(nil)
)

// Drills are those of the nodes that share a store.
type Drills interface {
	// Check returns a *drill.FieldError where it is known that no node could take part in o.
	Check(o *drill.Order) error
	// Begin orders a drill. Its error is drill.ErrUnderWay, a *drill.FieldError, or one
	// of the store.
	Begin(ctx context.Context, o *drill.Order) error
	// Stop ends the drill that lasts, on behalf of actor, and reports whether there was one.
	Stop(ctx context.Context, actor string) (stopped bool, err error)
	// Show returns the drill that lasts, or else the last one.
	Show(ctx context.Context) (drill.Whole, error)
}

// Limiter is what decides on this node.
type Limiter interface {
	// Rules returns the rules that are in force here, nil if there are none.
	Rules() *rules.Set
}

var _ Limiter = (*headgate.Limiter)(nil)

// Usage is what tenants have used, by the rules that are in force here. Its methods are as
// tenantusage.Reader has them.
type Usage interface {
	Usage(ctx context.Context, subjects []tenant.Subject) ([]tenantusage.Tenant, error)
	Look(ctx context.Context, subjects []tenant.Subject) ([]tenantusage.Tenant, error)
	Reset(ctx context.Context, domain string, subject tenant.Subject, descriptors ...string) error
	Refund(ctx context.Context, domain string, subject tenant.Subject, descriptor string, hits int64) error
	Domains(key string) []string
}

var _ Usage = (*tenantusage.Reader)(nil)

// Options configures a Handler.
type Options struct {
	// Accounts returns the database, nil while it has not been reached yet. nil: this
	// process has none, and the routes for that say so.
	Accounts func() Accounts
	// Switches is where switches are kept; nil: in the database.
	Switches Switches
	// Drills begins, ends and shows drills; nil: nobody could be told of one.
	Drills Drills
	// Snapshots gives what the database says to processes without one; nil: nobody gets it.
	Snapshots Snapshots
	// Tiers returns the tiers in force, never nil. Required with Accounts.
	Tiers func() *tenant.Tiers
	// Tokens are those of who may ask. Required.
	Tokens *Tokens
	// Limiter tells which rules are in force, and Usage what was used. nil: the routes for
	// that say that this process does not decide.
	Limiter Limiter
	Usage   Usage
	// CheckRules says whether a document of rules could be in force together with all
	// other rules that are or will be: the files, the other documents and the rows. The
	// text "" is that of a document which is taken out. Warnings are what lint.Check says
	// of the document; the error, where a text is at fault, is of type rules.Errors, with
	// name as the File of each Diagnostic of this document. nil: a document is checked
	// by itself.
	CheckRules func(name, text string) (warnings []rules.Diagnostic, err error)
	// Drafts tries rules that are not in force; nil: the routes for that say that this process
	// cannot.
	Drafts Drafts
	// Tenants returns what tenants may use, for drafts; nil is nothing of their own.
	Tenants func() *tenant.Snapshot
	// Unfit says why the store of that name, "" for the usual ones, cannot decide a limit,
	// and without a limit why this node has no such store; what it says so of is refused.
	// nil: they decide all.
	Unfit func(store string, l *limit.Limit) error
	// RuleSource says where a rule in force comes from, by its File: "file",
	// "document" or "row". nil: all are said to come from files.
	RuleSource func(file string) string
	// Candidates returns what has been seen of the candidate limits of rules. nil: of
	// none.
	Candidates func() []trial.Report
	// Watch is what this node shows of itself; nil: nothing.
	Watch *Watch
	// Draining is closed when the process begins to end: then streams do. nil: never.
	Draining <-chan struct{}
	// SignUsageToken makes a token with which a customer may see the usage of one
	// subject, for about ttl. nil: there are no such tokens.
	SignUsageToken func(subject tenant.Subject, ttl time.Duration) (token string, expires time.Time, err error)
	// Billing are the keys that events of billing are signed with; none: there are no
	// such events.
	Billing []identity.Secret
	// Hasher names API keys; nil: they can be named by their hash only.
	Hasher *identity.Hasher
	// Refusals counts whom the API turns away; nil: they are not counted.
	Refusals *refusals.Log
	// Now is the clock; nil means the wall clock.
	Now func() time.Time
	// OnError, when not nil, is told what callers are not: errors of the database, and
	// panics with their stack. They hold no token and no API key.
	OnError func(error)
}

// Handler serves the API. It is safe for concurrent use. Make one with New.
type Handler struct {
	options  *Options
	mux      *http.ServeMux // of the routes
	guard    *guard
	answered *memory
	imports  chan struct{} // holds one value while an import is under way
	lookups  turns
	asking   turns
	streams  turns
	// followers are those who wait for snapshots or fetch files of accounts.
	followers turns
	reviews   turns
	document  []byte // OpenAPI
}

// New returns a Handler.
func New(o Options) (*Handler, error) {
	if o.Tokens == nil || o.Accounts != nil && o.Tiers == nil {
		return nil, errors.New("new admin API: Tokens are required, and Tiers with Accounts")
	}
	if o.Unfit == nil {
		o.Unfit = decidesAll
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.OnError == nil {
		o.OnError = func(error) {}
	}
	if o.Watch == nil {
		o.Watch = &Watch{}
	}
	g, err := newGuard(o.Now)
	if err != nil {
		return nil, err
	}
	h := &Handler{
		options: &o, guard: g, answered: newMemory(),
		imports: make(chan struct{}, 1), lookups: make(turns, maxLookups), asking: make(turns, maxAsking), streams: make(turns, maxStreams), followers: make(turns, maxFollowers), reviews: make(turns, maxReviews),
	}
	routes := h.routes()
	h.document, h.mux = openAPI(routes), h.newMux(routes)
	return h, nil
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header(), r)
	h.mux.ServeHTTP(w, routable(r))
}

// answer answers r by way, nil where there is none, and reports whether it knows who
// asks.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request, way *route) (known bool) {
	defer problems.Recover(w, h.options.OnError)
	now := h.options.Now()
	who, bad := h.authenticate(r, now)
	if bad != nil {
		h.refused(r, bad.refused, "")
		if h.guard.admitFailure(w, r) {
			bad.write(w)
		}
		return false
	}
	if !h.guard.admit(w, r, who.actor) {
		h.refused(r, refusals.RateLimited, who.actor)
		return true
	}
	a, err := h.serve(w, &call{request: r, who: who, now: now, hasher: h.options.Hasher, unfit: h.options.Unfit}, way)
	if err == nil && a.stream != nil {
		err = a.stream(w)
	} else if err == nil {
		a.write(w)
	}
	if err != nil {
		bad, ours := problemOf(err)
		h.refused(r, bad.refused, who.actor)
		if ours && r.Context().Err() == nil {
			h.options.OnError(err)
		}
		bad.write(w)
	}
	return true
}

// secure sets what every answer has. The API is for programs: no browser may show,
// keep or guess at what it says, and no page of another origin may read it.
func secure(h http.Header, r *http.Request) {
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	if r.TLS != nil {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
}

// serve answers c by way.
func (h *Handler) serve(w http.ResponseWriter, c *call, way *route) (*answer, error) {
	defer c.end()
	if way == nil {
		return h.noRoute(c.request)
	}
	if way.signed && !c.who.signed {
		return nil, fail(http.StatusNotFound, "events of billing are off: this process has no key to check their signatures with")
	}
	if bad := c.who.allows(way.scope); bad != nil {
		return nil, bad
	}
	if bad := way.checkQuery(c.request); bad != nil {
		return nil, bad
	}
	if way.slow {
		select {
		case h.imports <- struct{}{}: // one at a time, for its body is held in memory
			defer func() { <-h.imports }()
		default:
			return nil, later(retryAfter, "another import is under way")
		}
		takeTime(w, importTimeout)
	}
	var bad *problem
	if c.body, bad = way.read(c.request); bad != nil {
		return nil, bad
	}
	if c.db, bad = h.options.reachAccounts(); bad != nil && !way.local {
		return nil, bad
	}
	if way.scope == Read {
		return way.serve(c)
	}
	return h.answered.once(c, func() (*answer, error) { return way.serve(c) })
}

var errNoDatabase = fail(http.StatusServiceUnavailable, "this process has no database of tenants; hint: --tenants URL")

// reachAccounts finds the database, or says why it is not there.
func (o *Options) reachAccounts() (Accounts, *problem) {
	if o.Accounts == nil {
		return nil, errNoDatabase
	}
	db := o.Accounts()
	if db == nil {
		return nil, unavailable("does not answer", "it has not been reached since the start; nothing was changed")
	}
	return db, nil
}

// takeTime lets a request take longer than others; where there is no deadline, there
// is none to move.
func takeTime(w http.ResponseWriter, d time.Duration) {
	control := http.NewResponseController(w)
	until := time.Now().Add(d)
	_ = errors.Join(control.SetReadDeadline(until), control.SetWriteDeadline(until))
}

// read returns the body of a request, which must be of a type that the route takes.
func (way *route) read(r *http.Request) ([]byte, *problem) {
	if way.body == nil || way.body.optional && r.ContentLength == 0 {
		return nil, nil
	}
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	if !slices.ContainsFunc(way.body.kinds, func(taken string) bool { return strings.EqualFold(strings.TrimSpace(kind), taken) }) {
		return nil, badField(http.StatusUnsupportedMediaType, "Content-Type", "not %s; hint: -H 'Content-Type: %s'", strings.Join(way.body.kinds, " or "), way.body.kinds[0])
	}
	if r.Header.Get("Content-Encoding") != "" {
		return nil, badField(http.StatusUnsupportedMediaType, "Content-Encoding", "a body is read as it is; hint: send it uncompressed")
	}
	var body bytes.Buffer
	if r.ContentLength <= way.body.most {
		if _, err := body.ReadFrom(io.LimitReader(r.Body, way.body.most+1)); err != nil {
			return nil, badField(http.StatusBadRequest, "body", "it ended before its end")
		}
	}
	if max(r.ContentLength, int64(body.Len())) > way.body.most {
		return nil, badField(http.StatusRequestEntityTooLarge, "body", "more than %d bytes; hint: send it in parts", way.body.most).with("Connection", "close")
	}
	return body.Bytes(), nil
}

// discard takes what an answered request still has of a body: who is still sending does not
// read the answer, and one whose connection ends meanwhile may never see it. Who waits to be
// told to send it has sent nothing yet, and reads. Whoever is not known has no more time
// than any request.
func discard(w http.ResponseWriter, r *http.Request, known bool) {
	if r.ProtoMajor != 1 || r.Body == nil || strings.EqualFold(r.Header.Get("Expect"), "100-continue") {
		return
	}
	var one [1]byte
	if _, err := io.ReadFull(r.Body, one[:]); err != nil {
		return // it was read, or there is none
	}
	if known {
		takeTime(w, maxDiscarding)
	}
	_, _ = io.CopyN(io.Discard, r.Body, maxDiscarded)
}

// maxDiscarded bounds the bytes that are read of a body that nobody wants, and
// maxDiscarding the time.
const (
	maxDiscarded  = 256 << 20
	maxDiscarding = 30 * time.Second
)

// checkQuery refuses parameters that the route does not have, and repeated ones.
func (way *route) checkQuery(r *http.Request) *problem {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return badField(http.StatusBadRequest, "query", "it cannot be read")
	}
	for name, list := range values {
		at := slices.IndexFunc(way.query, func(p parameter) bool { return p.name == name })
		if at < 0 {
			return badField(http.StatusBadRequest, printableName(name), "no such parameter")
		}
		if most := way.query[at].most(); len(list) > most {
			return badField(http.StatusBadRequest, name, "it is there %d times; hint: at most %d", len(list), most)
		}
	}
	return nil
}
