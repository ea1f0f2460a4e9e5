package inlet_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/inlet"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/internal/tlsfile"
)

// serve serves over a Listener with these options, and returns it and its address.
func serve(t *testing.T, o inlet.Options) (*inlet.Listener, string) {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := inlet.Listen(inner, o)
	s := &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS != nil {
			io.WriteString(w, r.Proto+" "+r.TLS.NegotiatedProtocol)
		}
	})}
	s.Protocols.SetHTTP1(true)
	if o.TLS != nil {
		inlet.HTTP(s)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); s.Serve(l) }()
	t.Cleanup(func() { s.Close(); <-ended })
	return l, inner.Addr().String()
}

func overTLS(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	c := testserver.NewCertificates(t)
	source, err := tlsfile.Load(tlsfile.Files{Cert: c.CertFile, Key: c.KeyFile})
	if err != nil {
		t.Fatal(err)
	}
	return source.Server(tlsfile.Server{Protocols: []string{"h2", "http/1.1"}}), c.Client()
}

// TestHTTP: handlers see TLS and its protocol, of HTTP/2 and of HTTP/1.1.
func TestHTTP(t *testing.T) {
	server, client := overTLS(t)
	l, addr := serve(t, inlet.Options{TLS: server})
	for _, h2 := range []bool{true, false} {
		transport := &http.Transport{TLSClientConfig: client.Clone(), ForceAttemptHTTP2: h2}
		resp, err := (&http.Client{Transport: transport, Timeout: eventually.Patience}).Get("https://" + addr)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if want := map[bool]string{true: "HTTP/2.0 h2", false: "HTTP/1.1 "}[h2]; !strings.HasPrefix(string(body), want) {
			t.Errorf("HTTP/2 %v: %q", h2, body)
		}
		transport.CloseIdleConnections()
	}
	eventually.True(t, "connections that ended are not counted", func() bool { return l.Stats().Open == 0 })
	if s := l.Stats(); s.Failed != 0 || s.Full != 0 {
		t.Errorf("%+v", s)
	}
}

// TestClosedTwice: a connection that is closed twice is one that has ended.
func TestClosedTwice(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	l := inlet.Listen(inner, inlet.Options{})
	client, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []int64{1, 0, 0} {
		if got := l.Stats().Open; got != want {
			t.Errorf("%d connections are open, want %d", got, want)
		}
		_ = server.Close() // the second time it says so
	}
}

// TestFloodOverTLS: frames that ask for nothing end a connection inside of TLS too.
func TestFloodOverTLS(t *testing.T) {
	server, client := overTLS(t)
	var floods atomic.Int32
	_, addr := serve(t, inlet.Options{TLS: server, OnFlood: func(net.Addr) { floods.Add(1) }})
	client.NextProtos = []string{"h2"}
	c, err := tls.Dial("tcp", addr, client)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	go io.Copy(io.Discard, c) // acknowledgements
	io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	pings := bytes.Repeat([]byte("\x00\x00\x08\x06\x00\x00\x00\x00\x0012345678"), 1000)
	eventually.True(t, "the flood is cut off", func() bool {
		c.SetWriteDeadline(time.Now().Add(time.Second))
		c.Write(pings)
		return floods.Load() == 1
	})
}

// TestMaxConnections: one too many is closed at once, and there is room again when one has
// gone.
func TestMaxConnections(t *testing.T) {
	l, addr := serve(t, inlet.Options{MaxConnections: 2})
	dial := func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	first := dial()
	dial()
	eventually.True(t, "two are open", func() bool { return l.Stats().Open == 2 })
	third := dial()
	third.SetReadDeadline(time.Now().Add(eventually.Patience))
	if n, err := third.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("the third reads %d, %v", n, err)
	}
	if s := l.Stats(); s.Full != 1 {
		t.Errorf("%+v", s)
	}
	first.Close()
	eventually.True(t, "there is room", func() bool { return l.Stats().Open == 1 })
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: eventually.Patience}).Get("http://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
}

