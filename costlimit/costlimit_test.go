package costlimit_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/answercost"
	"github.com/headgate/headgate/costlimit"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store/memstore"
)

// exampleNow is a whole day, so that windows begin with the test.
var exampleNow = time.Unix(1_706_054_400, 0)

func newLimiter(t testing.TB, rules string) *headgate.Limiter {
	t.Helper()
	buckets, err := memstore.New(memstore.Options{Now: func() limit.Micros { return limit.MicrosOf(exampleNow) }})
	if err != nil {
		t.Fatal(err)
	}
	l, err := headgate.New(headgate.Options{Store: buckets, Rules: testrules.Load(t, rules), Now: func() time.Time { return exampleNow }})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// budgets are of 1000 tokens a day for each customer, and 300 for each model.
const budgets = `
domain: llm
match: path
descriptors:
  - key: user
    rate_limit: {name: requests, algorithm: fixed_window, unit: minute, requests_per_unit: 20}
  - key: tokens
    value: total
    descriptors:
      - key: user
        rate_limit: {name: tokens, algorithm: fixed_window, unit: day, requests_per_unit: 1000}
        descriptors:
          - key: model
            value: small
            rate_limit: {name: small, algorithm: fixed_window, unit: day, requests_per_unit: 300}
          - key: model
  - key: tokens
    value: output
    descriptors:
      - key: user
        rate_limit: {name: output, algorithm: fixed_window, unit: day, requests_per_unit: 500}
`

// byUser identifies by a header that tests set.
func byUser(r *http.Request, s *httplimit.Subject) error {
	s.Add(descriptor.Entry{Key: "user", Value: r.Header.Get("X-User")})
	return nil
}

// chain is limits on requests, costs, and a proxy before a provider, over real connections.
type chain struct {
	t       testing.TB
	limiter *headgate.Limiter
	costs   *costlimit.Middleware
	url     string
	client  *http.Client
	// lets is told by requests with X-Wait before each further part is sent.
	lets chan struct{}
}

func newShape(t testing.TB, counts []answercost.Count) *answercost.Shape {
	t.Helper()
	shape, err := answercost.New(answercost.Options{Counts: counts})
	if err != nil {
		t.Fatal(err)
	}
	return shape
}

func newChain(t testing.TB, counts []answercost.Count, o costlimit.Options, provider http.Handler) *chain {
	t.Helper()
	c := &chain{t: t, limiter: newLimiter(t, budgets), lets: make(chan struct{})}
	o.Limits.Domain, o.Limits.Identify, o.Shape = "llm", byUser, newShape(t, counts)
	if o.Budgets == nil {
		o.Budgets = []string{answercost.Total, "output"}
	}
	if o.CommitTimeout == 0 {
		o.CommitTimeout = time.Minute // however busy the machine is
	}
	var err error
	if c.costs, err = costlimit.New(c.limiter, o); err != nil {
		t.Fatal(err)
	}
	requests, err := httplimit.New(c.limiter, httplimit.Options{Domain: "llm", Identify: byUser})
	if err != nil {
		t.Fatal(err)
	}
	behind := httptest.NewServer(provider)
	t.Cleanup(behind.Close)
	to, err := url.Parse(behind.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
		FlushInterval: -1,
		Transport:     &http.Transport{DisableCompression: true},
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	front := httptest.NewServer(requests.Wrap(c.costs.Wrap(proxy)))
	t.Cleanup(front.Close)
	c.url, c.client = front.URL, &http.Client{Transport: &http.Transport{DisableCompression: true}}
	t.Cleanup(c.client.CloseIdleConnections)
	return c
}

// post sends a request and returns the answer, which is not read yet.
func (c *chain) post(ctx context.Context, body string, header ...string) *http.Response {
	c.t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("X-User", "alice")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := c.client.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp
}

// ask is post that reads the answer to its end.
func (c *chain) ask(body string, header ...string) (int, string) {
	c.t.Helper()
	resp := c.post(c.t.Context(), body, header...)
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, string(got)
}

// left is what a descriptor, such as "tokens:total,user:alice", has left of its tightest limit.
func (c *chain) left(text string) int64 {
	c.t.Helper()
	var entries []descriptor.Entry
	for part := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(part, ":")
		entries = append(entries, descriptor.Entry{Key: key, Value: value})
	}
	requests := []headgate.Request{{Domain: "llm", Descriptors: []headgate.Descriptor{{Entries: entries}}}}
	responses := make([]headgate.Response, 1)
	if err := c.limiter.Check(context.Background(), requests, responses); err != nil {
		c.t.Fatal(err)
	}
	v := responses[0].Speaker()
	if v == nil {
		c.t.Fatalf("%s: no limit", text)
	}
	return v.Decision.Remaining
}

// hasLeft waits until so much is left: an answer can be there before its commit.
func (c *chain) hasLeft(text string, want int64) {
	c.t.Helper()
	if !eventually.Holds(func() bool { return c.left(text) == want }) {
		c.t.Fatalf("%s: %d left, want %d; %+v", text, c.left(text), want, c.costs.Stats())
	}
}

const (
	aliceTotal = "tokens:total,user:alice"
	aliceSmall = "tokens:total,user:alice,model:small"
	aliceOut   = "tokens:output,user:alice"
)

// provider answers with what a request's header X-Answer says, of a kind.
func answering(kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, body)
	}
}

