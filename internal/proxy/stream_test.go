package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// echo sends back every piece of a body as it comes.
func echo(w http.ResponseWriter, r *http.Request) {
	rc := http.NewResponseController(w)
	_ = rc.EnableFullDuplex() // HTTP/2 is by itself
	w.WriteHeader(http.StatusOK)
	rc.Flush()
	buffer := make([]byte, 1024)
	for {
		n, err := r.Body.Read(buffer)
		w.Write(buffer[:n])
		rc.Flush()
		if err != nil {
			return
		}
	}
}

// TestStreamsBothWays: over one request, a piece goes to the backend and its echo
// comes back before the next is sent.
func TestStreamsBothWays(t *testing.T) {
	e := front(t, http.HandlerFunc(echo), Options{})
	t.Run("HTTP/1.1", func(t *testing.T) {
		c := e.dial()
		c.send("POST / HTTP/1.1\nHost: h\nTransfer-Encoding: chunked\n\n")
		res := c.answer("POST")
		for i := range 3 {
			piece := fmt.Sprintf("piece %d", i)
			c.send(fmt.Sprintf("%x\n%s\n", len(piece), piece))
			expect(t, res.Body, piece)
		}
		c.send("0\n\n")
		if rest := read(t, res); rest != "" || !res.Close {
			t.Errorf("rest %q, close %v", rest, res.Close)
		}
	})
	t.Run("HTTP/2", func(t *testing.T) {
		transport := &http.Transport{Protocols: new(http.Protocols)}
		transport.Protocols.SetUnencryptedHTTP2(true)
		t.Cleanup(transport.CloseIdleConnections)
		in, out := io.Pipe()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, "POST", e.url, in)
		if err != nil {
			t.Fatal(err)
		}
		res, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		if res.ProtoMajor != 2 {
			t.Errorf("%s", res.Proto)
		}
		for i := range 3 {
			piece := fmt.Sprintf("piece %d", i)
			io.WriteString(out, piece)
			expect(t, res.Body, piece)
		}
		out.Close()
		if rest := read(t, res); rest != "" {
			t.Errorf("rest %q", rest)
		}
	})
}

func expect(t *testing.T, r io.Reader, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(r, got); err != nil || string(got) != want {
		t.Fatalf("got %q, %v, want %q", got, err, want)
	}
}

// inPieces writes the pieces of an answer, each after the one before was read: next says that.
func inPieces(header, value string, next <-chan struct{}, pieces ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(header, value)
		for _, piece := range pieces {
			io.WriteString(w, piece)
			http.NewResponseController(w).Flush()
			select {
			case <-next:
			case <-r.Context().Done():
				return
			}
		}
	}
}

// TestEventsAreNotHeldBack: the client reads an event before the next is written.
func TestEventsAreNotHeldBack(t *testing.T) {
	events := []string{"data: 0\n", "data: 1\n", "data: 2\n"}
	for _, media := range []string{"text/event-stream", "application/x-ndjson"} {
		next := make(chan struct{})
		e := front(t, inPieces("Content-Type", media, next, events...), Options{})
		res := e.get("/")
		for _, event := range events {
			expect(t, res.Body, event)
			next <- struct{}{}
		}
		res.Body.Close()
	}
}

// TestAnswerOfKnownLengthStreams: the client gets what there is of an answer before the backend
// writes the rest, also where the answer says how long it is.
func TestAnswerOfKnownLengthStreams(t *testing.T) {
	pieces, next := []string{"", "first", "other"}, make(chan struct{})
	e := front(t, inPieces("Content-Length", "10", next, pieces...), Options{})
	c := e.dial()
	c.send("GET / HTTP/1.1\nHost: h\n\n")
	res := c.answer("GET")
	for _, piece := range pieces {
		expect(t, res.Body, piece)
		next <- struct{}{}
	}
}

// TestUploadStreams: the backend reads what has come while the client holds back
// the rest.
func TestUploadStreams(t *testing.T) {
	got, more := make(chan string), make(chan struct{})
	e := front(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		first := make([]byte, 5)
		io.ReadFull(r.Body, first)
		got <- string(first)
		rest, _ := io.ReadAll(r.Body)
		got <- string(rest)
	}), Options{MaxBody: 10})
	c := e.dial()
	c.send("POST / HTTP/1.1\nHost: h\nContent-Length: 10\n\nfirst")
	if text := <-got; text != "first" {
		t.Errorf("%q", text)
	}
	close(more)
	c.send("other")
	if text := <-got; text != "other" {
		t.Errorf("%q", text)
	}
	if res := c.answer("POST"); res.StatusCode != 200 || res.Close {
		t.Errorf("%d, close %v", res.StatusCode, res.Close)
	}
}

