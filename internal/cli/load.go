package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/hideurl"
	"github.com/headgate/headgate/internal/loadgen"
	"github.com/headgate/headgate/limit"
)

type loadCmd struct {
	Addr string `env:"-" required:"" placeholder:"URL" help:"The server to ask: http://host:port, https://host:port, grpc://host:port or grpcs://host:port. There is no default."`

	Domain     string `env:"-" required:"" help:"Ask by the rules of this domain."`
	Descriptor string `env:"-" required:"" placeholder:"DESCRIPTOR" help:"The descriptor of each request, 'user:{key}', where {key} is the number of a key."`
	Hits       int64  `env:"-" default:"1" help:"What each request costs."`

	Shape     string        `env:"-" enum:"steady,ramp,burst" default:"steady" help:"steady sends at equal distances, ramp from none up to the rate, burst all of a second at its beginning. Default ${default}."`
	Rate      float64       `env:"-" default:"100" help:"Requests per second. Default ${default}; more than 1,000 takes --unguarded."`
	For       time.Duration `env:"-" default:"10s" help:"How long to send. Default ${default}; more than 1m takes --unguarded."`
	Keys      int           `env:"-" default:"100" help:"Among how many keys requests are drawn. Default ${default}."`
	Hot       float64       `env:"-" placeholder:"SHARE" help:"The share of requests that goes to the first key besides, from 0 to 1."`
	Seed      uint64        `env:"-" default:"1" help:"What the drawing of keys begins with. Default ${default}."`
	Slow      float64       `env:"-" placeholder:"SHARE" help:"The share of callers that send half of their request --slow-by later, over HTTP; their latency is not among the others."`
	SlowBy    time.Duration `env:"-" default:"1s" help:"By how much. Default ${default}."`
	Timeout   time.Duration `env:"-" default:"2s" help:"Longest wait for an answer. Default ${default}."`
	UnderWay  int           `env:"-" default:"1000" help:"Requests without an answer; one beyond them is not sent, and counted. Default ${default}."`
	Unguarded bool          `env:"-" help:"Allow more than 1,000 per second, or longer than 1m."`

	Rules     string `env:"-" placeholder:"FILE_OR_DIR" help:"The rules of the server: what was let pass is held against their limits, and the exit code is 1 when it was more."`
	ruleFlags `embed:""`

	MaxUndecided string `env:"-" placeholder:"N or N%" help:"The exit code is 1 when more requests were not sent, had no answer that decides, or were decided without the store: a number, or a share of all such as 0.1%."`

	callerFlags `embed:""`
	JSON        bool `name:"json" env:"-" help:"Print the report as JSON."`
}

// Help implements kong.HelpProvider.
func (*loadCmd) Help() string {
	return `Examples:

  headgate load --addr http://127.0.0.1:8080 --domain api --descriptor 'user:{key}' --rules rules.yaml
      100 requests per second for 10 seconds, of 100 users.

  headgate load --addr grpc://127.0.0.1:8081 --domain api --descriptor 'user:{key}' --shape burst --hot 0.5 --rate 500
      As Envoy asks, in bursts, half of them of one user.

  headgate load --addr http://127.0.0.1:8080 --domain api --descriptor 'user:{key}' --rules rules.yaml --max-undecided 0
      A check for CI: the exit code is 0 only when every request was decided by the store.

  headgate load --addr https://headgate:8080 --server-ca ca.pem --token-file token --domain api --descriptor 'user:{key}' --shape ramp --rate 5000 --for 2m --unguarded

Requests are sent when it is their time, whether others are answered or not, and latencies are
counted from then. Bounds are what a limit may let pass in the time of the run, whatever came
before: a window its quota once more than whole periods fit in, a bucket its burst and what it
refills. Rules of tenants, those of 'consistency: synced' and 'local', and limits on concurrency
are not judged; nothing is when the store did not decide every answer.

The exit code is 0, 1 when more was let pass or left undecided than may be, and 2 when nothing
was decided, or nothing was judged by --rules.`
}