// plain are counts of which nothing is estimated.
var plain = []answercost.Count{{Name: "output", Paths: []string{"usage.completion_tokens"}}}

const question = `{"model":"large","max_tokens":100}` // 34 bytes: 9 tokens

// TestTheEstimateIsGivenBack: of what was reserved stays what the answer told, in each budget;
// the limit on requests is charged one.
func TestTheEstimateIsGivenBack(t *testing.T) {
	seen := make(chan int64, 1)
	var c *chain
	c = newChain(t, answercost.OpenAI(), costlimit.Options{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- c.left(aliceTotal)
		answering("application/json", `{"usage":{"prompt_tokens":7,"completion_tokens":20}}`)(w, r)
	}))
	if code, body := c.ask(question); code != 200 || !strings.Contains(body, `"prompt_tokens":7`) {
		t.Fatalf("%d %s", code, body)
	}
	if got := <-seen; got != 1000-109 {
		t.Errorf("while it ran %d were left, want %d", got, 1000-109)
	}
	c.hasLeft(aliceTotal, 1000-27)
	c.hasLeft(aliceOut, 500-20)
	c.hasLeft("user:alice", 19)
	c.hasLeft(aliceSmall, 300)
	if s := c.costs.Stats(); s.Told != 1 || s.Guessed != 0 || s.Limits.Allowed != 1 || s.KeptBytes != 0 {
		t.Errorf("%+v", s)
	}
}

// TestTheProviderSeesWhatWasSent: the request passes as it came, whatever it is, and so does
// the answer.
func TestTheProviderSeesWhatWasSent(t *testing.T) {
	c := newChain(t, plain, costlimit.Options{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		_, _ = io.Copy(w, r.Body)
	}))
	for _, body := range []string{question, "{ \"model\" :\n7", "\x00\xff", strings.Repeat("x", 1<<20)} {
		if code, got := c.ask(body, "Content-Type", "application/json"); code != 200 || got != body {
			t.Errorf("%d, %d bytes of %d", code, len(got), len(body))
		}
	}
}