func TestTrailers(t *testing.T) {
	e := front(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Announced")
		io.Copy(w, r.Body)
		w.Header().Set("X-Announced", r.Trailer.Get("X-Sum"))
		w.Header().Set(http.TrailerPrefix+"X-Late", "2")
	}), Options{})
	c := e.dial()
	c.send("POST / HTTP/1.1\nHost: h\nTE: trailers\nTransfer-Encoding: chunked\nTrailer: X-Sum\n\n2\nab\n0\nX-Sum: 7\n\n")
	res := c.answer("POST")
	if text := read(t, res); text != "ab" || res.Trailer.Get("X-Announced") != "7" || res.Trailer.Get("X-Late") != "2" {
		t.Errorf("%q, trailers %v", text, res.Trailer)
	}
}

// TestContinue: who waits to be asked for the body is asked when the backend asks,
// and not when it does not.
func TestContinue(t *testing.T) {
	asked := make(chan struct{})
	e := front(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/no" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		text, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s", text)
		close(asked)
	}), Options{})
	head := "Host: h\nExpect: 100-continue\nContent-Length: 4\n\n"
	c := e.dial()
	c.send("PUT /yes HTTP/1.1\n" + head)
	if res := c.answer("PUT"); res.StatusCode != 100 {
		t.Fatalf("%d", res.StatusCode)
	}
	c.send("body")
	res := c.answer("PUT")
	// net/http passes the question on, and asks by itself when the body is read for the backend:
	// where the second comes first, the client is asked twice.
	for res.StatusCode == 100 {
		res = c.answer("PUT")
	}
	if res.StatusCode != 200 || read(t, res) != "body" {
		t.Errorf("%d", res.StatusCode)
	}
	<-asked
	c = e.dial()
	c.send("PUT /no HTTP/1.1\n" + head)
	if res := c.answer("PUT"); res.StatusCode != 403 || !res.Close {
		t.Errorf("%d, close %v", res.StatusCode, res.Close)
	}
}

// refuseUnread answers by 401 before the body comes, keeps the connection open, and passes on what
// comes over it until the proxy closes it.
func refuseUnread(t *testing.T, came chan<- string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		rw.WriteString("HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno")
		rw.Flush()
		text, _ := io.ReadAll(rw) // the proxy may reset the connection
		came <- string(text)
	}
}

// TestRefusedBodyIsNotAskedFor: who waits to be asked for the body is not asked where the backend
// has refused it, also if the backend would go on with the connection.
func TestRefusedBodyIsNotAskedFor(t *testing.T) {
	came := make(chan string, 1)
	var asks asking
	e := front(t, refuseUnread(t, came), Options{Wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asks.ReadCloser = r.Body
			r.Body = &asks
			next.ServeHTTP(w, r)
		})
	}})
	c := e.dial()
	c.send("PUT / HTTP/1.1\nHost: h\nExpect: 100-continue\nContent-Length: 4\n\n")
	if res := c.answer("PUT"); res.StatusCode != 401 || !res.Close || read(t, res) != "no" {
		t.Fatalf("%d, close %v", res.StatusCode, res.Close)
	}
	if err := c.ended(); err != nil {
		t.Errorf("the connection: %v", err)
	}
	if text := <-came; text != "" || asks.often.Load() != 0 {
		t.Errorf("the backend got %q, and the body was asked for %d times", text, asks.often.Load())
	}
}

// asking is the body of a request, and counts how often it is read. The first time asks the client
// for it, unless the header of the answer happens to be on its way already.
type asking struct {
	io.ReadCloser
	often atomic.Int64
}

func (a *asking) Read(p []byte) (int, error) {
	a.often.Add(1)
	return a.ReadCloser.Read(p)
}

// TestRefusedBodyIsNotWaitedFor: the connection ends, also if the transport is in the middle of
// reading a body when the backend refuses it.
func TestRefusedBodyIsNotWaitedFor(t *testing.T) {
	came := make(chan string, 1)
	e := front(t, refuseUnread(t, came), Options{})
	c := e.dial()
	c.send("PUT / HTTP/1.1\nHost: h\nContent-Length: 10\n\nabcde")
	if res := c.answer("PUT"); res.StatusCode != 401 || !res.Close || read(t, res) != "no" {
		t.Fatalf("%d, close %v", res.StatusCode, res.Close)
	}
	if err := c.ended(); err != nil {
		t.Errorf("the connection: %v", err)
	}
	<-came
}

// TestEarlyHints: what comes before the answer passes.
func TestEarlyHints(t *testing.T) {
	e := front(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</a.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusNoContent)
	}), Options{})
	c := e.dial()
	c.send("GET / HTTP/1.1\nHost: h\n\n")
	if res := c.answer("GET"); res.StatusCode != 103 || res.Header.Get("Link") == "" {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
	if res := c.answer("GET"); res.StatusCode != 204 {
		t.Errorf("%d", res.StatusCode)
	}
}