// maxLoadWait bounds the wait for an answer, and so how long a run lasts after its last request.
const maxLoadWait = 10 * time.Minute

// options returns what is sent.
func (c *loadCmd) options() (loadgen.Options, error) {
	o := loadgen.Options{
		Shape: loadgen.Shape(c.Shape), Rate: c.Rate, For: c.For, Keys: c.Keys, Hot: c.Hot, Seed: c.Seed, UnderWay: c.UnderWay, Unguarded: c.Unguarded,
	}
	switch {
	case !strings.Contains(c.Descriptor, "{key}") && c.Keys > 1:
		return o, errors.New("--descriptor: it has no {key}, so that all keys are one; hint: 'user:{key}', or --keys 1")
	case c.Hits < 1 || c.Hits > limit.MaxQuota:
		return o, fmt.Errorf("--hits %d; hint: 1 or more", c.Hits)
	case !(c.Slow >= 0 && c.Slow <= 1):
		return o, fmt.Errorf("--slow %v; hint: from 0 to 1", c.Slow)
	case c.Timeout < time.Millisecond || c.Timeout > maxLoadWait:
		return o, fmt.Errorf("--timeout %v; hint: from 1ms to %v", c.Timeout, maxLoadWait)
	case c.Slow > 0 && (c.SlowBy < 0 || c.SlowBy >= c.Timeout):
		return o, fmt.Errorf("--slow-by %v; hint: from 0s, and less than --timeout %v, or no slow caller would have an answer", c.SlowBy, c.Timeout)
	}
	if _, err := c.entries(0); err != nil {
		return o, err
	}
	return o, o.Validate()
}

// entries are those of the descriptor of a key.
func (c *loadCmd) entries(key int) ([]descriptor.Entry, error) {
	text := strings.ReplaceAll(c.Descriptor, "{key}", strconv.Itoa(key))
	entries, err := descriptor.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("--descriptor %q: %w", text, err)
	}
	return entries, nil
}

// request is the one about a key. That it can be was found out with the first one.
func (c *loadCmd) request(key int) headgate.Request {
	entries, _ := c.entries(key)
	return headgate.Request{Domain: c.Domain, Descriptors: []headgate.Descriptor{{Entries: entries, Hits: c.Hits}}}
}

// Run sends, prints and judges.
func (c *loadCmd) Run(std *stdio) error {
	o, err := c.options()
	if err != nil {
		return &codeError{exitUsage, err}
	}
	var undecided allowance
	if c.MaxUndecided != "" {
		if undecided, err = parseAllowance("--max-undecided", c.MaxUndecided); err != nil {
			return &codeError{exitUsage, err}
		}
	}
	var judge *loadgen.Judge
	if c.Rules != "" {
		set, _, err := c.load(std, c.Rules)
		if err != nil {
			return err
		}
		if judge, err = loadgen.NewJudge(set, c.request); err != nil {
			return err
		}
		defer judge.Close()
		if err := c.matched(judge); err != nil {
			return err
		}
	}
	send, end, err := c.sender()
	if err != nil {
		return &codeError{exitUsage, err}
	}
	defer end()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	report := loadgen.Run(ctx, o, send)
	var buckets []loadgen.Bucket
	if judge != nil && report.Degraded == 0 {
		if buckets, err = judge.Buckets(context.WithoutCancel(ctx), report); err != nil {
			return err
		}
	}
	if err := c.tell(std.out, o, report, judge != nil, buckets); err != nil {
		return &codeError{exitUsage, err}
	}
	return c.judged(report, undecided, buckets)
}

// probedKeys is how many keys are tried to find one that a rule is for.
const probedKeys = 100

