package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/client"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/httpanswer"
	"github.com/headgate/headgate/internal/httpcheck"
	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testRules = `
domain: api
match: path
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 5, name: per_user}
    descriptors:
      - key: route
        value: write
        rate_limit: {unit: hour, requests_per_unit: 3, algorithm: gcra}
  - key: shaped
    rate_limit: {unit: second, requests_per_unit: 10, algorithm: leaky_queue, max_delay: 1s}
  - key: free
    rate_limit: {unlimited: true}
  - key: once
    rate_limit: {unit: second, requests_per_unit: 2, name: once}
`

// decider is what a Checker and a Limiter have in common.
type decider interface {
	Check(ctx context.Context, requests []headgate.Request, responses []headgate.Response) error
}

// newLimiter returns a limiter over a store whose clock stands.
func newLimiter(t testing.TB) *headgate.Limiter {
	t.Helper()
	set := testrules.Load(t, testRules)
	at := limit.MicrosOf(time.Unix(1706000040, 0))
	buckets, err := memstore.New(memstore.Options{MaxBytes: memstore.MinMaxBytes, Now: func() limit.Micros { return at }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { buckets.Close() })
	limiter, err := headgate.New(headgate.Options{Store: buckets, Rules: set})
	if err != nil {
		t.Fatal(err)
	}
	return limiter
}

// serve starts a Headgate over HTTP.
func serve(t testing.TB, checker httpcheck.Checker, o httpcheck.Options) string {
	t.Helper()
	o.Checker = checker
	handler, err := httpcheck.NewHandler(o)
	if err != nil {
		t.Fatal(err)
	}
	return serveHandler(t, handler)
}

func serveHandler(t testing.TB, handler http.Handler) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// remote returns a Checker with a budget that a busy machine keeps.
func remote(t testing.TB, o client.CheckerOptions) *client.Checker {
	t.Helper()
	if o.Budget == 0 {
		o.Budget = 10 * time.Second
	}
	c, err := client.NewChecker(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func ask(hits int64, entries ...string) headgate.Request {
	d := headgate.Descriptor{Hits: hits}
	for i := 0; i < len(entries); i += 2 {
		d.Entries = append(d.Entries, descriptor.Entry{Key: entries[i], Value: entries[i+1]})
	}
	return headgate.Request{Domain: "api", Descriptors: []headgate.Descriptor{d}}
}

// told is the part of a response that the wire carries.
type told struct {
	Allowed, Known, Degraded, Never    bool
	Rule                               string
	Limit, Remaining, RetryAfter       int64
	Window, ResetAfter, Delay          time.Duration
	Status                             int
	RateLimit, Policy, Retry, XRateLim string
}

// tell reduces a response to what clients are told; the header fields are those
// that a middleware over either decider would send.
func tell(t testing.TB, r *headgate.Response) told {
	t.Helper()
	encoder, err := httpanswer.New(httpanswer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := encoder.Summarize(r)
	k := told{Allowed: r.Allowed, Degraded: r.Degraded() != store.NoReason, Status: s.Status}
	for _, f := range encoder.AppendFields(nil, nil, r, &s, time.Unix(1706000040, 0)) {
		switch f.Name {
		case "RateLimit":
			k.RateLimit = f.Value
		case "RateLimit-Policy":
			k.Policy = f.Value
		case "Retry-After":
			k.Retry = f.Value
		case "X-RateLimit-Limit":
			k.XRateLim = f.Value
		}
	}
	v := s.Verdict
	if v == nil {
		return k
	}
	k.Known = r.DomainKnown
	k.Never, k.Limit, k.Remaining = v.Decision.Never, v.Decision.Limit, v.Decision.Remaining
	k.RetryAfter = httpanswer.CeilSeconds(v.Decision.RetryAfter)
	k.ResetAfter, k.Delay = v.Decision.ResetAfter.Round(time.Second), v.Decision.Delay.Round(time.Millisecond)
	if v.Rule != nil {
		k.Rule = v.Rule.ID
	}
	if v.Limit != nil {
		k.Window = time.Duration(httpanswer.CeilSeconds(v.Limit.Period)) * time.Second
	}
	return k
}

// TestSameAsInProcess: one line apart, the same decisions.
func TestSameAsInProcess(t *testing.T) {
	named := limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 6, Period: time.Minute, Burst: 2})
	callers := ask(1, "key", "user:42", "window_ms", "60000")
	callers.Domain, callers.Descriptors[0].Limit = headgate.CallerDomain, named
	refund, reset := ask(2, "user", "1"), ask(0, "user", "1")
	refund.Descriptors[0].Op, reset.Descriptors[0].Op = store.Refund, store.Reset
	script := []headgate.Request{
		ask(1, "user", "1"), ask(0, "user", "1"), ask(4, "user", "1"), ask(1, "user", "1"), ask(9, "user", "1"),
		refund, ask(1, "user", "1"), reset, ask(1, "user", "1"),
		ask(1, "user", "2", "route", "write"), ask(2, "user", "2", "route", "write"), ask(1, "user", "2", "route", "write"),
		ask(1, "shaped", "x"), ask(3, "shaped", "x"), ask(1, "free", "x"), ask(1, "nobody", "x"),
		ask(1, "user", "\xff\x00,:\\\u2028"), ask(1, "user", "\xfe\x00,:\\\u2028"), ask(1, "user", "\xff\x00,:\\\u2028"),
		ask(1, "user", ""), {Domain: "elsewhere", Descriptors: ask(1, "user", "1").Descriptors},
		callers, callers, callers,
	}
	run := func(d decider, i int) told {
		responses := make([]headgate.Response, 1)
		if err := d.Check(t.Context(), script[i:i+1], responses); err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		return tell(t, &responses[0])
	}
	local := newLimiter(t)
	far := remote(t, client.CheckerOptions{URL: serve(t, newLimiter(t), httpcheck.Options{})})
	for i := range script {
		want, got := run(local, i), run(far, i)
		got.Known = want.Known // not on the wire where nothing limits
		// Of several policies the decisive one is told, a bucket is a window.
		if strings.Contains(want.Policy, got.Policy) && (got.Policy != "" || want.RateLimit == "") {
			want.Policy, want.Window = got.Policy, got.Window
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("request %d: in process -, remote +\n%s", i, diff)
		}
	}
	if s := far.Stats(); s.Calls != uint64(len(script)) || s.Degraded != 0 || s.Refused != 0 {
		t.Errorf("%+v", s)
	}
}

// TestBatch: many in one call, in order.
func TestBatch(t *testing.T) {
	far := remote(t, client.CheckerOptions{URL: serve(t, newLimiter(t), httpcheck.Options{})})
	requests := make([]headgate.Request, 7)
	for i := range requests {
		requests[i] = ask(1, "user", "1")
	}
	requests[3] = ask(1, "free", "1")
	responses := make([]headgate.Response, len(requests))
	for range 2 { // the second time over memory that was used
		if err := far.Check(t.Context(), requests, responses); err != nil {
			t.Fatal(err)
		}
	}
	for i := range responses {
		r := &responses[i]
		if free := i == 3; r.Allowed != free || len(r.Verdicts) != 1 || !free && r.Verdicts[0].Decision.Limit != 5 {
			t.Errorf("response %d: %+v", i, r)
		}
	}
	if s := far.Stats(); s.Calls != 2 || s.Requests != 14 {
		t.Errorf("%+v", s)
	}
	if err := far.Check(t.Context(), nil, nil); err != nil || far.Stats().Calls != 2 {
		t.Errorf("no requests: %v", err)
	}
}

// TestRefusals: what is malformed is an error with a hint, never a decision.
func TestRefusals(t *testing.T) {
	far := remote(t, client.CheckerOptions{URL: serve(t, newLimiter(t).Door(headgate.DoorOptions{Rights: headgate.Rights{Check: true, Reserve: true}}), httpcheck.Options{})})
	domain := func(d string, r headgate.Request) headgate.Request { r.Domain = d; return r }
	op := func(o store.Op, r headgate.Request) headgate.Request { r.Descriptors[0].Op = o; return r }
	named := func(l *limit.Limit, r headgate.Request) headgate.Request { r.Descriptors[0].Limit = l; return r }
	minute := limit.Must(limit.PerMinute(1))
	cases := []struct {
		name    string
		request headgate.Request
		is      error
		says    string
	}{
		{"no domain", domain("", ask(1, "a", "b")), headgate.ErrNoDomain, ""},
		{"no descriptors", headgate.Request{Domain: "api"}, headgate.ErrNoDescriptors, ""},
		{"an empty key", ask(1, "", "b"), headgate.ErrDescriptor, "empty key"},
		{"hits", ask(-1, "a", "b"), headgate.ErrHits, ""},
		{"an operation", op(99, ask(1, "a", "b")), headgate.ErrDescriptor, "operation"},
		{"a domain of bytes", domain("\xff", ask(1, "a", "b")), nil, "UTF-8"},
		{"a limit beside rules", named(minute, ask(1, "a", "b")), nil, headgate.CallerDomain},
		{"a limit that is not plain", domain(headgate.CallerDomain, named(limit.Must(limit.Spec{Quota: 1, Period: time.Second, CountDenied: true}), ask(1, "a", "b"))), nil, "wire"},
		{"a window of microseconds", domain(headgate.CallerDomain, named(limit.Must(limit.Spec{Quota: 1, Period: 1500 * time.Microsecond}), ask(1, "a", "b"))), nil, "milliseconds"},
		{"the server's word: no trust", op(store.Refund, ask(1, "user", "1")), nil, "--caller-limits"},
		{"the server's word: attributes", headgate.Request{Domain: "api", Descriptors: ask(1, "a", "b").Descriptors, Attributes: manyAttributes()}, nil, "32 attributes"},
		{"too long", ask(1, "a", strings.Repeat("\\", 64<<10), "b", strings.Repeat("\x01", 64<<10), "c", strings.Repeat("\x01", 64<<10), "d", strings.Repeat("\x01", 64<<10)), nil, "bytes"},
	}
	for _, c := range cases {
		responses := []headgate.Response{{Allowed: true}}
		err := far.Check(t.Context(), []headgate.Request{c.request}, responses)
		if err == nil || responses[0].Allowed || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, allowed %v, want %v with %q", c.name, err, responses[0].Allowed, c.is, c.says)
		}
	}
	if s := far.Stats(); s.Refused != uint64(len(cases)) || s.Degraded != 0 {
		t.Errorf("%+v", s)
	}
	if err := far.Check(t.Context(), make([]headgate.Request, 1), nil); err == nil {
		t.Error("no room for the response, and no error")
	}
	if err := far.Check(t.Context(), make([]headgate.Request, 1001), make([]headgate.Response, 1001)); err == nil {
		t.Error("1001 requests, and no error")
	}
}

func manyAttributes() []descriptor.Entry {
	var entries []descriptor.Entry
	for i := range 33 {
		entries = append(entries, descriptor.Entry{Key: "header:x" + strconv.Itoa(i), Value: "1"})
	}
	return entries
}

func TestNewCheckerRefuses(t *testing.T) {
	for _, o := range []client.CheckerOptions{
		{}, {URL: "headgate:8080"}, {URL: "ftp://headgate"}, {URL: "http://headgate", Failure: rules.FailLocal}, {URL: "http://headgate", Budget: -1},
	} {
		if _, err := client.NewChecker(o); err == nil || !strings.Contains(err.Error(), "hint") {
			t.Errorf("%+v: %v", o, err)
		}
	}
	for _, o := range []client.CheckerOptions{
		{URL: "ftp://me:secret@headgate"}, {URL: "http://secret@headgate"}, {URL: "http://headgate?key=secret"}, {URL: "http://headgate?"},
		{URL: "http://headgate/#secret"}, {URL: "http://headgate\nsecret"},
		{URL: "http://headgate/v1/check"}, {URL: "http://gateway/headgate/v1/check/"},
		{URL: "http://headgate", Header: http.Header{"X Key": {"secret"}}}, {URL: "http://headgate", Header: http.Header{"": {"secret"}}},
		{URL: "http://headgate", Header: http.Header{"X-Key": {"one", "secret\n"}}},
	} {
		if _, err := client.NewChecker(o); err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "; hint: ") {
			t.Errorf("%s, %v: %v", o.URL, o.Header, err)
		}
	}
}

