package proxy

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/eventually"
)

// TestCutEndsTheClientsSide: what is being written to a client that does not read would wait for
// ever, so the end of the backend's side alone ends nothing.
func TestCutEndsTheClientsSide(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	ours.SetDeadline(time.Unix(1, 0)) // while it is open, a write fails by that
	cancelled := false
	u := &upgrade{cancel: func() { cancelled = true }}
	u.mu.conn = ours
	u.cut()
	if _, err := ours.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) || !cancelled {
		t.Errorf("a write to the client: %v; the backend's side has ended: %v", err, cancelled)
	}
}

// TestShutdownEndsIdleConnections: the backend is left at once, and not when its connections have
// been idle for long.
func TestShutdownEndsIdleConnections(t *testing.T) {
	b, ended := counting(t, http.NotFoundHandler(), http.StateClosed)
	e := front(t, http.NotFoundHandler(), Options{To: parse(t, b.URL)})
	e.proxy.transport.IdleConnTimeout = 0 // nothing else ends it
	read(t, e.get("/"))
	e.proxy.Shutdown(t.Context())
	eventually.True(t, "the end of the connection to the backend", func() bool { return ended.Load() == 1 })
}

// toldConn is a connection that keeps what is written to it.
type toldConn struct {
	net.Conn
	bytes.Buffer
}

func (c *toldConn) Read(p []byte) (int, error)  { return c.Buffer.Read(p) }
func (c *toldConn) Write(p []byte) (int, error) { return c.Buffer.Write(p) }

// TestNoGoodbyeBeforeTheHeader: a client that is asked to go while its protocol is being granted
// hears the header of HTTP first, which is not written through the connection of frames.
func TestNoGoodbyeBeforeTheHeader(t *testing.T) {
	told := &toldConn{}
	c := &websocketConn{Conn: told}
	c.leave()
	if told.Len() > 0 {
		t.Errorf("before the header the client is told %q", told.Bytes())
	}
	if c.begin(); !bytes.Equal(told.Bytes(), goodbye) {
		t.Errorf("after the header the client is told %q", told.Bytes())
	}
}

// TestShutdownOfAWebsocketByAnotherSpelling: the name of a protocol has no case.
func TestShutdownOfAWebsocketByAnotherSpelling(t *testing.T) {
	e := front(t, speak("WebSocket", repeat), Options{})
	c := e.dial()
	c.send("GET / HTTP/1.1\nHost: h\nConnection: Upgrade\nUpgrade: WebSocket\n\n")
	if res := c.answer("GET"); res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%d", res.StatusCode)
	}
	done := make(chan int)
	go func() { done <- e.proxy.Shutdown(t.Context()) }()
	expect(t, c, string(goodbye))
	c.Conn.(*net.TCPConn).CloseWrite()
	if cut := <-done; cut != 0 {
		t.Errorf("%d cut off", cut)
	}
}

// TestWriteToAClientThatIsGone: its end is told, so that the backend is not read on for nobody.
func TestWriteToAClientThatIsGone(t *testing.T) {
	ours, theirs := net.Pipe()
	ours.Close()
	theirs.Close()
	c := &websocketConn{Conn: ours}
	if n, err := c.Write(text("lost")); err == nil {
		t.Errorf("%d bytes were written", n)
	}
}
