package proxy

import (
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/ascii"
	"github.com/headgate/headgate/internal/httpanswer"
)

// Options configures a Proxy. The zero value of each field but To is usable.
type Options struct {
	// To is the backend: http or https, a host, and perhaps a path that goes
	// before those of requests. Required.
	To *url.URL
	// RewriteHost sends the host of To as Host. Without it the backend sees the
	// Host that the client sent.
	RewriteHost bool
	// Timeout bounds the time from the end of a request to the header of its
	// answer, 0 not at all. What comes after the header takes as long as it takes.
	Timeout time.Duration
	// MaxBody bounds the body of a request in bytes; 0 means no bound.
	MaxBody int64
	// Wrap puts what may answer in place of the backend around the handler that
	// forwards; nil puts nothing there.
	Wrap func(http.Handler) http.Handler
	// PeerTrusted says whether what the peer of a request writes about earlier
	// hops is believed; nil believes nobody.
	PeerTrusted func(*http.Request) bool
	// Identifying are names of header fields by which requests say who asks. No trailer may
	// have them, where limits do not see them.
	Identifying []string
	// Errors is the shape of the bodies of 4xx and 5xx that the proxy answers.
	Errors httpanswer.Body
	// OnTrouble, when not nil, is told why the backend did not answer a request.
	// It must not block.
	OnTrouble func(error)
	// OnBackend, when not nil, is told how long the backend took to begin each
	// answer. It must not block.
	OnBackend func(time.Duration)
	// ErrorLog gets what package httputil has to say; nil drops it.
	ErrorLog *log.Logger
}

// Proxy forwards requests. It is safe for concurrent use. Make one with New, and
// end it with Shutdown.
type Proxy struct {
	options   Options
	transport *http.Transport
	reverse   httputil.ReverseProxy
	handler   http.Handler
	faults    faultBodies
	// notTrailing are the fields that no trailer may have, by their names in lower case.
	notTrailing map[string]bool
	upgrades    upgrades

	inFlight atomic.Int64
	counts   [outcomes]atomic.Uint64
}

// New returns a Proxy. Nothing is dialed yet.
func New(o Options) (*Proxy, error) {
	if err := checkTarget(o.To); err != nil {
		return nil, fmt.Errorf("new proxy: %w", err)
	}
	if o.Timeout < 0 || o.MaxBody < 0 {
		return nil, errors.New("new proxy: a bound below 0; hint: 0 is no bound")
	}
	p := &Proxy{options: o, transport: newTransport(o.Timeout), faults: newFaultBodies(o.Errors), notTrailing: notTrailingWith(o.Identifying)}
	p.reverse = httputil.ReverseProxy{
		Rewrite:        p.rewrite,
		Transport:      p.roundTripper(),
		ModifyResponse: p.began,
		ErrorHandler:   p.failed,
		ErrorLog:       o.ErrorLog,
		BufferPool:     &buffers{},
		FlushInterval:  flushInterval,
	}
	if p.reverse.ErrorLog == nil {
		p.reverse.ErrorLog = log.New(discard{}, "", 0)
	}
	p.handler = http.HandlerFunc(p.forward)
	if o.Wrap != nil {
		p.handler = o.Wrap(p.handler)
	}
	return p, nil
}

// discard is io.Discard for a log, which would format its lines for that.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// checkTarget refuses what cannot be a backend. Its errors do not quote the URL,
// which may hold a password.
func checkTarget(to *url.URL) error {
	switch {
	case to == nil:
		return errors.New("no backend; hint: http://localhost:9000")
	case to.Scheme != "http" && to.Scheme != "https", to.Host == "", to.Opaque != "":
		return errors.New("the backend is no URL of http or https; hint: http://localhost:9000")
	case to.User != nil:
		return errors.New("the backend has a user in its URL; hint: credentials are those of the requests, leave it out")
	case to.RawQuery != "" || to.Fragment != "":
		return errors.New("the backend has a query or a fragment in its URL; hint: leave it out")
	}
	return nil
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.inFlight.Add(1)
	defer p.inFlight.Add(-1)
	if !forwardable(r) {
		p.fault(w, r, notForwarded)
		return
	}
	if r.ProtoMajor == 1 {
		dropHopByHop(r.Header)
		if r.ProtoMinor == 0 {
			dropNewer(r.Header)
		}
	}
	if r.Body == nil || r.Body == http.NoBody {
		p.handler.ServeHTTP(w, r)
		return
	}
	p.serveBody(w, r)
}