// TestFailures: who does not speak TLS is told so where that can be, and counted; who says
// nothing is not.
func TestFailures(t *testing.T) {
	server, _ := overTLS(t)
	var told atomic.Int32
	l, addr := serve(t, inlet.Options{TLS: server, OnFailure: func(_ net.Addr, err error) {
		if err != nil {
			told.Add(1)
		}
	}})
	say := func(text string) string {
		t.Helper()
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, text)
		c.(*net.TCPConn).CloseWrite()
		c.SetReadDeadline(time.Now().Add(eventually.Patience))
		answer, _ := io.ReadAll(c)
		return string(answer)
	}
	if answer := say("GET / HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.Contains(answer, "400") || !strings.Contains(answer, "https") {
		t.Errorf("plain HTTP: %q", answer)
	}
	if answer := say("\x00\x01\x02\x03\x04\x05\x06\x07"); strings.Contains(answer, "HTTP") {
		t.Errorf("bytes: %q", answer)
	}
	say("")
	eventually.True(t, "all have gone", func() bool { return l.Stats().Open == 0 })
	if s := l.Stats(); s.Failed != 2 || told.Load() != 2 {
		t.Errorf("%+v, told %d", s, told.Load())
	}
}

// accepted returns both ends of a connection to a Listener of these options, before any handshake.
func accepted(t *testing.T, o inlet.Options) (server net.Conn, addr string, dial func(*tls.Config) net.Conn) {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := inlet.Listen(inner, o)
	t.Cleanup(func() { l.Close() })
	conn, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return server, inner.Addr().String(), func(c *tls.Config) net.Conn {
		c = c.Clone()
		c.ServerName = "127.0.0.1"
		return tls.Client(conn, c)
	}
}

// TestEndIsTold: a client of TLS is told that the connection ends, so that it does not take it for
// one that was cut.
func TestEndIsTold(t *testing.T) {
	settings, client := overTLS(t)
	server, _, dial := accepted(t, inlet.Options{TLS: settings, Unguarded: true})
	go func() {
		_, _ = inlet.Handshake(server) // the client says whether it worked
		server.Close()
	}()
	if n, err := dial(client).Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// TestCertificate: nobody has shown a certificate but who has shown one that an authority has signed.
func TestCertificate(t *testing.T) {
	one := &x509.Certificate{}
	for name, c := range map[string]struct {
		peer *inlet.Peer
		want *x509.Certificate
	}{
		"no TLS":   {nil, nil},
		"none":     {&inlet.Peer{}, nil},
		"unsigned": {&inlet.Peer{State: tls.ConnectionState{PeerCertificates: []*x509.Certificate{one}}}, nil},
		"no chain": {&inlet.Peer{State: tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{one}}}}, nil},
		"signed":   {&inlet.Peer{State: tls.ConnectionState{PeerCertificates: []*x509.Certificate{one}, VerifiedChains: [][]*x509.Certificate{{one}}}}, one},
	} {
		if got := c.peer.Certificate(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestGreet: handlers know who is at the other end of TLS, and of nobody in plain text.
func TestGreet(t *testing.T) {
	plain, _, _ := accepted(t, inlet.Options{})
	ctx, err := inlet.Greet(t.Context(), plain)
	if err != nil || inlet.PeerOf(ctx) != nil {
		t.Errorf("plain text: %v, %v", inlet.PeerOf(ctx), err)
	}
	settings, client := overTLS(t)
	secure, _, dial := accepted(t, inlet.Options{TLS: settings})
	go func() { _, _ = dial(client).Write([]byte("x")) }()
	if ctx, err = inlet.Greet(t.Context(), secure); err != nil || inlet.PeerOf(ctx) == nil || !inlet.PeerOf(ctx).State.HandshakeComplete {
		t.Errorf("TLS: %v, %v", inlet.PeerOf(ctx), err)
	}
	broken, _, _ := accepted(t, inlet.Options{TLS: settings})
	broken.Close()
	if ctx, err = inlet.Greet(t.Context(), broken); inlet.PeerOf(ctx) != nil {
		t.Errorf("a handshake that failed: %v, %v", inlet.PeerOf(ctx), err)
	}
}