// TestStatsTellWhyCallsFailed: until one has an answer again; that the server was not asked is no
// news.
func TestStatsTellWhyCallsFailed(t *testing.T) {
	status := 0
	far := remote(t, client.CheckerOptions{URL: "http://headgate.test", Credentials: client.Credentials{Token: "hgct_secret"}, Transport: transportFunc(func(*http.Request) (*http.Response, error) {
		if status == 0 {
			return nil, errors.New("no route to host")
		}
		body := io.NopCloser(strings.NewReader(`{"allowed":true}`))
		return &http.Response{StatusCode: status, Header: http.Header{}, Body: body}, nil
	})})
	for _, c := range []struct {
		status int
		want   string // "" for none
	}{
		{0, "no route to host"}, {401, "status 401 that is no decision; hint: the server does not know the token"}, {200, ""},
		{404, "hint: something else"}, {500, "store_unavailable"}, {500, "store_unavailable"}, {200, "store_unavailable"},
	} {
		status = c.status
		if err := far.Check(t.Context(), []headgate.Request{ask(1, "user", "1")}, make([]headgate.Response, 1)); err != nil {
			t.Fatal(err)
		}
		err := far.Stats().Err
		if c.want == "" != (err == nil) || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hgct_secret")) {
			t.Errorf("status %d: %v, want %q", c.status, err, c.want)
		}
	}
}