// TestOldClients: who speaks HTTP/1.0 gets one answer and none before it, and is not heard for what
// only newer clients can ask for.
func TestOldClients(t *testing.T) {
	e := front(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		fmt.Fprintf(w, "%q %q", r.Header["Upgrade"], r.Header["Expect"])
	}), Options{})
	c := e.dial()
	c.send("POST / HTTP/1.0\nHost: h\nConnection: Upgrade\nUpgrade: websocket\nExpect: 100-continue\nContent-Length: 2\n\nab")
	if res := c.answer("POST"); res.StatusCode != 200 || read(t, res) != "[] []" {
		t.Errorf("%d", res.StatusCode)
	}
}

// TestOldClientsHideNothing: Connection strikes out fields before anybody limits in HTTP/1.0 as well.
func TestOldClientsHideNothing(t *testing.T) {
	var seen string
	e := front(t, http.NotFoundHandler(), Options{Wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			seen = r.Header.Get("X-Api-Key")
			next.ServeHTTP(w, r)
		})
	}})
	c := e.dial()
	c.send("GET / HTTP/1.0\nHost: h\nConnection: X-Api-Key\nX-Api-Key: victim\n\n")
	if res := c.answer("GET"); res.StatusCode != http.StatusNotFound || seen != "" {
		t.Errorf("%d; who limits saw the key %q, which the backend does not", res.StatusCode, seen)
	}
}

// TestNoMediaTypeIsGuessed: an answer that names no media type reaches the client without one,
// also after early hints, and one that names it keeps it.
func TestNoMediaTypeIsGuessed(t *testing.T) {
	e := front(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hints" {
			w.WriteHeader(http.StatusEarlyHints)
		}
		w.Header()["Content-Type"] = nil
		if r.URL.Path == "/named" {
			w.Header().Set("Content-Type", "text/plain")
		}
		io.WriteString(w, "<html><script>1</script>")
	}), Options{})
	for path, want := range map[string][]string{"/": nil, "/hints": nil, "/named": {"text/plain"}} {
		if res := e.get(path); !slices.Equal(res.Header["Content-Type"], want) || read(t, res) == "" {
			t.Errorf("%s: %q, want %q", path, res.Header["Content-Type"], want)
		}
	}
}

// TestBodyThatNeverEnds: the answer comes at once, and the connection ends.
func TestBodyThatNeverEnds(t *testing.T) {
	deny := func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) })
	}
	refuse := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusUnauthorized)
	})
	for _, tt := range []struct {
		name    string
		options Options
		head    string
		begin   string
		status  int
	}{
		{"chunks, denied", Options{Wrap: deny}, "Transfer-Encoding: chunked", "5\nabcde\n", 429},
		{"long, denied", Options{Wrap: deny}, "Content-Length: 100000000", "abcde", 429},
		{"short, denied", Options{Wrap: deny}, "Content-Length: 10", "abcde", 429},
		{"asked for, denied", Options{Wrap: deny}, "Expect: 100-continue\nContent-Length: 10", "", 429},
		{"chunks, refused by the backend", Options{}, "Transfer-Encoding: chunked", "5\nabcde\n", 401},
		{"long, refused by the backend", Options{}, "Content-Length: 100000000", "abcde", 401},
		{"tunnel", Options{}, "Connection: close\nTransfer-Encoding: chunked", "5\nabcde\n", 401},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := front(t, refuse, tt.options)
			c := e.dial()
			c.send("POST / HTTP/1.1\nHost: h\n" + tt.head + "\n\n" + tt.begin)
			res := c.answer("POST")
			if res.StatusCode != tt.status || !res.Close {
				t.Errorf("%d, close %v", res.StatusCode, res.Close)
			}
			read(t, res)
			if err := c.ended(); err != nil {
				t.Errorf("the connection: %v", err)
			}
			e.eventually("requests under way", func(s Stats) bool { return s.InFlight == 0 })
		})
	}
}

// TestDenialKeepsTheConnection: who sends a short body whole may go on.
func TestDenialKeepsTheConnection(t *testing.T) {
	e := front(t, http.HandlerFunc(echo), Options{Wrap: func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) })
	}})
	c := e.dial()
	for range 3 {
		c.send("POST / HTTP/1.1\nHost: h\nContent-Length: 10\n\n0123456789")
		if res := c.answer("POST"); res.StatusCode != 429 || res.Close || read(t, res) != "" {
			t.Errorf("%d, close %v", res.StatusCode, res.Close)
		}
	}
}