// matched refuses rules of which none is for what is asked: they would judge nothing.
func (c *loadCmd) matched(judge *loadgen.Judge) error {
	for key := range min(c.Keys, probedKeys) {
		if is, err := judge.Matches(context.Background(), key); is || err != nil {
			return err
		}
	}
	return &codeError{exitUsage, fmt.Errorf("no rule of %s is for these requests in domain %q; hint: --domain and --descriptor as the rules have them", c.Rules, c.Domain)}
}

// sender returns what asks the server, and what ends it.
func (c *loadCmd) sender() (loadgen.Sender, func(), error) {
	u, err := url.Parse(c.Addr)
	if err != nil || u.Host == "" {
		return nil, nil, fmt.Errorf("--addr %q is not an address; hint: http://127.0.0.1:8080 or grpc://127.0.0.1:8081", c.Addr)
	}
	switch {
	case u.User != nil:
		return nil, nil, errors.New("--addr: it has a name or a password, which would not be shown to a headgate; hint: --token-file")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, nil, fmt.Errorf("--addr %q: nothing comes of what is behind ? or #; hint: http://127.0.0.1:8080", c.Addr)
	}
	switch u.Scheme {
	case "http", "https":
		return c.overHTTP(u)
	case "grpc", "grpcs":
		if u.Port() == "" || strings.Trim(u.Path, "/") != "" {
			return nil, nil, fmt.Errorf("--addr %q: over gRPC it is a host and a port alone; hint: %s://127.0.0.1:8081", c.Addr, u.Scheme)
		}
		return c.overGRPC(u)
	}
	return nil, nil, fmt.Errorf("--addr: %q is no way to ask; hint: http, https, grpc or grpcs", u.Scheme)
}

// within bounds the wait for an answer.
func (c *loadCmd) within(send loadgen.Sender) loadgen.Sender {
	return func(ctx context.Context, key int) loadgen.Answer {
		ctx, cancel := context.WithTimeout(ctx, c.Timeout)
		defer cancel()
		return send(ctx, key)
	}
}

func (c *loadCmd) overHTTP(u *url.URL) (loadgen.Sender, func(), error) {
	transport, err := c.transport(u)
	if err != nil {
		return nil, nil, err
	}
	transport.MaxIdleConnsPerHost, transport.MaxResponseHeaderBytes = c.UnderWay, loadgen.MaxHeader
	target := strings.TrimSuffix(u.String(), "/") + "/v1/check"
	shown, err := http.NewRequest(http.MethodPost, target, http.NoBody)
	if err == nil {
		err = c.show(shown, false)
	}
	if err != nil {
		return nil, nil, err
	}
	shown.Header.Set("Content-Type", "application/json")
	h := &loadgen.OverHTTP{
		Client: &http.Client{Transport: transport, CheckRedirect: stay}, Body: c.body, Slow: everySo(c.Slow), Pause: c.SlowBy,
		Request: func(ctx context.Context, _ int, body io.Reader) (*http.Request, error) {
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, target, body)
			if err == nil {
				r.Header = shown.Header.Clone()
			}
			return r, err
		},
	}
	return c.within(h.Send), h.Client.CloseIdleConnections, nil
}

// everySo returns what is true for a share of its calls.
func everySo(share float64) func() bool {
	var calls atomic.Int64
	return func() bool {
		n := float64(calls.Add(1))
		return int64(n*share) > int64((n-1)*share)
	}
}

// body is that of /v1/check about a key.
func (c *loadCmd) body(key int) []byte {
	d := checkDescriptor{Hits: &c.Hits}
	for _, e := range c.request(key).Descriptors[0].Entries {
		d.Entries = append(d.Entries, checkEntry(e))
	}
	text, err := json.Marshal(checkRequest{Domain: c.Domain, Descriptors: []checkDescriptor{d}})
	if err != nil {
		panic(err) // texts and a number
	}
	return text
}

