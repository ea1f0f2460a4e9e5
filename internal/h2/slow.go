package h2

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// slowStream is a stream that an http.Handler answers. What it has is guarded by the mutex
// of the connection.
type slowStream struct {
	c      *conn
	s      *stream
	ctx    context.Context
	cancel context.CancelFunc
	// changed says that something below has changed, or the windows have.
	changed *sync.Cond
	// unread is what has come of the body, ended that no more comes, and aborted that
	// nobody wants the answer. closed says that the handler reads no more, and over that it
	// has returned: the stream is that of another call then.
	unread                       []byte
	ended, aborted, closed, over bool
	trailer                      *http.Header
	request                      *http.Request
	// messages follows what comes, if it is gRPC.
	messages messages
	// stall ends an answer that waits for a window, nil while none does; waits is how many
	// such waits are over.
	stall *time.Timer
	waits int
}

// slowDown hands a stream to the handler of slow ones, with what has come of its body.
func (c *conn) slowDown(s *stream) {
	body := int64(len(s.body))
	if c.server.slowBytes.Load()+body > c.server.Limits.SlowBytes {
		c.resetStream(s.id, refusedStream)
		return
	}
	c.server.count(SlowStreams, 1)
	c.slow++
	w := &slowStream{c: c, s: s, changed: sync.NewCond(&c.mu)}
	w.ctx, w.cancel = context.WithCancel(c.ctx)
	request, err := w.newRequest()
	if err != nil {
		w.cancel()
		c.slow--
		c.resetStream(s.id, protocolError)
		return
	}
	w.request = request
	s.slow = w
	w.messages.follow(s.body)
	w.add(s.body)
	c.expectNoMore(s)
	c.dropBody(len(s.body))
	s.body = s.body[:0]
	c.running++
	go w.run()
}

// add takes over what has come of the body.
func (w *slowStream) add(data []byte) {
	if w.closed || len(data) == 0 {
		return
	}
	w.c.server.slowBytes.Add(int64(len(data)))
	w.unread = append(w.unread, data...)
	w.changed.Broadcast()
}

func (w *slowStream) end() {
	w.ended = true
	w.changed.Broadcast()
}

// abort notes that nobody wants the answer.
func (w *slowStream) abort() {
	w.aborted = true
	w.cancel()
	w.changed.Broadcast()
}

// setTrailer takes over the trailer of the request.
func (w *slowStream) setTrailer(b *block) {
	for _, f := range b.fields {
		w.trailer.Add(f.Name, f.Value)
	}
}

// wakeSlow wakes the handlers that wait for a window.
func (c *conn) wakeSlow() {
	if c.slow == 0 {
		return
	}
	for _, s := range c.streams {
		if s.slow != nil {
			s.slow.changed.Broadcast()
		}
	}
}

// newRequest makes the request that the handler gets, as net/http's server does.
func (w *slowStream) newRequest() (*http.Request, error) {
	block := w.s.block
	header := make(http.Header, len(block.fields))
	for _, f := range block.fields {
		if f.Name == "cookie" && len(header["Cookie"]) > 0 {
			header["Cookie"][0] += "; " + f.Value // RFC 9113, section 8.2.3
			continue
		}
		header.Add(f.Name, f.Value)
	}
	header.Del("Host")
	target, err := url.ParseRequestURI(block.path)
	if err != nil {
		return nil, err
	}
	trailer := make(http.Header)
	r := &http.Request{
		Method: block.method, URL: target, Header: header, Trailer: trailer,
		Proto: "HTTP/2.0", ProtoMajor: 2, ContentLength: w.s.declared,
		Host: block.host(), RequestURI: block.path, RemoteAddr: w.c.nc.RemoteAddr().String(),
		Body: body{w}, TLS: tlsState(w.c.nc),
	}
	w.trailer = &r.Trailer
	return r.WithContext(w.ctx), nil
}

// run has the handler answer, and ends the stream.
func (w *slowStream) run() {
	c := w.c
	defer c.leave()
	defer w.cancel()
	answer := &responseWriter{stream: w, header: make(http.Header)}
	panicked := w.handle(answer)
	c.mu.Lock()
	if !panicked {
		answer.finish()
	} else if !w.aborted && !c.closed {
		c.out = appendReset(c.out, w.s.id, internalError)
		w.s.reset = true
	}
	if !w.s.ended && !w.s.reset && !c.closed { // it needs no more of the body
		c.out = appendReset(c.out, w.s.id, noError)
		w.s.reset = true
	}
	w.discard()
	w.goesOn()
	w.over = true
	c.earn()
	c.release(w.s)
	c.mu.Unlock()
	c.flush(time.Now())
}

// handle calls the handler, and reports whether it panicked.
func (w *slowStream) handle(answer *responseWriter) (panicked bool) {
	defer func() {
		if cause := recover(); cause != nil {
			panicked = true
			if err, ok := cause.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
				w.c.server.panicked(cause, debug.Stack())
			}
		}
	}()
	w.c.server.Slow.ServeHTTP(answer, w.request)
	return false
}

// discard forgets what nobody has read.
func (w *slowStream) discard() {
	w.closed = true
	w.c.server.slowBytes.Add(-int64(len(w.unread)))
	w.unread = nil
	w.changed.Broadcast()
}

// body is the body of a slow request.
type body struct{ w *slowStream }

// Read implements io.Reader. What is read is given back to the windows.
func (b body) Read(p []byte) (n int, err error) {
	w, c := b.w, b.w.c
	c.mu.Lock()
	for len(w.unread) == 0 && !w.ended && !w.aborted && !w.closed && !c.closed {
		w.changed.Wait()
	}
	switch {
	case w.aborted || c.closed || w.closed:
		err = io.ErrUnexpectedEOF
	case len(w.unread) == 0:
		err = io.EOF
	default:
		n = copy(p, w.unread)
		w.unread = append(w.unread[:0], w.unread[n:]...)
		c.server.slowBytes.Add(-int64(n))
		w.giveBack()
	}
	c.mu.Unlock()
	if n > 0 {
		c.flush(time.Now())
	}
	return n, err
}