// TestDroppedBodies: the longest body that is dropped leaves the connection, and a longer one is
// not waited for.
func TestDroppedBodies(t *testing.T) {
	e := front(t, http.HandlerFunc(echo), Options{Wrap: func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) })
	}})
	for _, tt := range []struct {
		length, sent int
		ends         bool
	}{{keptUnread, keptUnread, false}, {keptUnread + 1, 0, true}} {
		c := e.dial()
		c.send(fmt.Sprintf("POST / HTTP/1.1\nHost: h\nContent-Length: %d\n\n%s", tt.length, strings.Repeat("x", tt.sent)))
		if res := c.answer("POST"); res.StatusCode != 429 || res.Close != tt.ends {
			t.Errorf("%d bytes: %d, close %v", tt.length, res.StatusCode, res.Close)
		}
	}
}

// TestEndOfTheConnectionStays: a server that ends the connection for a reason of its own, such as
// that it stops, is not spoken against when the body was read.
func TestEndOfTheConnectionStays(t *testing.T) {
	for _, said := range []string{"", "close"} {
		b := &body{answer: http.Header{}}
		if said != "" {
			b.answer.Set("Connection", said)
		}
		b.close()
		b.ended.Store(true)
		b.answered(http.StatusOK)
		if got := b.answer.Get("Connection"); got != said {
			t.Errorf("the server said %q, and the answer has %q", said, got)
		}
	}
}

// TestUpgradeDoesNotEndTheConnection: an answer that switches to another protocol goes on with the
// connection, whatever is left of the body.
func TestUpgradeDoesNotEndTheConnection(t *testing.T) {
	b := &body{answer: http.Header{}}
	b.close()
	b.answered(http.StatusSwitchingProtocols)
	if got := b.answer.Get("Connection"); got != "" {
		t.Errorf("the answer has %q", got)
	}
}

// TestUnreadBodiesOfHTTP2: a body that nobody has read ends a connection of HTTP/1, and none of
// HTTP/2, which others use at the same time.
func TestUnreadBodiesOfHTTP2(t *testing.T) {
	p, err := New(Options{To: parse(t, "http://b:1"), Wrap: func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) })
	}})
	if err != nil {
		t.Fatal(err)
	}
	for major, want := range map[int]string{1: "close", 2: ""} {
		r := httptest.NewRequest("POST", "/", strings.NewReader("body"))
		r.ProtoMajor, r.ContentLength = major, -1
		w := httptest.NewRecorder()
		if p.ServeHTTP(w, r); w.Code != http.StatusTooManyRequests || w.Header().Get("Connection") != want {
			t.Errorf("HTTP/%d: %d, Connection %q, want %q", major, w.Code, w.Header().Get("Connection"), want)
		}
	}
}

// TestFaultEndsAHalfBody: what the proxy answers itself does not wait for the rest of a body.
func TestFaultEndsAHalfBody(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	p, err := New(Options{To: &url.URL{Scheme: "http", Host: closed.Addr().String()}})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	if p.ServeHTTP(w, httptest.NewRequest("POST", "/", strings.NewReader("of known length"))); w.Code != http.StatusBadGateway || w.Header().Get("Connection") != "close" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
}

// TestBoundOfABody: nobody gets past the bound by reading on.
func TestBoundOfABody(t *testing.T) {
	b := &body{ReadCloser: io.NopCloser(strings.NewReader("0123")), left: 2, beyond: io.ErrShortBuffer}
	for i, want := range []error{nil, nil, io.ErrShortBuffer, io.ErrShortBuffer, io.ErrShortBuffer} {
		if _, err := b.Read(make([]byte, 1)); err != want {
			t.Errorf("read %d: %v, want %v", i, err, want)
		}
	}
	if b.ended.Load() || b.failed.Load() {
		t.Error("a body that is too large has ended, or its client broke it off")
	}
}

// TestReadBodyKeepsTheConnection: so may who was forwarded.
func TestReadBodyKeepsTheConnection(t *testing.T) {
	e := front(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n)
	}), Options{})
	c := e.dial()
	for _, request := range []string{
		"Content-Length: 100000\n\n" + strings.Repeat("x", 100000),
		"Transfer-Encoding: chunked\n\n3\nabc\n0\n\n",
		"Content-Length: 2\n\nab",
	} {
		c.send("POST / HTTP/1.1\nHost: h\n" + request)
		res := c.answer("POST")
		if text := read(t, res); res.Close || text == "0" {
			t.Errorf("%.20q: %q, close %v", request, text, res.Close)
		}
	}
}

// TestClientBreaksOffItsBody: it is no trouble of the backend.
func TestClientBreaksOffItsBody(t *testing.T) {
	seen := make(chan error, 1)
	e := front(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		seen <- err
	}), Options{OnTrouble: func(err error) { t.Errorf("trouble: %v", err) }})
	c := e.dial()
	c.send("POST / HTTP/1.1\nHost: h\nContent-Length: 10\n\nabc")
	c.Close()
	if err := <-seen; !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the backend read %v", err)
	}
	e.eventually("faults", func(s Stats) bool { return s.BadBody+s.Left == 1 && s.InFlight == 0 })
}