func (c *loadCmd) overGRPC(u *url.URL) (loadgen.Sender, func(), error) {
	if c.Hits > loadgen.MaxHits {
		return nil, nil, fmt.Errorf("--hits %d; hint: over gRPC %d at most", c.Hits, int64(loadgen.MaxHits))
	}
	if c.Slow > 0 {
		return nil, nil, errors.New("--slow: over gRPC a request is sent whole; hint: http")
	}
	// The same token and files as over HTTP, by the schemes of that.
	like := *u
	like.Scheme = strings.Replace(u.Scheme, "grpc", "http", 1)
	transport, err := c.transport(&like)
	if err != nil {
		return nil, nil, err
	}
	shown := &http.Request{URL: &like, Header: http.Header{}}
	if err := c.show(shown, false); err != nil {
		return nil, nil, err
	}
	g, err := loadgen.NewOverGRPC(u.Host, transport.TLSClientConfig)
	if err != nil {
		return nil, nil, fmt.Errorf("--addr: %w", err)
	}
	g.Request, g.Token = c.request, strings.TrimPrefix(shown.Header.Get("Authorization"), "Bearer ")
	return c.within(g.Send), func() { g.Close() }, nil
}

// tell prints the report.
func (c *loadCmd) tell(w io.Writer, o loadgen.Options, r *loadgen.Report, judged bool, buckets []loadgen.Bucket) error {
	return printReport(w, c.JSON, loadgen.Document(o, r, buckets), func(w io.Writer) error {
		loadgen.WriteText(w, o, r, judged, buckets)
		return nil
	})
}

// judged returns what the exit code says. A run that was to find something out and could not is no
// success.
func (c *loadCmd) judged(r *loadgen.Report, most allowance, buckets []loadgen.Bucket) error {
	undecided, all := r.Undecided(), r.Sent+r.Unsent
	switch {
	case r.Decided == 0:
		return &codeError{exitUsage, c.undecided(r)}
	case len(buckets) > 0 && buckets[0].Broken():
		return &codeError{exitNo, nil}
	case c.MaxUndecided != "" && most.exceeded(int64(undecided), int64(all)):
		return &codeError{exitNo, fmt.Errorf("load %s: %d of %d requests are undecided, more than --max-undecided %s: %d were not sent, %d had no answer that decides, %d were decided without the store; hint: see the answers in the report, and headgate_store_errors_total of the server",
			c.Addr, undecided, all, c.MaxUndecided, r.Unsent, r.Sent-r.Decided, r.Degraded)}
	case c.Rules != "" && r.Degraded > 0:
		return &codeError{exitUsage, fmt.Errorf("load %s: bounds are not judged, because the store did not decide %d of %d; hint: find out why by headgate_store_errors_total of the server, or leave --rules out", c.Addr, r.Degraded, r.Decided)}
	case c.Rules != "" && len(buckets) == 0 && r.TotalAllowed() > 0:
		return &codeError{exitUsage, fmt.Errorf("load %s: no limit of %s for these requests can be judged; hint: docs/load.md says which are not", c.Addr, c.Rules)}
	}
	return nil
}

// undecided says why nothing was decided.
func (c *loadCmd) undecided(r *loadgen.Report) error {
	switch {
	case r.Err == nil && r.Sent == 0:
		return fmt.Errorf("load %s: nothing was sent before the run was ended", c.Addr)
	case errors.Is(r.Err, context.Canceled):
		return fmt.Errorf("load %s: nothing was decided before the run was ended", c.Addr)
	case r.Err != nil:
		return fmt.Errorf("load %s: nothing was decided: %s; hint: %s", c.Addr, whyNone(r.Err), unreachedHint(r.Err))
	}
	return fmt.Errorf("load %s: nothing was decided; hint: is a headgate listening there, and may this caller ask?", c.Addr)
}

// maxWhy bounds what is told of an error, in bytes: a server that is asked may have written most of it.
const maxWhy = 300

// whyNone says why there was no answer, on one line.
func whyNone(err error) string {
	why := oneLine(hideurl.In(err).Error())
	if len(why) > maxWhy {
		why = strings.ToValidUTF8(why[:maxWhy], "") + "..."
	}
	return why
}