// TestDebt: what was used beyond the estimate is owed, and nobody is let in before.
func TestDebt(t *testing.T) {
	c := newChain(t, answercost.OpenAI(), costlimit.Options{}, answering("application/json", `{"usage":{"prompt_tokens":7,"completion_tokens":450}}`))
	short := strings.Replace(question, "100", "30", 1)
	for i := range 2 {
		if code, body := c.ask(short); code != 200 {
			t.Fatalf("request %d: %d %s", i, code, body)
		}
		c.hasLeft(aliceOut, max(0, 500-int64(i+1)*450))
		if i == 0 {
			c.hasLeft(aliceTotal, 1000-457)
			continue
		}
		c.hasLeft(aliceTotal, 1000-2*457)
	}
	resp := c.post(t.Context(), short)
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != 429 || resp.Header.Get("Retry-After") == "" || !strings.Contains(string(body), `{"error":{"code":"RATE_LIMITED","message":`) {
		t.Errorf("%d %v %s", resp.StatusCode, resp.Header, body)
	}
	if code, _ := c.ask(short, "X-User", "bob"); code != 200 {
		t.Errorf("another customer: %d", code)
	}
	c.hasLeft(aliceTotal, 1000-2*457) // who was denied is charged nothing
}

// TestModels: a model has a budget of its own within that of the customer.
func TestModels(t *testing.T) {
	c := newChain(t, answercost.Anthropic(), costlimit.Options{Models: []string{"small", "large"}}, answering("application/json", `{"usage":{"input_tokens":50,"output_tokens":50,"cache_read_input_tokens":190}}`))
	small := strings.Replace(question, "large", "small", 1)
	if code, _ := c.ask(small); code != 200 {
		t.Fatal(code)
	}
	c.hasLeft(aliceSmall, 10)
	c.hasLeft(aliceTotal, 710)
	if code, _ := c.ask(small); code != 429 {
		t.Errorf("no room for the model: %d", code)
	}
	if code, _ := c.ask(question); code != 200 {
		t.Errorf("another model: %d", code)
	}
	c.hasLeft(aliceTotal, 420)
	if code, _ := c.ask(strings.Replace(question, "large", "an-invented-one", 1)); code != 200 {
		t.Errorf("a model that is not listed: %d", code)
	}
	c.hasLeft(aliceTotal, 130)
}

// events sends each part of a stream when it is let.
func (c *chain) events(parts []string, cut bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, p := range parts {
			_, _ = io.WriteString(w, p)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-c.lets:
			case <-r.Context().Done():
				return
			}
		}
		if cut {
			panic(http.ErrAbortHandler)
		}
	}
}

var (
	chatEvents = []string{
		"data: {\"choices\":[{\"delta\":{\"content\":\"Hello, how are you\"}}],\"usage\":null}\n\n",
		"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":19,\"completion_tokens\":10}}\n\ndata: [DONE]\n\n",
	}
	messageEvents = []string{
		"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}}\n\n" +
			"data: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"Hello there!\"}}\n\n",
		"data: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":15}}\n\n",
	}
)

// TestStreams: a stream that ends costs what it told, and one that the provider or the client
// cuts off what was seen; each part arrives when it is sent.
func TestStreams(t *testing.T) {
	for _, tt := range []struct {
		name        string
		counts      []answercost.Count
		parts       []string
		end         string // "", "provider" or "client"
		total, outs int64
	}{
		{"chat", answercost.OpenAI(), chatEvents, "", 29, 10},
		{"message", answercost.Anthropic(), messageEvents, "", 40, 15},
		{"chat, cut by the provider", answercost.OpenAI(), chatEvents[:1], "provider", 9 + 5, 5},
		{"message, cut by the provider", answercost.Anthropic(), messageEvents[:1], "provider", 25 + 4, 4},
		{"chat, cut by the client", answercost.OpenAI(), chatEvents[:1], "client", 9 + 5, 5},
		{"message, cut by the client", answercost.Anthropic(), messageEvents[:1], "client", 25 + 4, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var c *chain
			c = newChain(t, tt.counts, costlimit.Options{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.events(tt.parts, tt.end == "provider")(w, r) }))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			resp := c.post(ctx, question)
			defer resp.Body.Close()
			in := bufio.NewReader(resp.Body)
			for i, p := range tt.parts {
				got := make([]byte, len(p))
				if _, err := io.ReadFull(in, got); err != nil || string(got) != p {
					t.Fatalf("part %d: %q, %v", i, got, err)
				}
				if i == len(tt.parts)-1 && tt.end == "client" {
					cancel()
					break
				}
				c.lets <- struct{}{}
			}
			if _, err := io.ReadAll(in); (err != nil) != (tt.end != "") {
				t.Errorf("the end: %v", err)
			}
			c.hasLeft(aliceTotal, 1000-tt.total)
			c.hasLeft(aliceOut, 500-tt.outs)
		})
	}
}

