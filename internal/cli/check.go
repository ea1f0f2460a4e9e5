package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/hideurl"
)

type checkCmd struct {
	Addr    string        `default:"http://127.0.0.1:8080" placeholder:"URL" help:"The HTTP address of the headgate to ask: http://host:port, or unix:///path."`
	Timeout time.Duration `default:"2s" env:"-" help:"Longest wait for the answer."`
	JSON    bool          `name:"json" env:"-" help:"Print the answer as it came."`

	callerFlags `embed:""`

	Domain      string   `env:"-" help:"Ask by the rules of this domain."`
	ExpectRule  bool     `env:"-" help:"End with 3 when no rule applied, so that a slip in a domain or a key is no success."`
	Descriptors []string `arg:"" optional:"" name:"descriptor" help:"Descriptors of the request: 'key:value,key:value'."`
	Hits        *int64   `env:"-" help:"What the request costs; 0 only looks. Default: 1."`

	Key       string        `env:"-" help:"Ask by a limit given here, for this key."`
	Limit     *int64        `env:"-" help:"The limit: hits in a window."`
	Window    time.Duration `env:"-" help:"The window of the limit."`
	Algorithm string        `env:"-" help:"The algorithm of the limit. Default: sliding_window."`
	Burst     int64         `env:"-" help:"The burst of the limit, for algorithms that have one."`
}

// Help implements kong.HelpProvider.
func (*checkCmd) Help() string {
	return `Examples:

  headgate check --domain api_platform 'api_key:abc123,endpoint:POST /api/v1/orders'
      By the rules of the server.

  headgate check --key user:42 --limit 3 --window 1m
      By a limit of your own; no rule is needed.

  headgate check --domain api_platform --hits 0 api_key:abc123 && echo there is room
      Look, and count nothing.

  headgate check --addr https://headgate:8080 --server-ca ca.pem --token-file token --domain api user:42
      Ask a server that wants a token. HEADGATE_TOKEN in the environment may hold it too;
      no flag does, because other programs see those.

  headgate check --domain api_platform --expect-rule --hits 0 api_key:abc123
      Is there a rule for it at all? End with 3 where there is none.

The exit code is 0 when the request may pass, 1 when it may not, and 2 when
there is no answer. A request that no rule limits may pass as well: then the
answer says "no rule applied", and with --expect-rule the exit code is 3.`
}

// maxAnswerBytes bounds what is read of an answer.
const maxAnswerBytes = 1 << 20

// checkRequest is the body of POST /v1/check in either form.
type checkRequest struct {
	Domain      string            `json:"domain,omitempty"`
	Descriptors []checkDescriptor `json:"descriptors,omitempty"`

	Key       string `json:"key,omitempty"`
	Limit     *int64 `json:"limit,omitempty"`
	WindowMS  int64  `json:"window_ms,omitempty"`
	Hits      *int64 `json:"hits,omitempty"`
	Algorithm string `json:"algorithm,omitempty"`
	Burst     int64  `json:"burst,omitempty"`
}

type checkDescriptor struct {
	Entries []checkEntry `json:"entries"`
	Hits    *int64       `json:"hits,omitempty"`
}

type checkEntry struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// checkAnswer is the answer to it. What is nil was not said; an answer that
// does not say whether the request is allowed is none.
type checkAnswer struct {
	Allowed    *bool  `json:"allowed"`
	Limit      *int64 `json:"limit"`
	Remaining  *int64 `json:"remaining"`
	ResetMS    *int64 `json:"reset_ms"`
	RetryAfter *int64 `json:"retry_after_s"`
	// Matched says whether any rule applied; nil from a server that does not say it.
	Matched *bool  `json:"matched"`
	Rule    string `json:"rule"`
	// Tier and Source are there where the limit is that of a tenant.
	Tier     string `json:"tier"`
	Source   string `json:"source"`
	Degraded string `json:"degraded"`
}

// Run asks once.
func (c *checkCmd) Run(std *stdio) error {
	request, err := c.request()
	if err != nil {
		return &codeError{exitUsage, err}
	}
	raw, err := c.ask(request)
	if err != nil {
		return &codeError{exitUsage, err}
	}
	var answer checkAnswer
	err = json.Unmarshal(raw, &answer)
	if err == nil && answer.Allowed == nil {
		err = errors.New("it does not say whether the request is allowed")
	}
	if err != nil {
		return &codeError{exitUsage, fmt.Errorf("read the answer of %s: %w; hint: is a headgate listening there?", c.Addr, err)}
	}
	text := answer.String() + "\n"
	if c.JSON {
		text = string(raw)
	}
	if _, err := io.WriteString(std.out, text); err != nil {
		return &codeError{exitUsage, err}
	}
	switch {
	case !*answer.Allowed:
		return &codeError{exitNo, nil}
	case c.ExpectRule && answer.Matched == nil:
		return &codeError{exitUsage, errors.New("--expect-rule: the server does not say whether a rule applied; hint: one of this version does")}
	case c.ExpectRule && !*answer.Matched:
		return &codeError{exitUnmatched, nil}
	}
	return nil
}

// request makes the body from the flags.
func (c *checkCmd) request() (*checkRequest, error) {
	switch {
	case c.Domain != "" && c.Key == "":
		return c.byRules()
	case c.Key != "" && c.Domain == "":
		return c.byLimit()
	}
	return nil, errors.New("ask either by rules or by a limit; hint: --domain D 'key:value', or --key K --limit N --window 1m")
}