// TestFailureModes: whatever is not a Headgate's answer meets the failure mode,
// with a reason.
func TestFailureModes(t *testing.T) {
	answer := func(status int, media, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", media)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	cases := []struct {
		name    string
		handler http.HandlerFunc
		want    store.Reason
	}{
		{"a page of a proxy", answer(503, "text/html", "<html>"), store.Unavailable},
		{"a proxy's limit", answer(429, "text/plain", "slow down"), store.Misconfigured},
		{"another service", answer(200, "application/json", `{"ok":true}`), store.Misconfigured},
		{"a null", answer(200, "application/json", `null`), store.Misconfigured},
		{"half an answer", answer(200, "application/json", `{"allowed":true`), store.Misconfigured},
		{"a wrong type", answer(200, "application/json", `{"allowed":"yes"}`), store.Misconfigured},
		{"another path", answer(404, "text/plain", "not found"), store.Misconfigured},
		{"a refusal of a proxy", answer(403, "text/html", "<html>"), store.Misconfigured},
		{"a refusal of a gateway", answer(403, "application/json", `{"detail":"no key"}`), store.Misconfigured},
		{"too much", answer(200, "application/json", `{"allowed":true}`+strings.Repeat(" ", 4<<20)), store.Misconfigured},
		{"a gateway", answer(502, "text/plain", ""), store.Unavailable},
		{"a hang up", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, store.Unavailable},
		{"no end", func(w http.ResponseWriter, _ *http.Request) {
			for chunk := make([]byte, 1<<20); ; {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		}, store.Misconfigured},
	}
	for _, c := range cases {
		url := serveHandler(t, c.handler)
		for _, mode := range []rules.FailureMode{rules.Open, rules.Closed} {
			far := remote(t, client.CheckerOptions{URL: url, Failure: mode})
			responses := make([]headgate.Response, 1)
			if err := far.Check(t.Context(), []headgate.Request{ask(1, "user", "1")}, responses); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			r := &responses[0]
			if r.Allowed != (mode == rules.Open) || r.Degraded() != c.want {
				t.Errorf("%s, failure mode %v: allowed %v, %q; want %q", c.name, mode, r.Allowed, r.Degraded(), c.want)
			}
			if k := tell(t, r); !r.Allowed && (k.Status != 503 || k.Retry != "1") || r.Allowed && k.Status != 200 || k.RateLimit != "" {
				t.Errorf("%s, failure mode %v: a client is told %+v", c.name, mode, k)
			}
		}
	}
}

// TestClosedLetsRefundsPass as the limiter does.
func TestClosedLetsRefundsPass(t *testing.T) {
	server := httptest.NewServer(nil)
	server.Close() // nobody listens there
	far := remote(t, client.CheckerOptions{URL: server.URL, Failure: rules.Closed})
	refund := ask(1, "user", "1")
	refund.Descriptors[0].Op = store.Refund
	responses := make([]headgate.Response, 2)
	if err := far.Check(t.Context(), []headgate.Request{refund, ask(0, "user", "1")}, responses); err != nil {
		t.Fatal(err)
	}
	if !responses[0].Allowed || responses[1].Allowed || responses[0].Degraded() != store.Unavailable {
		t.Errorf("%+v", responses)
	}
}

// silent is a server that takes calls and never answers.
type silent struct{}

func (silent) RoundTrip(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, req.Context().Err()
}

// TestBudget: a server that does not answer costs its budget a few times, and
// then nothing until it is asked again.
func TestCheckerBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		far, err := client.NewChecker(client.CheckerOptions{URL: "http://headgate.test", Transport: silent{}})
		if err != nil {
			t.Fatal(err)
		}
		responses := make([]headgate.Response, 1)
		check := func(ctx context.Context) (store.Reason, time.Duration) {
			start := time.Now()
			if err := far.Check(ctx, []headgate.Request{ask(1, "user", "1")}, responses); err != nil || !responses[0].Allowed {
				t.Errorf("%v, %+v", err, responses[0])
			}
			return responses[0].Degraded(), time.Since(start)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if reason, took := check(short); reason != store.Timeout || took != time.Millisecond {
			t.Errorf("the caller's deadline: %q after %v", reason, took)
		}
		for range 3 {
			if reason, took := check(t.Context()); reason != store.Timeout || took != client.DefaultBudget {
				t.Errorf("%q after %v", reason, took)
			}
		}
		for range 100 {
			if reason, took := check(t.Context()); reason != store.BreakerOpen || took != 0 {
				t.Errorf("%q after %v", reason, took)
			}
		}
		time.Sleep(2 * time.Second)
		if reason, took := check(t.Context()); reason != store.Timeout || took != client.DefaultBudget {
			t.Errorf("the probe: %q after %v", reason, took)
		}
		if s := far.Stats(); s.Skipped != 100 || s.Degraded != 105 || s.Calls != 5 {
			t.Errorf("%+v", s)
		}
	})
}