// TestTwoAtOnce: two streams at once are beyond the budget by no more than what their estimates
// missed.
func TestTwoAtOnce(t *testing.T) {
	var c *chain
	c = newChain(t, answercost.OpenAI(), costlimit.Options{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.events([]string{chatEvents[0], "data: {\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":210}}\n\n"}, false)(w, r)
	}))
	bodies := make(chan int64, 3)
	var streams []*http.Response
	for range 2 {
		streams = append(streams, c.post(t.Context(), strings.Replace(question, "100", "200", 1)))
	}
	// 400 of 500 tokens of output are reserved.
	if code, _ := c.ask(strings.Replace(question, "100", "200", 1)); code != 429 {
		t.Errorf("a third one: %d", code)
	}
	for _, s := range streams {
		go func() {
			n, _ := io.Copy(io.Discard, s.Body)
			s.Body.Close()
			bodies <- n
		}()
	}
	for range 4 {
		c.lets <- struct{}{}
	}
	for range streams {
		<-bodies
	}
	c.hasLeft(aliceOut, 500-2*210)
}

// TestRefusedByTheProvider: what the provider refuses costs nothing, unless it tells otherwise.
func TestRefusedByTheProvider(t *testing.T) {
	var status int
	body := `{"error":{"message":"no"}}`
	c := newChain(t, answercost.OpenAI(), costlimit.Options{}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	for _, status = range []int{400, 429, 500} {
		if code, _ := c.ask(question); code != status {
			t.Errorf("%d, want %d", code, status)
		}
		c.hasLeft(aliceTotal, 1000)
	}
	body = `{"usage":{"prompt_tokens":3}}`
	_, _ = c.ask(question)
	c.hasLeft(aliceTotal, 997)
	if s := c.costs.Stats(); s.Refused != 3 || s.Told != 1 {
		t.Errorf("%+v", s)
	}
}

// TestUnreadable: the estimate stays where the answer cannot be read.
func TestUnreadable(t *testing.T) {
	c := newChain(t, answercost.OpenAI(), costlimit.Options{}, answering("audio/mpeg", "..."))
	_, _ = c.ask(question)
	eventually.True(t, "it is counted", func() bool { return c.costs.Stats().Unread == 1 })
	c.hasLeft(aliceTotal, 1000-109)
}

// TestCompressed: of all codings that a client can read the provider is offered gzip alone,
// and what comes so is read and passes as it is.
func TestCompressed(t *testing.T) {
	offered := make(chan string, 1)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = io.WriteString(z, `{"usage":{"prompt_tokens":7,"completion_tokens":20}}`)
	_ = z.Close()
	c := newChain(t, answercost.OpenAI(), costlimit.Options{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		offered <- r.Header.Get("Accept-Encoding")
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(packed.Bytes())
	}))
	for accepted, want := range map[string]string{"br;q=1, gzip;q=0.5, zstd": "gzip", "br, gzip;q=0": "identity", "zstd": "identity", "": "identity", "gzip": "gzip"} {
		before := c.left(aliceTotal)
		_, body := c.ask(question, "Accept-Encoding", accepted)
		if got := <-offered; got != want || body != packed.String() {
			t.Errorf("%q: offered %q, want %q; %d bytes", accepted, got, want, len(body))
		}
		c.hasLeft(aliceTotal, before-27)
	}
}

