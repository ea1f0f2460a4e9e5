package client

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/ascii"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/breaker"
	"github.com/headgate/headgate/trace"
)

// DefaultBudget is how long a Checker waits for its server: as long as Envoy
// does.
const DefaultBudget = 20 * time.Millisecond

// Bounds of a Checker.
const (
	// MaxChecks bounds the requests of one call, as the server does.
	MaxChecks = 1000
	// maxBody bounds the bytes that one call sends, as the server does.
	maxBody = 1 << 20
	// maxAnswer bounds the bytes of an answer that are read: those of MaxChecks
	// with long names of rules.
	maxAnswer = 4 << 20
	// idleConnections are kept to the server.
	idleConnections = 64
)

// CheckerOptions configures a Checker.
type CheckerOptions struct {
	// URL is the address of a Headgate, such as http://headgate:8080, without a user,
	// a query or a fragment; required. POST goes to /v1/check under it.
	URL string
	// Budget bounds one call; the deadline of its context does so too. 0 means
	// DefaultBudget.
	Budget time.Duration
	// Failure answers when the server does not: rules.Open (default) or
	// rules.Closed. A remote Checker cannot decide by rules.FailLocal.
	Failure rules.FailureMode
	// Retries is how often a call of Check is sent again, within the Budget, when its answer
	// is lost: the connection broke, or its share of the Budget was over. From 0, which is
	// never, to MaxRetries. Each check then carries an id, so that the server decides and
	// charges it once, whichever of the calls arrive; that costs the server two more trips to
	// its store.
	Retries int
	// Credentials are what the Checker shows to the server, and by what it knows it. Files
	// for TLS are of no use to a Transport that is not its own.
	Credentials Credentials
	// Transport sends; nil means one of the Checker's own, which keeps up to 64
	// idle connections and uses no proxy.
	Transport http.RoundTripper
	// Header is sent with every call, for servers behind something that wants
	// credentials of its own. It is not changed.
	Header http.Header
}

// Checker asks a Headgate server. It has the method of headgate.Limiter; what
// differs is what the wire does not carry:
//   - A Response has the decisive Verdict, for descriptor 0, and one for each
//     other limit whose soft limit the request is above; others, those in shadow
//     mode and the names of their limits are not told.
//   - A Rule has an ID and a Soft only. A Limit is the one that the caller named;
//     else, of requests in flight, with the default timeout, or a sliding window of
//     the quota and window that are told; where none is told its Period is a
//     microsecond, which stands for unknown.
//   - Of the Origin of requests the server is told the address, the beginning of the
//     user agent and, for all requests of a call, the trace of the first that has one.
//   - DomainKnown is false also where nothing limits the request.
//   - RetryAfter is in whole seconds, rounded up and jittered as the server does;
//     ResetAfter and Delay are in milliseconds, rounded up.
//
// A limit named by a request travels only in headgate.CallerDomain, with
// one descriptor and a limit of algorithm, quota, window of whole milliseconds and
// burst, and to a server that trusts its callers. Its bucket is that of the text
// form of its entries and the window.
//
// When the server does not answer within the budget, or not in its own words, the
// responses are those of the failure mode, marked with a reason as those of a
// store that failed are; after three such calls in a row it is not asked for a
// moment. The zero value does not work; see NewChecker. It is safe for concurrent
// use.
type Checker struct {
	options CheckerOptions
	base    *url.URL
	target  string // of checks
	breaker *breaker.Breaker
	token   token
	failure atomic.Pointer[store.Error] // of the last call; nil for none
	counts  struct {
		calls, requests, degraded, refused, skipped, retried atomic.Uint64
	}
}

// CheckerStats is what a Checker has done so far.
type CheckerStats struct {
	// Calls were sent, with Requests in them.
	Calls, Requests uint64
	// Degraded is how many requests were answered by failure mode; Skipped how
	// many calls were not sent because the server had failed of late.
	Degraded, Skipped uint64
	// Retried is how many calls were sent again; Calls does not count them.
	Retried uint64
	// Refused is how many calls the server, or the Checker, refused as malformed.
	Refused uint64
	// Err is why the last call that was sent had no answer that counts; nil if it had one.
	Err error
}

// Stats returns a snapshot of the counters.
func (c *Checker) Stats() CheckerStats {
	n := &c.counts
	return CheckerStats{
		Calls: n.calls.Load(), Requests: n.requests.Load(), Degraded: n.degraded.Load(),
		Skipped: n.skipped.Load(), Refused: n.refused.Load(), Retried: n.retried.Load(),
		Err: c.lastFailure(),
	}
}