// forwardable reports whether r is no tunnel, and has a form that rules and backend read alike. In
// HTTP/2 a method may be no word, and a query may have spaces: each would end what it stands in on
// the request line of HTTP/1.
func forwardable(r *http.Request) bool {
	return r.Method != http.MethodConnect && ascii.IsToken(r.Method) && r.URL.Opaque == "" && !strings.Contains(r.URL.RawQuery, " ")
}

// forward passes a request on, once it is let in.
func (p *Proxy) forward(w http.ResponseWriter, r *http.Request) {
	returned := false
	defer func() {
		switch {
		case returned:
		case r.Context().Err() != nil:
			p.counts[left].Add(1)
		default:
			p.counts[broken].Add(1)
		}
	}()
	w = unguessed{w, r.ProtoAtLeast(1, 1)}
	if p.options.MaxBody > 0 && r.ContentLength > p.options.MaxBody {
		p.fault(w, r, tooLarge)
	} else if isUpgrade(r) {
		p.forwardUpgrade(w, r)
	} else {
		p.reverse.ServeHTTP(w, r)
	}
	returned = true
}

// leastStatus is the least that net/http writes. It reads any three digits, and panics if it is to
// write less than this.
const leastStatus = 100

// began is told of the header of every answer of the backend.
func (p *Proxy) began(res *http.Response) error {
	if res.StatusCode < leastStatus {
		return fmt.Errorf("the backend's answer has the status %03d, which is none", res.StatusCode)
	}
	if res.StatusCode == http.StatusSwitchingProtocols && !granted(res) {
		return errors.New("the backend switches to a protocol that the request did not ask for")
	}
	p.counts[begun].Add(1)
	if b := bodyOf(res.Request.Context()); b != nil {
		b.answered(res.StatusCode)
	}
	return nil
}

// Stats is what a Proxy has counted since it was made.
type Stats struct {
	// Answered counts requests that the backend answered, those among them that
	// it still answers included.
	Answered uint64
	// Broken counts answers that the backend broke off, Left requests whose
	// client went away before the end of the answer.
	Broken, Left uint64
	// Unreachable (502) and TimedOut (504) count requests that the backend did not
	// answer.
	Unreachable, TimedOut uint64
	// TooLarge (413), BadBody (400) and NotForwarded (400) count requests that
	// were not forwarded, or not to their end.
	TooLarge, BadBody, NotForwarded uint64
	// InFlight is how many requests are under way now, those that are denied or
	// held back and those that were upgraded included; Upgraded is how many of
	// these there are.
	InFlight, Upgraded int64
}

// Stats returns the counts.
func (p *Proxy) Stats() Stats {
	s := Stats{
		Broken: p.counts[broken].Load(), Left: p.counts[left].Load() + p.counts[gone].Load(),
		Unreachable: p.counts[unreachable].Load(), TimedOut: p.counts[timedOut].Load(),
		TooLarge: p.counts[tooLarge].Load(), BadBody: p.counts[badBody].Load(), NotForwarded: p.counts[notForwarded].Load(),
		InFlight: p.inFlight.Load(), Upgraded: p.upgrades.open(),
	}
	// Last, so that it is not below what is taken off.
	s.Answered = p.counts[begun].Load() - p.counts[broken].Load() - p.counts[left].Load()
	return s
}