// TestRequestsOfHostileSize: what is too long is refused before it is read, what is too much
// in all until there is room.
func TestRequestsOfHostileSize(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	c := newChain(t, plain, costlimit.Options{MaxRequest: 10_000, MaxKept: 15_000}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Wait") != "" {
			entered <- struct{}{}
			<-leave
		}
		w.WriteHeader(http.StatusBadRequest)
	}))
	if code, body := c.ask(strings.Repeat("x", 10_001)); code != 413 || !strings.Contains(body, `"BODY_TOO_LARGE"`) {
		t.Errorf("%d %s", code, body)
	}
	unknown := func() *http.Request {
		r := httptest.NewRequest(http.MethodPost, "/", io.MultiReader(strings.NewReader(strings.Repeat("x", 10_001))))
		r.ContentLength = -1
		return r
	}
	w := httptest.NewRecorder()
	c.costs.Wrap(http.NotFoundHandler()).ServeHTTP(w, unknown())
	if w.Code != 413 {
		t.Errorf("of unknown length: %d", w.Code)
	}
	w = httptest.NewRecorder()
	bounded := unknown()
	bounded.Body = http.MaxBytesReader(w, bounded.Body, 5000) // by a handler around
	c.costs.Wrap(http.NotFoundHandler()).ServeHTTP(w, bounded)
	if w.Code != 413 || !strings.Contains(w.Body.String(), `"BODY_TOO_LARGE"`) {
		t.Errorf("beyond the bound of the server: %d %s", w.Code, w.Body)
	}
	done := make(chan int)
	go func() {
		code, _ := c.ask(strings.Repeat("x", 10_000), "X-Wait", "yes")
		done <- code
	}()
	select {
	case <-entered:
	case code := <-done:
		t.Fatalf("the long one: %d", code)
	}
	if code, body := c.ask(strings.Repeat("x", 9_000)); code != 503 || !strings.Contains(body, "SERVICE_UNAVAILABLE") {
		t.Errorf("no room: %d %s", code, body)
	}
	if code, _ := c.ask(question); code != 400 {
		t.Errorf("a short one: %d", code)
	}
	close(leave)
	if code := <-done; code != 400 {
		t.Errorf("the long one: %d", code)
	}
	eventually.True(t, "nothing is kept", func() bool { return c.costs.Stats().KeptBytes == 0 })
	if s := c.costs.Stats(); s.Unreadable != 4 {
		t.Errorf("%+v", s)
	}
}

// TestWithoutABody: such requests cost nothing, whatever is left.
func TestWithoutABody(t *testing.T) {
	c := newChain(t, answercost.OpenAI(), costlimit.Options{}, answering("application/json", `{"usage":{"prompt_tokens":7}}`))
	resp, err := c.client.Get(c.url)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if s := c.costs.Stats(); resp.StatusCode != 200 || s.Passed != 1 || s.Limits.Allowed != 0 {
		t.Errorf("%d, %+v", resp.StatusCode, s)
	}
}

func TestNewRefuses(t *testing.T) {
	shape := newShape(t, answercost.OpenAI())
	for want, o := range map[string]costlimit.Options{
		"no Shape":                 {},
		"budget \"x\"":             {Shape: shape, Budgets: []string{"x"}},
		"budget \"output\"":        {Shape: shape, Budgets: []string{"output", "output"}},
		"model \"a b\"":            {Shape: shape, Models: []string{"a b"}},
		"options with Limits.Hits": {Shape: shape, Limits: httplimit.Options{Refund: func(int) bool { return true }}},
		"below 0":                  {Shape: shape, MaxKept: -1},
		"ttl":                      {Shape: shape, TTL: 2 * time.Hour},
		"new cost limits:":         {Shape: shape},
	} {
		if _, err := costlimit.New(newLimiter(t, budgets), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := costlimit.New(nil, costlimit.Options{Shape: shape}); err == nil {
		t.Error("no Reserver")
	}
}
