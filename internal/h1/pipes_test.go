package h1

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener whose connections are in memory, so that their time is that of a bubble.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// dial connects.
func (p *pipes) dial(t testing.TB) *client {
	mine, theirs := net.Pipe()
	p.conns <- theirs
	t.Cleanup(func() { mine.Close() })
	return &client{Conn: mine, r: bufio.NewReader(mine)}
}

// dialHalves connects by two pipes, so that a client can end what it asks and still read: what
// a server has answered is not lost when it hangs up, as it may be on a network.
func (p *pipes) dialHalves() (requests, answers net.Conn) {
	requests, asked := net.Pipe()
	answered, answers := net.Pipe()
	p.conns <- &halves{asked, answered}
	return requests, answers
}

// halves is a connection of which answers go another way.
type halves struct {
	net.Conn
	answers net.Conn
}

func (h *halves) Write(p []byte) (int, error) { return h.answers.Write(p) }

func (h *halves) SetWriteDeadline(t time.Time) error { return h.answers.SetWriteDeadline(t) }

func (h *halves) CloseWrite() error { return h.answers.Close() }

func (h *halves) Close() error { return errors.Join(h.answers.Close(), h.Conn.Close()) }

func (h *halves) SetDeadline(t time.Time) error {
	return errors.Join(h.SetReadDeadline(t), h.SetWriteDeadline(t))
}

type client struct {
	net.Conn
	r *bufio.Reader
	// last says that the last answer was the last by its own word.
	last bool
}

// send writes, and fails the test where nobody reads.
func (c *client) send(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

// answer returns the status of an answer, 0 for the end.
func (c *client) answer(t *testing.T) int {
	t.Helper()
	resp, err := http.ReadResponse(c.r, nil)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	c.last = resp.Close
	return resp.StatusCode
}

// inBubble serves h on pipes, and ends it.
func inBubble(t *testing.T, s *http.Server, do func(t *testing.T, s *Server, p *pipes)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server, p := New(s), newPipes()
		done := make(chan error, 1)
		go func() { done <- server.Serve(p) }()
		defer func() {
			p.Close()
			server.Close()
			if err := <-done; !errors.Is(err, net.ErrClosed) {
				t.Errorf("Serve: %v", err)
			}
		}()
		do(t, server, p)
	})
}

const plainRequest = plainHead + "\r\n{}"