// giveBack credits what was received and is read, and the padding that came with it.
func (w *slowStream) giveBack() {
	s := w.s
	n := s.uncredited - len(w.unread)
	s.uncredited -= n
	w.c.credit(n)
	if w.ended || s.reset || n == 0 {
		return
	}
	s.window += n
	w.c.out = appendWindowUpdate(w.c.out, s.id, n)
}

// Close implements io.Closer.
func (b body) Close() error {
	b.w.c.mu.Lock()
	defer b.w.c.mu.Unlock()
	b.w.discard()
	return nil
}

// bufferSize is how much of an answer is gathered before it is sent.
const bufferSize = 4 << 10

// responseWriter implements http.ResponseWriter and http.Flusher. It is for the goroutine of
// the handler.
type responseWriter struct {
	stream  *slowStream
	header  http.Header
	status  int // 0 until it is written
	sent    bool
	pending []byte
	trailer []string // declared names
}

// Header implements http.ResponseWriter.
func (r *responseWriter) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter. Informational answers are left out.
func (r *responseWriter) WriteHeader(status int) {
	if r.status != 0 || status < 200 {
		return
	}
	r.status = status
	for _, names := range r.header["Trailer"] {
		for name := range strings.SplitSeq(names, ",") {
			r.trailer = append(r.trailer, http.CanonicalHeaderKey(strings.TrimSpace(name)))
		}
	}
}

// Write implements http.ResponseWriter.
func (r *responseWriter) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	if r.stream.request.Method == http.MethodHead {
		return len(p), nil
	}
	r.pending = append(r.pending, p...)
	if len(r.pending) < bufferSize {
		return len(p), nil
	}
	if err := r.send(); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Flush implements http.Flusher.
func (r *responseWriter) Flush() {
	r.WriteHeader(http.StatusOK)
	_ = r.send()
}

// send sends the head and what is gathered.
func (r *responseWriter) send() error {
	c := r.stream.c
	c.mu.Lock()
	err := r.sendLocked()
	c.mu.Unlock()
	c.flush(time.Now())
	return err
}

func (r *responseWriter) sendLocked() error {
	w, c := r.stream, r.stream.c
	r.sendHead(0)
	for len(r.pending) > 0 {
		n := min(len(r.pending), c.window, c.initial+w.s.delta, maxFrame)
		switch {
		case w.aborted || w.over || w.s.reset || c.closed || c.failed || c.broken:
			return io.ErrClosedPipe
		case n > 0 && len(c.out) <= lowOut:
			c.out = append(appendFrame(c.out, typeData, 0, w.s.id, n), r.pending[:n]...)
			c.earn() // the client says by frames of its own that it has taken this in
			c.window -= n
			w.s.delta -= n
			r.pending = append(r.pending[:0], r.pending[n:]...)
			w.goesOn()
		default:
			r.await()
		}
	}
	return nil
}

// await sends what there is, and waits until something changes.
func (r *responseWriter) await() {
	w, c := r.stream, r.stream.c
	if len(c.out) > 0 && !c.writing {
		c.mu.Unlock()
		c.flush(time.Now())
		c.mu.Lock()
		return
	}
	if len(c.out) > lowOut {
		c.room.Wait()
		return
	}
	w.waitForWindow()
}

// sendHead sends the head of the answer if that was not done.
func (r *responseWriter) sendHead(flags uint8) {
	w, c := r.stream, r.stream.c
	if r.sent || w.aborted || w.over || w.s.reset || c.closed {
		return
	}
	r.sent = true
	c.out = c.appendBlock(c.out, w.s.id, flags, func(b []byte) []byte {
		b = appendField(b, ":status", strconv.Itoa(r.status))
		for name, values := range r.header {
			if r.isTrailer(name) || !mayAnswer(name) {
				continue
			}
			b = appendFields(b, name, values)
		}
		return b
	})
}

func appendFields(b []byte, name string, values []string) []byte {
	name = strings.ToLower(name)
	for _, v := range values {
		b = appendField(b, name, strings.NewReplacer("\r", " ", "\n", " ", "\x00", " ").Replace(v))
	}
	return b
}

// mayAnswer reports whether a field may stand in an answer over HTTP/2.
func mayAnswer(name string) bool {
	switch http.CanonicalHeaderKey(name) {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Transfer-Encoding", "Upgrade":
		return false
	}
	return !strings.HasPrefix(name, ":")
}

func (r *responseWriter) isTrailer(name string) bool {
	return strings.HasPrefix(name, http.TrailerPrefix) || slices.Contains(r.trailer, name)
}

// finish sends what is left, and the trailer.
func (r *responseWriter) finish() {
	w, c := r.stream, r.stream.c
	r.WriteHeader(http.StatusOK)
	var trailer []byte
	for name, values := range r.header {
		if r.isTrailer(name) {
			trailer = appendFields(trailer, strings.TrimPrefix(name, http.TrailerPrefix), values)
		}
	}
	if !r.sent && len(r.pending) == 0 && len(trailer) == 0 {
		r.sendHead(flagEndStream)
		return
	}
	switch {
	case r.sendLocked() != nil || w.aborted || w.s.reset || c.closed:
	case len(trailer) == 0:
		c.out = appendFrame(c.out, typeData, flagEndStream, w.s.id, 0)
	default:
		c.out = c.appendBlock(c.out, w.s.id, flagEndStream, func(b []byte) []byte { return append(b, trailer...) })
	}
}
