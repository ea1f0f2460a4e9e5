package promhistory

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/hideurl"
)

const (
	// Timeout bounds how long all questions of one reading may take, waiting for a turn included.
	Timeout = 20 * time.Second
	// maxAtOnce bounds the readings at one time.
	maxAtOnce = 2
	// maxAnswer bounds an answer in bytes: six outcomes at a thousand steps have 250 KiB at most.
	maxAnswer = 1 << 20
	// maxHeader bounds the header of an answer in bytes.
	maxHeader = 64 << 10
)

// Options say where Prometheus is.
type Options struct {
	// URL is its address over http or https, with a path in front of /api/v1 where it has one.
	URL *url.URL
	// Token returns a bearer token; nil: none is shown. Its errors are told to whoever asks.
	Token func() (string, error)
	// Layer is the label layer of the nodes that are summed up; "": of all.
	Layer string
}

// Reader asks one Prometheus. It is safe for use by several at once.
type Reader struct {
	options Options
	client  *http.Client
	turns   chan struct{}
}

// New returns a Reader, which asks nothing yet.
func New(o Options) *Reader {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, MaxConnsPerHost: maxAtOnce,
		IdleConnTimeout: 30 * time.Second, MaxResponseHeaderBytes: maxHeader,
	}
	return &Reader{options: o, turns: make(chan struct{}, maxAtOnce), client: &http.Client{
		Transport: transport,
		// A token goes where it was meant to go and nowhere else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close ends connections that wait for a next question.
func (r *Reader) Close() { r.client.CloseIdleConnections() }

// Trouble is why there is no history, with what to do about it. It holds no password and no token.
type Trouble struct {
	// Kind says whose matter it is.
	Kind Kind
	text string
}

// Kind is whose matter a Trouble is.
type Kind int

const (
	// Away is a Prometheus that does not answer, or answers what it should not.
	Away Kind = iota
	// Busy is this process, which asks for others.
	Busy
	// Unknown is a time or a node that Prometheus knows nothing of.
	Unknown
)

// Error implements error.
func (t *Trouble) Error() string { return t.text }

func trouble(kind Kind, format string, args ...any) *Trouble {
	return &Trouble{kind, fmt.Sprintf(format, args...)}
}

// ask puts one question and returns the answer.
func (r *Reader) ask(ctx context.Context, query string, at asked) ([]byte, error) {
	form := url.Values{
		"query": {query}, "step": {strconv.FormatInt(at.step, 10)}, "timeout": {Timeout.String()},
		"start": {strconv.FormatInt(at.first, 10)}, "end": {strconv.FormatInt(at.first+at.step*int64(at.count-1), 10)},
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.options.URL.JoinPath("api/v1/query_range").String(), strings.NewReader(form.Encode()))
	if err != nil {
		return nil, trouble(Away, "no question can be made for Prometheus; hint: look at --prometheus-url")
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Accept", "application/json")
	if r.options.Token != nil {
		token, err := r.options.Token()
		if err != nil {
			return nil, trouble(Away, "the token for Prometheus: %v; hint: --prometheus-token-file", err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := r.client.Do(request)
	if err != nil {
		return nil, unreached(err)
	}
	defer response.Body.Close()
	if bad := refused(response); bad != nil {
		return nil, bad
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, unreached(err)
	case len(body) > maxAnswer:
		return nil, trouble(Away, "the answer of Prometheus has more than %d bytes; hint: is --prometheus-url the address of a Prometheus?", maxAnswer)
	}
	return body, nil
}

// unreached says that no answer came.
func unreached(err error) *Trouble {
	if errors.Is(err, context.DeadlineExceeded) {
		return trouble(Away, "Prometheus has not answered within %v; hint: ask for less, or look whether it has too much to do", Timeout)
	}
	return trouble(Away, "Prometheus does not answer: %v; hint: is it running, and is --prometheus-url its address?", hideurl.In(err))
}

// refused says what is wrong with an answer that is none, nil if nothing is. What stands in its body is
// not told: whoever has written it may repeat what it was sent.
func refused(response *http.Response) *Trouble {
	switch code := response.StatusCode; {
	case code == http.StatusOK:
		return nil
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return trouble(Away, "Prometheus refuses who asks (%d); hint: a token in --prometheus-token-file, or user and password in --prometheus-url", code)
	case code == http.StatusNotFound || code/100 == 3:
		return trouble(Away, "there is no Prometheus (%d); hint: --prometheus-url is what stands before /api/v1/query_range", code)
	case code == http.StatusUnprocessableEntity || code == http.StatusServiceUnavailable:
		return trouble(Away, "Prometheus could not work the answer out (%d); hint: ask for less, or raise its --query.timeout and --query.max-samples", code)
	default:
		return trouble(Away, "Prometheus answers with %d; hint: its log says more", code)
	}
}
