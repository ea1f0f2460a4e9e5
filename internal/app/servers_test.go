package app

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/backlog"
	"github.com/headgate/headgate/internal/config"
	cond "github.com/headgate/headgate/internal/eventually"
)

// ending returns a process that is about to end, and a front of it that listens and does
// not serve yet.
func ending(t *testing.T) (*process, *backlog.Listener, *gentleServer) {
	t.Helper()
	s := settings()
	s.DrainTimeout = time.Minute
	p, err := newProcess(&s.Settings, config.Does{Decide: true}, new(keys), Options{Logger: quiet(), Out: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.stack.Close() })
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := backlog.Listen(inner)
	t.Cleanup(func() { l.Close() })
	answer := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "served") })
	g := p.gentle("http", newHTTPServer(closing(&p.health.draining, answer), quiet()))(l).(*gentleServer)
	g.patience = time.Minute
	return p, l, g
}

func dialOne(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// wantLast reads the answer of the last request on a connection.
func wantLast(t *testing.T, conn net.Conn) {
	t.Helper()
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("hung up: %v", err)
	}
	defer response.Body.Close()
	if text, err := io.ReadAll(response.Body); response.StatusCode != 200 || string(text) != "served" || err != nil {
		t.Errorf("%d %q %v", response.StatusCode, text, err)
	}
	if !response.Close {
		t.Error("the client is not told that the connection ends")
	}
}

func refuses(l net.Listener) func() bool {
	return func() bool {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err == nil {
			conn.Close()
		}
		return err != nil
	}
}

// TestDrainAnswersWhoWaits: clients that were connected when the drain delay was over, and
// that the server had not come round to accept, are answered; later ones are refused.
func TestDrainAnswersWhoWaits(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere nobody can be refused while others wait")
	}
	p, l, g := ending(t)
	var clients []net.Conn
	for range 50 {
		conn := dialOne(t, l)
		io.WriteString(conn, "GET / HTTP/1.1\r\nHost: headgate\r\n\r\n")
		clients = append(clients, conn)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	drained, served := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(drained)
		p.drain(ctx, []*backlog.Listener{l}, []server{g})
	}()
	cond.True(t, "new clients are refused", refuses(l))
	go func() { served <- g.Serve() }()
	for _, conn := range clients {
		wantLast(t, conn)
	}
	<-drained
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// TestShutdownWaitsForFirstRequests: whoever was accepted before the end of listening is
// on the way with a request, and is answered.
func TestShutdownWaitsForFirstRequests(t *testing.T) {
	p, l, g := ending(t)
	p.health.draining.Store(true)
	served, ended := make(chan error, 1), make(chan struct{})
	go func() { served <- g.Serve() }()
	conn := dialOne(t, l)
	io.WriteString(conn, "GET / HTTP/1.1\r\n")
	cond.True(t, "it is accepted", func() bool { return g.newcomers.count.Load() == 1 })
	go func() {
		defer close(ended)
		g.Shutdown(t.Context())
	}()
	cond.True(t, "new clients are refused", refuses(l))
	io.WriteString(conn, "Host: headgate\r\n\r\n")
	wantLast(t, conn)
	<-ended
	if err := <-served; err != nil {
		t.Error(err)
	}
	if n := g.newcomers.count.Load(); n != 0 {
		t.Errorf("%d connections are still new", n)
	}
}
