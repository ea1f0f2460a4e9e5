// Package adminlink asks admin processes over HTTP: the one of several addresses that
// answers.
package adminlink

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/problems"
)

const (
	// dialTimeout bounds one try to reach an address, and headerTimeout the wait for the
	// beginning of an answer: the longest is that of a long poll.
	dialTimeout   = 3 * time.Second
	headerTimeout = 75 * time.Second
	idleTimeout   = 90 * time.Second
	// maxHeader bounds the header of an answer, in bytes.
	maxHeader = 64 << 10
)

// Options configures a Link.
type Options struct {
	// URLs are the addresses, scheme and host of each. At least one.
	URLs []*url.URL
	// TLS is how the servers are checked, and what they are shown; nil is the default of
	// crypto/tls.
	TLS *tls.Config
	// OnTrouble, when not nil, is told of each failure to reach an address.
	OnTrouble func(address string, err error)
}

// Link is an http.RoundTripper that sends requests to one of several addresses, whatever
// host they name. It stays with the one that answered last. Make one with New.
type Link struct {
	options   Options
	transport *http.Transport
	current   atomic.Int64 // index of the address that is asked first
}

// New returns a Link.
func New(o Options) (*Link, error) {
	if len(o.URLs) == 0 {
		return nil, errors.New("ask admin processes: no address; hint: --admin-urls URL")
	}
	return &Link{options: o, transport: &http.Transport{
		DialContext:            (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSClientConfig:        o.TLS,
		TLSHandshakeTimeout:    dialTimeout,
		ResponseHeaderTimeout:  headerTimeout,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeader,
		ForceAttemptHTTP2:      true,
	}}, nil
}

// Close ends the connections that nobody uses.
func (l *Link) Close() { l.transport.CloseIdleConnections() }

// Next has another address asked first: what the one in use says is of no use.
func (l *Link) Next() { l.current.Add(1) }

// RoundTrip implements http.RoundTripper. A question, which changes nothing, is asked of
// the next address when one cannot be reached; of a change nobody knows then whether it
// was made, so only the next request goes elsewhere.
func (l *Link) RoundTrip(r *http.Request) (*http.Response, error) {
	question := (r.Method == http.MethodGet || r.Method == http.MethodHead) && (r.Body == nil || r.Body == http.NoBody)
	tries := 1
	if question {
		tries = len(l.options.URLs)
	}
	var problems []error
	for range tries {
		first := l.current.Load()
		to := l.options.URLs[int(first)%len(l.options.URLs)]
		response, err := l.transport.RoundTrip(directed(r, to))
		if err == nil {
			return response, nil
		}
		if r.Context().Err() != nil {
			return nil, err
		}
		if l.options.OnTrouble != nil {
			l.options.OnTrouble(to.Host, err)
		}
		problems = append(problems, fmt.Errorf("%s: %w", to.Host, err))
		l.current.CompareAndSwap(first, first+1)
	}
	return nil, errors.Join(problems...)
}

// directed returns r for an address.
func directed(r *http.Request, to *url.URL) *http.Request {
	sent := r.Clone(r.Context())
	sent.URL.Scheme, sent.URL.Host, sent.Host = to.Scheme, to.Host, to.Host
	return sent
}

// forwarded are the header fields of requests that are passed on.
var forwarded = []string{"Accept", "Authorization", "Content-Type", "Idempotency-Key", "If-Match", "If-None-Match", "Last-Event-Id", "User-Agent"}

// Forward returns a handler that passes requests on as they are, but for header fields
// that the admin API does not read, and streams the answers.
func (l *Link) Forward() http.Handler {
	return &httputil.ReverseProxy{
		Transport:     l,
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			for name := range r.Out.Header {
				if !slices.Contains(forwarded, name) {
					delete(r.Out.Header, name)
				}
			}
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			// Without the error, which names addresses that browsers need not know; the log has it.
			w.Header().Set("Retry-After", "1")
			problems.Answer(w, http.StatusBadGateway, "no admin process of --admin-urls answers")
		},
	}
}