// TestHeader: credentials for what stands before the server.
func TestCheckerSendsHeader(t *testing.T) {
	var got http.Header
	url := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header
		_, _ = io.WriteString(w, `{"allowed":true}`)
	}))
	header := http.Header{"Authorization": {"Bearer x"}}
	far := remote(t, client.CheckerOptions{URL: url + "/limits/", Header: header})
	if err := far.Check(t.Context(), []headgate.Request{ask(1, "user", "1")}, make([]headgate.Response, 1)); err != nil {
		t.Fatal(err)
	}
	if got.Get("Authorization") != "Bearer x" || got.Get("Content-Type") != "application/json" {
		t.Errorf("%v", got)
	}
	if len(header) != 1 {
		t.Errorf("the options were changed: %v", header)
	}
}

// TestCheckerClosesAnswers: whatever they are, because a connection hangs on each.
func TestCheckerClosesAnswers(t *testing.T) {
	for _, body := range []string{`{"allowed":true}`, "<html>", strings.Repeat(" ", 5<<20)} {
		answer := &closing{Reader: strings.NewReader(body)}
		far := remote(t, client.CheckerOptions{URL: "http://headgate.test", Transport: transportFunc(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: answer}, nil
		})})
		if err := far.Check(t.Context(), []headgate.Request{ask(1, "user", "1")}, make([]headgate.Response, 1)); err != nil || !answer.closed {
			t.Errorf("%.9q: %v, closed %v", body, err, answer.closed)
		}
	}
}