// NewChecker returns a Checker. It does not ask the server yet.
func NewChecker(o CheckerOptions) (*Checker, error) {
	target, err := parseURL(o.URL)
	if err != nil {
		return nil, err
	}
	if err := checkHeader(o.Header); err != nil {
		return nil, err
	}
	if o.Failure != rules.Open && o.Failure != rules.Closed {
		return nil, errors.New("remote checker: failure mode local; hint: open or closed, since a remote checker has no store of its own")
	}
	if o.Retries < 0 || o.Retries > MaxRetries {
		return nil, fmt.Errorf("remote checker: %d retries; hint: 0 to %d", o.Retries, MaxRetries)
	}
	if o.Budget < 0 {
		return nil, fmt.Errorf("remote checker: budget %v; hint: 0 for the default, or more", o.Budget)
	}
	o.Budget = cmp.Or(o.Budget, DefaultBudget)
	c := &Checker{options: o, base: target, target: target.JoinPath(checkPath).String(), breaker: breaker.New(breaker.Options{})}
	if err := c.token.load(&o.Credentials, time.Now()); err != nil {
		return nil, err
	}
	switch secure := !o.Credentials.files().IsZero(); {
	case secure && (o.Transport != nil || target.Scheme != "https"):
		return nil, errors.New("remote checker: files for TLS beside a Transport, or for a URL of http; hint: https, and no Transport")
	case o.Transport == nil:
		own := newTransport()
		if err := o.Credentials.secured(own); err != nil {
			return nil, err
		}
		c.options.Transport = own
	}
	return c, nil
}

// parseURL reads the address of a server. What would not be sent, or not reach its API, is
// refused: the failure mode would answer every call. Errors show the scheme, the host and the path
// alone, because users and queries may hold secrets.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("remote checker: the URL cannot be read; hint: the address of a Headgate, such as http://headgate:8080")
	}
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	switch {
	case u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("remote checker: URL %q; hint: the address of a Headgate, such as http://headgate:8080", shown.String())
	case u.User != nil:
		return nil, fmt.Errorf("remote checker: URL %q has a user, which is not sent; hint: what the server wants to see goes into Credentials or Header", shown.String())
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, fmt.Errorf("remote checker: URL %q has a query or a fragment; hint: the address alone, such as http://headgate:8080", shown.String())
	case strings.HasSuffix(strings.TrimRight(u.Path, "/"), checkPath):
		return nil, fmt.Errorf("remote checker: URL %q ends with %s; hint: leave that out, it is added", shown.String(), checkPath)
	}
	return u, nil
}

// checkPath is where checks go.
const checkPath = "/v1/check"

// checkHeader refuses fields with which no call can be sent. Errors do not tell values.
func checkHeader(header http.Header) error {
	for name, values := range header {
		if !ascii.IsToken(name) {
			return fmt.Errorf("remote checker: header field %q; hint: a name has letters, digits and dashes, such as X-Gateway-Key", name)
		}
		if !slices.ContainsFunc(values, func(value string) bool { return !isFieldValue(value) }) {
			continue
		}
		return fmt.Errorf("remote checker: the value of header field %s holds a control character; hint: one line, without its end", name)
	}
	return nil
}

