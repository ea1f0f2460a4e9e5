package client

import (
	"context"
	"net"
	"net/http"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
)

// closing is a connection that notes that it was closed.
type closing struct {
	net.Conn
	closed bool
}

func (c *closing) Close() error {
	c.closed = true
	return c.Conn.Close()
}

// TestStrangersAreHungUpOn: the connection to a server that is not the one that it should be is closed.
func TestStrangersAreHungUpOn(t *testing.T) {
	certs, others := testserver.NewCertificates(t), testserver.NewCertificates(t)
	server := certs.HTTPServer(t, http.NotFoundHandler())
	var made closing
	transport := newTransport()
	dial := transport.DialContext
	transport.DialContext = func(ctx context.Context, network, addr string) (_ net.Conn, err error) {
		made.Conn, err = dial(ctx, network, addr)
		return &made, err
	}
	c := Credentials{CAFile: others.CAFile}
	if err := c.secured(transport); err != nil {
		t.Fatal(err)
	}
	if _, err := transport.DialTLSContext(t.Context(), "tcp", server.Listener.Addr().String()); err == nil || made.Conn == nil || !made.closed {
		t.Errorf("%v, closed %v; want an error, and that it is closed", err, made.closed)
	}
}
