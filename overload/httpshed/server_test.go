package httpshed_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/overload"
	"github.com/headgate/headgate/overload/httpshed"
)

// TestWritersOfServers: what libraries ask the ResponseWriter of a server for is
// there, directly and through an http.ResponseController.
func TestWritersOfServers(t *testing.T) {
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
			http2 = flusher && stringWriter && pusher && !hijacker && deadlines && flushes
		} else {
			http1 = flusher && hijacker && readerFrom && stringWriter && !pusher && deadlines && flushes && c.EnableFullDuplex() == nil
		}
	})
	h := newMiddleware(t, httpshed.Options{Gate: overload.NewGate(nil, newWorker(t, overload.Options{}))}).Wrap(probe)
	for _, isHTTP2 := range []bool{true, false} {
		server := httptest.NewUnstartedServer(h)
		server.EnableHTTP2 = isHTTP2
		server.StartTLS()
		answer, err := server.Client().Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		server.Close()
	}
	if !http1 || !http2 {
		t.Errorf("complete for HTTP/1 %v, for HTTP/2 %v", http1, http2)
	}
}

// TestStreamsAreNotHeldBack: the client of an event stream reads an event while
// the next has not been written, and the stream is not in flight meanwhile.
func TestStreamsAreNotHeldBack(t *testing.T) {
	worker := newWorker(t, overload.Options{})
	read := make(chan struct{})
	server := httptest.NewServer(newMiddleware(t, httpshed.Options{Gate: overload.NewGate(nil, worker)}).Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: one\n")
		w.(http.Flusher).Flush()
		<-read
		_, _ = io.Copy(w, strings.NewReader("data: two\n"))
	})))
	defer server.Close()
	r, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	lines := bufio.NewReader(r.Body)
	first, err := lines.ReadString('\n')
	if s := worker.Stats(); s.InFlight != 0 {
		t.Errorf("%d in flight while an event stream is open, want none", s.InFlight)
	}
	close(read)
	if second, _ := lines.ReadString('\n'); first != "data: one\n" || err != nil || second != "data: two\n" {
		t.Errorf("read %q (%v) and %q", first, err, second)
	}
}

// TestUpgradeThroughAProxy opens a connection of another protocol through the
// standard reverse proxy behind the middleware. It is not in flight while it is
// open, so that more of them than the limit have room.
func TestUpgradeThroughAProxy(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(echo))
	defer backend.Close()
	target, err := url.Parse(backend.URL)
	if err != nil {
		t.Fatal(err)
	}
	worker := newWorker(t, overload.Options{MaxInFlight: 4})
	gate := overload.NewGate(nil, worker)
	m := newMiddleware(t, httpshed.Options{Gate: gate})
	front := httptest.NewServer(m.Wrap(httputil.NewSingleHostReverseProxy(target)))
	defer front.Close()
	const connections = 10
	var open []*bufio.ReadWriter
	for range connections {
		conn, err := net.Dial("tcp", front.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "GET /echo HTTP/1.1\r\nHost: a\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n")
		in := bufio.NewReader(conn)
		answer, err := http.ReadResponse(in, nil)
		if err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("%+v, %v; want 101", answer, err)
		}
		open = append(open, bufio.NewReadWriter(in, bufio.NewWriter(conn)))
	}
	for i, c := range open {
		fmt.Fprintf(c, "%04d", i)
		_ = c.Flush()
		back := make([]byte, 4)
		if _, err := io.ReadFull(c, back); err != nil || string(back) != fmt.Sprintf("%04d", i) {
			t.Errorf("connection %d: echo %q, %v", i, back, err)
		}
	}
	if s := worker.Stats(); s.InFlight != 0 || gate.Stats().Ignored != connections {
		t.Errorf("%d in flight with %d connections open, %+v; want none", s.InFlight, connections, gate.Stats())
	}
}

func echo(w http.ResponseWriter, _ *http.Request) {
	conn, rw, err := w.(http.Hijacker).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer conn.Close()
	_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n")
	_ = rw.Flush()
	_, _ = io.CopyN(conn, rw, 4)
}

// TestNeverMoreInFlight: whatever comes at once, no more than the caps are worked
// on, and critical requests have room of their own.
func TestNeverMoreInFlight(t *testing.T) {
	const cap, critical = 3, 2
	worker := newWorker(t, overload.Options{MaxInFlight: cap, MaxCritical: critical, MinLimit: cap, InitialLimit: cap})
	m := newMiddleware(t, httpshed.Options{
		Gate: overload.NewGate(nil, worker), Rule: func(r *http.Request) string { return r.Header.Get("Test-Rule") },
	})
	entered, leave := make(chan string, 100), make(chan struct{})
	h := m.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		entered <- r.Header.Get("Test-Rule")
		<-leave
	}))
	const each = 20
	for _, c := range []struct {
		rule string
		most int
	}{{"p1", cap}, {"p0", critical}} {
		statuses := make(chan int, each)
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Test-Rule", c.rule)
		for range each {
			go func() { statuses <- ask(h, r).StatusCode }()
		}
		// All but those that are worked on are answered now.
		for range each - c.most {
			if got := <-statuses; got != overload.Status {
				t.Errorf("%s: status %d, want %d", c.rule, got, overload.Status)
			}
		}
		for range c.most {
			if got := <-entered; got != c.rule {
				t.Errorf("%s is worked on, want %s", got, c.rule)
			}
		}
		defer func() {
			for range c.most {
				if got := <-statuses; got != http.StatusOK {
					t.Errorf("%s: status %d of one that was admitted", c.rule, got)
				}
			}
		}()
	}
	if s := worker.Stats(); s.InFlight != cap || s.Critical != critical || len(entered) > 0 {
		t.Errorf("%d and %d critical in flight, %d more; want %d and %d", s.InFlight, s.Critical, len(entered), cap, critical)
	}
	close(leave)
}
