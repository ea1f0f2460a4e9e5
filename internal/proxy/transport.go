package proxy

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// Bounds of connections to the backend.
const (
	dialTimeout = 5 * time.Second
	// idleConnections is how many connections without a request are kept: as many
	// as were in use a moment ago are needed again in the next.
	idleConnections = 1024
	// idleConnectionTimeout is below the time after which most servers close such
	// a connection, so that no request meets the end of one.
	idleConnectionTimeout = 30 * time.Second
	// continueTimeout is how long a body waits for the backend to ask for it.
	continueTimeout = time.Second
	// maxAnswerHeader bounds the header of an answer, in bytes.
	maxAnswerHeader = 1 << 20
)

// flushInterval bounds how long a beginning of an answer, or of what comes next of it, waits here
// for more. Answers whose length nobody has named, and events, never wait.
const flushInterval = 100 * time.Millisecond

// newTransport returns the way to the backend. It asks for no compression by
// itself, and no settings of the environment send it elsewhere.
func newTransport(timeout time.Duration) *http.Transport {
	dialer := &net.Dialer{Timeout: dialTimeout}
	return &http.Transport{
		DialContext:            dialer.DialContext,
		DisableCompression:     true,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    idleConnections,
		IdleConnTimeout:        idleConnectionTimeout,
		TLSHandshakeTimeout:    dialTimeout,
		ResponseHeaderTimeout:  timeout,
		ExpectContinueTimeout:  continueTimeout,
		MaxResponseHeaderBytes: maxAnswerHeader,
	}
}

// roundTripper returns the transport, timed where somebody wants to know.
func (p *Proxy) roundTripper() http.RoundTripper {
	if p.options.OnBackend == nil {
		return p.transport
	}
	return timed{p.transport, p.options.OnBackend}
}

// timed tells how long answers take to begin.
type timed struct {
	http.RoundTripper
	tell func(time.Duration)
}

// RoundTrip implements http.RoundTripper.
func (t timed) RoundTrip(r *http.Request) (*http.Response, error) {
	begin := time.Now()
	res, err := t.RoundTripper.RoundTrip(r)
	if err == nil {
		t.tell(time.Since(begin))
	}
	return res, err
}

// bufferSize is how much of an answer is copied at a time, in bytes.
const bufferSize = 32 << 10

// buffers lends the buffers by which answers are copied.
type buffers struct{ pool sync.Pool }

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte {
	if kept, ok := b.pool.Get().(*[bufferSize]byte); ok {
		return kept[:]
	}
	return make([]byte, bufferSize)
}

// Put implements httputil.BufferPool.
func (b *buffers) Put(buffer []byte) {
	if len(buffer) == bufferSize {
		b.pool.Put((*[bufferSize]byte)(buffer))
	}
}