// closing is a body that notes that it was closed.
type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error { c.closed = true; return nil }

// TestReasonsStayFew: they are labels of metrics, whatever a server says.
func TestReasonsStayFew(t *testing.T) {
	for reason, want := range map[string]store.Reason{"store_full": store.Full, "of a later version": store.Internal} {
		far := remote(t, client.CheckerOptions{URL: "http://headgate.test", Transport: transportFunc(func(*http.Request) (*http.Response, error) {
			body := io.NopCloser(strings.NewReader(`{"allowed":true,"degraded":"` + reason + `"}`))
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: body}, nil
		})})
		responses := make([]headgate.Response, 1)
		if err := far.Check(t.Context(), []headgate.Request{ask(1, "user", "1")}, responses); err != nil || responses[0].Degraded() != want {
			t.Errorf("%s: %v, %q; want %q", reason, err, responses[0].Degraded(), want)
		}
	}
}

// TestFirstOfTwoAttributes: of two with one key the first counts, as for a Limiter.
func TestFirstOfTwoAttributes(t *testing.T) {
	var sent struct{ Attributes map[string]string }
	far := remote(t, client.CheckerOptions{URL: "http://headgate.test", Transport: transportFunc(func(r *http.Request) (*http.Response, error) {
		err := json.NewDecoder(r.Body).Decode(&sent)
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"allowed":true}`))}, err
	})})
	request := ask(1, "user", "1")
	request.Attributes = []descriptor.Entry{{Key: "content_length", Value: "1"}, {Key: "content_length", Value: "2"}}
	if err := far.Check(t.Context(), []headgate.Request{request}, make([]headgate.Response, 1)); err != nil || sent.Attributes["content_length"] != "1" {
		t.Errorf("%v, %v", err, sent.Attributes)
	}
}

// FuzzCheckerAnswer: whatever answers, the Checker decides or degrades.
func FuzzCheckerAnswer(f *testing.F) {
	f.Add(200, `{"allowed":true,"limit":20,"remaining":17,"reset_ms":41200,"retry_after_s":0,"rule":"writes","degraded":""}`, `"writes";q=20;w=60`, `"writes";r=17;t=42`, false)
	f.Add(429, `{"allowed":false,"limit":-1,"remaining":-5,"reset_ms":-1,"retry_after_s":99999999999999,"degraded":"x"}`, `5;w=1`, ``, false)
	f.Add(200, `{"results":[{"allowed":true},{"allowed":false}]}`, ``, ``, true)
	f.Add(400, `{"detail":"no","hint":"yes"}`, ``, ``, true)
	f.Fuzz(func(t *testing.T, status int, body, policy, rateLimit string, batch bool) {
		answer := roundTrip(func(*http.Request) (*http.Response, error) {
			return &http.Response{
				StatusCode: status, Body: io.NopCloser(strings.NewReader(body)),
				Header: http.Header{"Ratelimit-Policy": {policy}, "Ratelimit": {rateLimit}, "Content-Type": {"application/problem+json"}},
			}, nil
		})
		far, err := client.NewChecker(client.CheckerOptions{URL: "http://headgate.test", Transport: answer, Budget: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		requests := []headgate.Request{ask(1, "user", "1"), ask(1, "user", "2")}
		if !batch {
			requests = requests[:1]
		}
		responses := make([]headgate.Response, len(requests))
		if err := far.Check(t.Context(), requests, responses); err != nil {
			return
		}
		for i := range responses {
			tell(t, &responses[i])
			for _, v := range responses[i].Verdicts {
				d := v.Decision
				if d.Limit < 0 || d.Remaining < 0 || d.ResetAfter < 0 || d.RetryAfter < 0 || d.Delay < 0 || d.Allowed != responses[i].Allowed ||
					d.Allowed && (d.Never || d.RetryAfter > 0) {
					t.Fatalf("%+v", v)
				}
			}
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
