package httplimit_test

import (
	"bufio"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/httplimit"
)

// plainAndWrapped are the two ways in which handlers are run.
var plainAndWrapped = map[string]httplimit.Options{
	"plain":   {},
	"wrapped": {Override: true, Refund: func(int) bool { return false }},
}

// TestWritersOfServers: what libraries ask the ResponseWriter of a server for is
// there, directly and through an http.ResponseController.
func TestWritersOfServers(t *testing.T) {
	for name, o := range plainAndWrapped {
		var http1, http2 bool
		probe := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, flusher := w.(http.Flusher)
			_, hijacker := w.(http.Hijacker)
			_, readerFrom := w.(io.ReaderFrom)
			_, stringWriter := w.(io.StringWriter)
			_, pusher := w.(http.Pusher)
			c := http.NewResponseController(w)
			deadlines := c.SetReadDeadline(time.Time{}) == nil && c.SetWriteDeadline(time.Time{}) == nil
			flushes := c.Flush() == nil
			if r.ProtoMajor == 2 {
				http2 = flusher && pusher && !hijacker && deadlines && flushes
			} else {
				http1 = flusher && hijacker && readerFrom && stringWriter && !pusher && deadlines && flushes && c.EnableFullDuplex() == nil
			}
		})
		server := httptest.NewUnstartedServer(perMinute(t, 100, o).Wrap(probe))
		server.EnableHTTP2 = true
		server.StartTLS()
		get(t, server.Client(), server.URL)
		server.Close()
		server = httptest.NewServer(perMinute(t, 100, o).Wrap(probe))
		get(t, server.Client(), server.URL)
		server.Close()
		if !http1 || !http2 {
			t.Errorf("%s: complete for HTTP/1 %v, for HTTP/2 %v", name, http1, http2)
		}
	}
}

func get(t *testing.T, c *http.Client, url string) *http.Response {
	t.Helper()
	r, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestStreamsAreNotHeldBack: the client reads a part while the handler has not
// written the next.
func TestStreamsAreNotHeldBack(t *testing.T) {
	for name, o := range plainAndWrapped {
		read := make(chan struct{})
		server := httptest.NewServer(perMinute(t, 100, o).Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "one\n")
			w.(http.Flusher).Flush()
			<-read
			_, _ = io.Copy(w, strings.NewReader("two\n"))
		})))
		r, err := http.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(r.Body)
		first, err := lines.ReadString('\n')
		close(read)
		second, _ := lines.ReadString('\n')
		r.Body.Close()
		server.Close()
		if first != "one\n" || err != nil || second != "two\n" || r.Header.Get("RateLimit") == "" {
			t.Errorf("%s: read %q (%v) and %q; header %v", name, first, err, second, r.Header)
		}
	}
}

// TestWebSocketUpgrade speaks the opening handshake of RFC 6455 and one echo.
func TestWebSocketUpgrade(t *testing.T) {
	for name, o := range plainAndWrapped {
		server := httptest.NewServer(perMinute(t, 1, o).Wrap(http.HandlerFunc(echoSocket)))
		answer, echo := dialSocket(t, server.Listener.Addr().String())
		if answer != "HTTP/1.1 101 Switching Protocols\r\n" || echo != "ping" {
			t.Errorf("%s: answer %q, echo %q", name, answer, echo)
		}
		if answer, _ := dialSocket(t, server.Listener.Addr().String()); answer != "HTTP/1.1 429 Too Many Requests\r\n" {
			t.Errorf("%s: the second upgrade got %q", name, answer)
		}
		server.Close()
	}
}

func echoSocket(w http.ResponseWriter, r *http.Request) {
	conn, rw, err := w.(http.Hijacker).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer conn.Close()
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " +
		base64.StdEncoding.EncodeToString(sum[:]) + "\r\n\r\n")
	_ = rw.Flush()
	_, _ = io.CopyN(conn, rw, 4)
}

func dialSocket(t *testing.T, address string) (answer, echo string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "GET /socket HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	in := bufio.NewReader(conn)
	if answer, err = in.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	accepted := false
	for line := ""; line != "\r\n"; {
		if line, err = in.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		accepted = accepted || line == "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
	}
	if !accepted {
		return answer, ""
	}
	_, _ = io.WriteString(conn, "ping")
	frame := make([]byte, 4)
	_, _ = io.ReadFull(in, frame)
	return answer, string(frame)
}

// TestConcurrentRequestsNeverExceed: of many at once exactly the quota passes,
// and all who pass are told different counts.
func TestConcurrentRequestsNeverExceed(t *testing.T) {
	const quota, requests = 100, 400
	m := perMinute(t, quota, httplimit.Options{})
	var passed atomic.Int64
	h := m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { passed.Add(1) }))
	var remaining sync.Map
	var group sync.WaitGroup
	for range requests {
		group.Go(func() {
			r := ask(h, newRequest("GET", "/"))
			if r.StatusCode != 200 {
				return
			}
			if _, twice := remaining.LoadOrStore(r.Header.Get("X-RateLimit-Remaining"), true); twice {
				t.Errorf("two were told that %s remain", r.Header.Get("X-RateLimit-Remaining"))
			}
		})
	}
	group.Wait()
	if passed.Load() != quota {
		t.Errorf("%d passed, want %d", passed.Load(), quota)
	}
}

func TestRefund(t *testing.T) {
	refund5xx := httplimit.Options{Refund: func(status int) bool { return status >= 500 }}
	cases := []struct {
		name    string
		handler http.Handler
		left    string
	}{
		{"200", status(200), "3"},
		{"404", status(404), "3"},
		{"502", status(502), "4"},
		{"nothing written", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), "3"},
		{"early hints, then 500", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusInternalServerError)
		}), "4"},
		{"200, then 500", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "x")
			w.WriteHeader(http.StatusInternalServerError)
		}), "3"},
		{"panic", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), "4"},
		{"panic after 200", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(200)
			panic(http.ErrAbortHandler)
		}), "3"},
		{"client gone", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			w.WriteHeader(504)
		}), "4"},
	}
	for _, c := range cases {
		m := perMinute(t, 5, refund5xx)
		ctx, cancel := context.WithCancel(t.Context())
		if c.name == "client gone" {
			cancel()
		}
		panicked := panics(func() { ask(m.Wrap(c.handler), newRequest("GET", "/").WithContext(ctx)) })
		cancel()
		if want := strings.HasPrefix(c.name, "panic"); (panicked == http.ErrAbortHandler) != want {
			t.Errorf("%s: recovered %v", c.name, panicked)
		}
		if got := ask(m.Wrap(status(200)), newRequest("GET", "/")).Header.Get("X-RateLimit-Remaining"); got != c.left {
			t.Errorf("%s: %s remain after the next, want %s; %+v", c.name, got, c.left, m.Stats())
		}
	}
}

func panics(f func()) (cause any) {
	defer func() { cause = recover() }()
	f()
	return nil
}

func TestPanicsPassThrough(t *testing.T) {
	for name, o := range plainAndWrapped {
		h := perMinute(t, 5, o).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("mine") }))
		if got := panics(func() { ask(h, newRequest("GET", "/")) }); got != "mine" {
			t.Errorf("%s: recovered %v, want the handler's", name, got)
		}
	}
}
