package inlet_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/inlet"
)

// given is a listener of one connection.
type given struct{ net.Conn }

func (g given) Accept() (net.Conn, error) { return g.Conn, nil }

func (given) Addr() net.Addr { return nil }

// TestNobodyShakesHands: who connects and says nothing loses the connection, and is counted.
func TestNobodyShakesHands(t *testing.T) {
	server, _ := overTLS(t)
	synctest.Test(t, func(t *testing.T) {
		mine, theirs := net.Pipe()
		defer mine.Close()
		l := inlet.Listen(given{theirs}, inlet.Options{TLS: server, Unguarded: true})
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ended := make(chan error, 1)
		go func() {
			_, err := c.Read(make([]byte, 1))
			ended <- err
		}()
		select {
		case err := <-ended:
			if !errors.Is(err, context.DeadlineExceeded) || l.Stats().Failed != 1 {
				t.Errorf("%v, %+v", err, l.Stats())
			}
		case <-time.After(time.Minute):
			t.Error("a minute later it still waits")
			mine.Close()
			<-ended
		}
	})
}

// written is a connection that notes what was written to it last.
type written struct {
	net.Conn
	mu   sync.Mutex
	last byte
}

func (w *written) Write(p []byte) (int, error) {
	w.mu.Lock()
	w.last = p[0]
	w.mu.Unlock()
	return w.Conn.Write(p)
}

func (w *written) CloseWrite() error { return nil }

// TestEndIsSaid: a connection of TLS that ends says so, so that nobody on the way can cut off
// what is sent unseen.
func TestEndIsSaid(t *testing.T) {
	server, client := overTLS(t)
	client.MaxVersion = tls.VersionTLS12 // where records say in plain text what they are
	const alert = 21
	for what, end := range map[string]func(net.Conn) error{
		"Close":      net.Conn.Close,
		"CloseWrite": func(c net.Conn) error { return c.(interface{ CloseWrite() error }).CloseWrite() },
	} {
		mine, theirs := net.Pipe()
		t.Cleanup(func() { mine.Close() })
		wire := &written{Conn: theirs}
		c, err := inlet.Listen(given{wire}, inlet.Options{TLS: server, Unguarded: true}).Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		go tls.Client(mine, client).Read(make([]byte, 1)) // shakes hands, and reads what comes
		if _, err := inlet.Handshake(c); err != nil {
			t.Fatal(err)
		}
		if err := end(c); err != nil || wire.last != alert {
			t.Errorf("%s: %v, the last record is of kind %d", what, err, wire.last)
		}
	}
}
