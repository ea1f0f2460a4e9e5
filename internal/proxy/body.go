package proxy

import (
	"context"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// keptUnread bounds the bodies, in bytes, that the server reads and drops
	// when nobody wanted them, so that the connection can be used again. After an
	// answer to a longer one, or one of unknown length, the connection ends.
	keptUnread = 64 << 10
	// lingering is how long the rest of a body may take that nobody wants.
	lingering = time.Second
)

// body is the body of a request, and knows whether all of it was read when the
// answer begins. What is left of it then must not hold up the answer: by itself,
// net/http waits for the rest before it writes the header, in the belief that
// clients write all before they read. So it is told that the connection ends
// with this answer, and sends at once; a client that reads while it writes gets
// a stream in both directions.
type body struct {
	io.ReadCloser
	reading sync.Mutex  // held while the client is read from
	left    int64       // what may still come, if beyond is not nil
	beyond  error       // of reading more than that, an *http.MaxBytesError; nil: no bound
	ended   atomic.Bool // read to its end
	failed  atomic.Bool // the client broke off, or sent what is no body

	// answer is the header of the answer; nil where connections carry more
	// than one request at a time.
	answer http.Header
	// closes says that the end of the connection in answer is ours.
	closes bool
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	b.reading.Lock()
	defer b.reading.Unlock()
	n, err := b.ReadCloser.Read(p)
	if b.beyond != nil {
		if b.left -= int64(n); b.left < 0 {
			return 0, b.beyond
		}
	}
	switch err {
	case nil:
	case io.EOF:
		b.ended.Store(true)
	default:
		b.failed.Store(true)
	}
	return n, err
}

var closeConnection = []string{"close"}

// close makes the answer say that the connection ends with it.
func (b *body) close() {
	if b.answer != nil && len(b.answer["Connection"]) == 0 {
		b.answer["Connection"], b.closes = closeConnection, true
	}
}

// answered is told the status of the answer right before its header is sent.
func (b *body) answered(status int) {
	switch {
	case !b.ended.Load() && status != http.StatusSwitchingProtocols:
		b.close()
	case b.closes:
		delete(b.answer, "Connection")
	}
}

// serveBody serves a request with a body.
func (p *Proxy) serveBody(w http.ResponseWriter, r *http.Request) {
	b := &body{ReadCloser: r.Body}
	if bound := p.options.MaxBody; bound > 0 {
		b.left, b.beyond = bound, &http.MaxBytesError{Limit: bound}
	}
	if r.ProtoMajor == 1 {
		b.answer = w.Header()
		if r.ContentLength < 0 || r.ContentLength > keptUnread {
			b.close() // should it be answered unread
		}
		defer func() {
			if !b.ended.Load() {
				b.linger(http.NewResponseController(w))
			}
		}()
	}
	r = r.WithContext(&bodyContext{r.Context(), b})
	r.Body = b
	p.handler.ServeHTTP(w, r)
}

// linger bounds the time for the rest of the body, once the answer is complete. The transport may
// still be reading for a backend that wants no more of it. That read ends first: net/http would
// end it by a deadline of its own, and then take away any deadline that there is.
func (b *body) linger(client *http.ResponseController) {
	// An error means that there is nothing left to wait for.
	if client.SetReadDeadline(time.Unix(1, 0)) != nil {
		return
	}
	b.reading.Lock()
	defer b.reading.Unlock()
	_ = client.SetReadDeadline(time.Now().Add(lingering))
}

// bodyContext carries a body to where only the context of its request is known.
type bodyContext struct {
	context.Context
	body *body
}

type bodyKey struct{}

// Value implements context.Context.
func (c *bodyContext) Value(key any) any {
	if _, ok := key.(bodyKey); ok {
		return c.body
	}
	return c.Context.Value(key)
}

// bodyOf returns the body of the request that ctx belongs to; nil if it has none.
func bodyOf(ctx context.Context) *body {
	b, _ := ctx.Value(bodyKey{}).(*body)
	return b
}