// isFieldValue reports whether text can be sent as the value of a header field.
func isFieldValue(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

// newTransport differs from http.DefaultTransport in that many calls to one host
// keep their connections, and in that no proxy of the environment comes between.
func newTransport() *http.Transport {
	return &http.Transport{
		DialContext:            (&net.Dialer{Timeout: 2 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		MaxIdleConns:           idleConnections,
		MaxIdleConnsPerHost:    idleConnections,
		IdleConnTimeout:        30 * time.Second,
		TLSHandshakeTimeout:    2 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true,
		ForceAttemptHTTP2:      true,
	}
}

// Close closes the idle connections. Calls after it open new ones.
func (c *Checker) Close() {
	if t, ok := c.options.Transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// Check decides requests[i] into responses[i], like headgate.Limiter.Check. An
// error names a malformed request, or one that the wire or the server does not
// take, and means that nothing was decided; no response is Allowed then.
func (c *Checker) Check(ctx context.Context, requests []headgate.Request, responses []headgate.Response) error {
	if len(requests) != len(responses) {
		return refused(responses, fmt.Errorf("remote check: %d requests but %d responses; hint: give one response for each request", len(requests), len(responses)))
	}
	if len(requests) == 0 {
		return nil
	}
	return c.check(ctx, requests, c.drawIDs(len(requests)), responses)
}

// check asks for requests by ids, which has one of each or none at all.
func (c *Checker) check(ctx context.Context, requests []headgate.Request, ids []string, responses []headgate.Response) error {
	body, err := encodeChecks(requests, ids)
	if err != nil {
		c.counts.refused.Add(1)
		return refused(responses, err)
	}
	q := question{target: c.target, body: body, requests: len(requests), trace: traceOf(requests)}
	if allNamed(ids) {
		q.retries = c.options.Retries
	}
	reason, err := c.ask(ctx, q, func(resp *http.Response, answer []byte) (store.Reason, error) {
		return decodeAnswer(resp, answer, requests, responses)
	})
	if c.degraded(len(requests), reason, err) {
		for i := range requests {
			answerByMode(&requests[i], &responses[i], c.options.Failure, reason)
		}
	}
	if err != nil {
		return refused(responses, err)
	}
	return nil
}

// refused empties the responses of a call that ends with err, which it returns: whoever overlooks
// the error shall not let a request pass by the answer to a call before.
func refused(responses []headgate.Response, err error) error {
	for i := range responses {
		_ = refusedOne(&responses[i], err)
	}
	return err
}

// degraded counts what became of a call of so many requests, and reports whether the failure mode
// decides them.
func (c *Checker) degraded(requests int, reason store.Reason, err error) bool {
	switch {
	case err != nil:
		c.counts.refused.Add(1)
	case reason != store.NoReason:
		c.counts.degraded.Add(uint64(requests))
		return true
	}
	return false
}

// question is what one call asks.
type question struct {
	target   string
	body     []byte
	requests int // in body
	trace    trace.Parent
	retries  int // how often it may be sent again
}

// ask sends one call, within the budget and unless the breaker is open, and decodes its
// answer. It returns why it could not.
func (c *Checker) ask(ctx context.Context, q question, decode func(*http.Response, []byte) (store.Reason, error)) (store.Reason, error) {
	permit, ok := c.breaker.Allow(time.Now())
	if !ok {
		c.counts.skipped.Add(1)
		return store.BreakerOpen, nil
	}
	c.counts.calls.Add(1)
	c.counts.requests.Add(uint64(q.requests))
	start := time.Now()
	budget, cancel := context.WithTimeout(ctx, c.options.Budget)
	defer cancel()
	reason, err := c.exchanges(budget, &q, decode)
	if reason == store.NoReason && c.failure.Load() != nil {
		c.failure.Store(nil)
	}
	outcome := breaker.Success
	if reason != store.NoReason {
		outcome = breaker.Failure
		if ctx.Err() != nil {
			outcome = breaker.Ignored // the caller had less time than the budget
		}
	}
	end := time.Now()
	c.breaker.Done(permit, end, outcome, end.Sub(start))
	return reason, err
}

func (c *Checker) exchange(ctx context.Context, q *question, decode func(*http.Response, []byte) (store.Reason, error)) (store.Reason, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, q.target, bytes.NewReader(q.body))
	if err != nil {
		return c.failed(store.Misconfigured, q, err), nil
	}
	maps.Copy(req.Header, c.options.Header)
	req.Header.Set("Content-Type", "application/json")
	if shown := c.token.header(time.Now()); shown != nil {
		req.Header["Authorization"] = shown
	}
	if trace := q.trace.Traceparent(); trace != "" {
		req.Header["Traceparent"] = []string{trace}
	}
	resp, err := c.options.Transport.RoundTrip(req)
	if err != nil {
		return c.failed(reasonOf(err), q, err), nil
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return c.failed(reasonOf(err), q, err), nil
	}
	if len(answer) > maxAnswer {
		return c.failed(store.Misconfigured, q, fmt.Errorf("an answer of more than %d bytes", maxAnswer)), nil
	}
	reason, err := decode(resp, answer)
	if reason != store.NoReason {
		c.failed(reason, q, &strangeAnswer{resp.StatusCode})
	}
	return reason, err
}

// reasonOf classifies an error of the way to the server.
func reasonOf(err error) store.Reason {
	var timeout net.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled),
		errors.As(err, &timeout) && timeout.Timeout():
		return store.Timeout
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return store.Overloaded
	}
	return store.Unavailable
}