func (c *checkCmd) byRules() (*checkRequest, error) {
	if len(c.Descriptors) == 0 {
		return nil, errors.New("no descriptor; hint: headgate check --domain D 'key:value,key:value'")
	}
	if c.Limit != nil || c.Window != 0 || c.Algorithm != "" || c.Burst != 0 {
		return nil, errors.New("--limit, --window, --algorithm and --burst go with --key; hint: with --domain the rules say them")
	}
	r := &checkRequest{Domain: c.Domain}
	for _, text := range c.Descriptors {
		entries, err := descriptor.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("descriptor %q: %w", text, err)
		}
		d := checkDescriptor{Hits: c.Hits}
		for _, e := range entries {
			d.Entries = append(d.Entries, checkEntry(e))
		}
		r.Descriptors = append(r.Descriptors, d)
	}
	return r, nil
}

func (c *checkCmd) byLimit() (*checkRequest, error) {
	if c.Limit == nil || c.Window <= 0 || len(c.Descriptors) > 0 {
		return nil, errors.New("--key needs --limit and --window, and takes no descriptors; hint: --key user:42 --limit 3 --window 1m")
	}
	if c.ExpectRule {
		return nil, errors.New("--expect-rule goes with --domain; hint: with --key no rule is asked")
	}
	if c.Window%time.Millisecond != 0 {
		return nil, fmt.Errorf("--window %v is not in whole milliseconds", c.Window)
	}
	return &checkRequest{
		Key: c.Key, Limit: c.Limit, WindowMS: c.Window.Milliseconds(), Hits: c.Hits, Algorithm: c.Algorithm, Burst: c.Burst,
	}, nil
}

// ask posts the request and returns the body of an answer that decides.
func (c *checkCmd) ask(request *checkRequest) ([]byte, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	client, target, err := c.client()
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), c.Timeout)
	defer cancel()
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	post.Header.Set("Content-Type", "application/json")
	if err := c.show(post, strings.HasPrefix(c.Addr, "unix://")); err != nil {
		return nil, err
	}
	response, err := client.Do(post)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w; hint: %s", c.Addr, hideurl.In(err), unreachedHint(err))
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes))
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", c.Addr, err)
	}
	switch response.StatusCode {
	case http.StatusOK, http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return raw, nil
	}
	return nil, fmt.Errorf("ask %s: %w", c.Addr, checkProblem(response.Status, raw))
}

// checkProblem makes an answer that decides nothing an error: of its problem where it has one.
func checkProblem(status string, raw []byte) error {
	var p struct{ Detail, Hint string }
	if json.Unmarshal(raw, &p) != nil || p.Detail == "" {
		p.Detail, p.Hint = string(bytes.TrimSpace(raw)), ""
	}
	return fmt.Errorf("%s: %s", oneLine(status), told(p.Detail, p.Hint))
}

// client returns a client for --addr, and the URL to post to.
func (c *checkCmd) client() (*http.Client, string, error) {
	const path = "/v1/check"
	if socket, ok := strings.CutPrefix(c.Addr, "unix://"); ok {
		return &http.Client{Transport: &http.Transport{DialContext: dialTo("unix", socket)}, CheckRedirect: stay}, "http://headgate" + path, nil
	}
	u, err := url.Parse(c.Addr)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, "", fmt.Errorf("--addr %q is not an address; hint: http://127.0.0.1:8080 or unix:///run/headgate.sock", c.Addr)
	}
	transport, err := c.transport(u)
	if err != nil {
		return nil, "", err
	}
	return &http.Client{Transport: transport, CheckRedirect: stay}, strings.TrimSuffix(u.String(), "/") + path, nil
}

// String says the answer in one line.
func (a *checkAnswer) String() string {
	var b strings.Builder
	b.WriteString("denied")
	if *a.Allowed {
		b.Reset()
		b.WriteString("allowed")
	}
	if a.Matched != nil && !*a.Matched {
		b.WriteString(", no rule applied")
	}
	if a.Remaining != nil && a.Limit != nil {
		fmt.Fprintf(&b, ", %d of %d remaining", *a.Remaining, *a.Limit)
	}
	if a.ResetMS != nil {
		fmt.Fprintf(&b, ", reset in %v", time.Duration(*a.ResetMS)*time.Millisecond)
	}
	switch {
	case *a.Allowed:
	case a.RetryAfter == nil:
		b.WriteString(", never to be allowed at once")
	default:
		fmt.Fprintf(&b, ", retry after %ds", *a.RetryAfter)
	}
	if a.Rule != "" {
		fmt.Fprintf(&b, ", by rule %s", a.Rule)
	}
	if a.Source != "" {
		fmt.Fprintf(&b, ", source %s", a.Source)
	}
	if a.Tier != "" {
		fmt.Fprintf(&b, ", tier %s", a.Tier)
	}
	if a.Degraded != "" {
		fmt.Fprintf(&b, ", degraded: %s", a.Degraded)
	}
	return b.String()
}

// unreachedHint says what may be the matter where a server gives no answer.
func unreachedHint(err error) string {
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var alert tls.AlertError
	// Of an error that gRPC passes on only the words are left.
	says := func(words string) bool { return strings.Contains(err.Error(), "x509: "+words) }
	switch {
	case errors.As(err, &authority), says("certificate signed by unknown authority"):
		return "--server-ca FILE, with the authority that has signed the certificate of the server"
	case errors.As(err, &name), says("certificate is valid for"), says("cannot validate certificate for"):
		return "ask by a name that is in the certificate of the server"
	case errors.As(err, &alert), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET):
		return "the server may ask for a certificate: --client-cert FILE and --client-key FILE"
	case strings.Contains(err.Error(), "no rate limit configuration loaded"): // as Envoy is told, too
		return "it has no rules in force; its log says why"
	}
	return "is `headgate serve` running there?"
}
