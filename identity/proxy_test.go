package identity

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// binaryHeader makes a header of version 2.
func binaryHeader(command, family byte, body string) string {
	head := append([]byte(proxySignature), command, family)
	return string(binary.BigEndian.AppendUint16(head, uint16(len(body)))) + body
}

const fourBody = "\xcb\x00\x71\x09\x0a\x00\x00\x01\x30\x39\x01\xbb" // 203.0.113.9:12345 -> 10.0.0.1:443

func sixBody() string {
	source, target := netip.MustParseAddr("2001:db8::9").As16(), netip.MustParseAddr("2001:db8::1").As16()
	return string(source[:]) + string(target[:]) + "\x30\x39\x01\xbb"
}

func TestParseProxyHeader(t *testing.T) {
	const source, target = "203.0.113.9:12345", "10.0.0.1:443"
	const none = "invalid AddrPort"
	for _, test := range []struct {
		name, in       string
		source, target string
		err            error
	}{
		{"TCP4", "PROXY TCP4 203.0.113.9 10.0.0.1 12345 443\r\n", source, target, nil},
		{"TCP6", "PROXY TCP6 2001:db8::9 2001:db8::1 12345 443\r\n", "[2001:db8::9]:12345", "[2001:db8::1]:443", nil},
		{"mapped", "PROXY TCP6 ::ffff:203.0.113.9 ::ffff:10.0.0.1 12345 443\r\n", source, target, nil},
		{"unknown", "PROXY UNKNOWN\r\n", none, none, nil},
		{"unknown with anything", "PROXY UNKNOWN ffff::1 junk\r\n", none, none, nil},
		{"longest unknown", "PROXY UNKNOWN " + strings.Repeat("f", 91) + "\r\n", none, none, nil},
		{"too long", "PROXY UNKNOWN " + strings.Repeat("f", 92) + "\r\n", none, none, errProxyLong},
		{"not ended", "PROXY TCP4 203.0.113.9 10.0.0.1 12345 443\r", none, none, errProxyShort},
		{"nothing yet", "", none, none, errProxyShort},
		{"no carriage return", "PROXY TCP4 203.0.113.9 10.0.0.1 12345 443\n", none, none, errProxyBad},
		{"wrong family", "PROXY TCP4 2001:db8::9 2001:db8::1 1 2\r\n", none, none, errProxyBad},
		{"other family", "PROXY UDP4 203.0.113.9 10.0.0.1 12345 443\r\n", none, none, errProxyBad},
		{"unspecified", "PROXY TCP4 0.0.0.0 10.0.0.1 12345 443\r\n", none, none, errProxyBad},
		{"zone", "PROXY TCP6 fe80::1%a 2001:db8::1 1 2\r\n", none, none, errProxyBad},
		{"large port", "PROXY TCP4 203.0.113.9 10.0.0.1 65536 443\r\n", none, none, errProxyBad},
		{"leading zero", "PROXY TCP4 203.0.113.9 10.0.0.1 0123 443\r\n", none, none, errProxyBad},
		{"two blanks", "PROXY  TCP4 203.0.113.9 10.0.0.1 1 443\r\n", none, none, errProxyBad},
		{"one field more", "PROXY TCP4 203.0.113.9 10.0.0.1 1 443 x\r\n", none, none, errProxyBad},
		{"one field less", "PROXY TCP4 203.0.113.9 10.0.0.1 1\r\n", none, none, errProxyBad},
		{"lower case", "proxy tcp4 203.0.113.9 10.0.0.1 1 2\r\n", none, none, errProxyMissing},
		{"HTTP", "GET / HTTP/1.1\r\n", none, none, errProxyMissing},
		{"binary 4", binaryHeader(0x21, 0x11, fourBody), source, target, nil},
		{"binary 6", binaryHeader(0x21, 0x21, sixBody()), "[2001:db8::9]:12345", "[2001:db8::1]:443", nil},
		{"binary with extensions", binaryHeader(0x21, 0x11, fourBody+"\x04\x00\x02ab"), source, target, nil},
		{"binary local", binaryHeader(0x20, 0x00, ""), none, none, nil},
		{"binary local with addresses", binaryHeader(0x20, 0x11, fourBody), none, none, nil},
		{"binary unspecified", binaryHeader(0x21, 0x00, "junk"), none, none, nil},
		{"binary unix", binaryHeader(0x21, 0x31, strings.Repeat("x", 216)), none, none, nil},
		{"binary datagram", binaryHeader(0x21, 0x12, fourBody), none, none, errProxyBad},
		{"binary command", binaryHeader(0x22, 0x11, fourBody), none, none, errProxyBad},
		{"binary version", binaryHeader(0x11, 0x11, fourBody), none, none, errProxyBad},
		{"binary nobody", binaryHeader(0x21, 0x11, "\x00\x00\x00\x00"+fourBody[4:]), none, none, errProxyBad},
		{"binary body short", binaryHeader(0x21, 0x11, fourBody[:11]), none, none, errProxyBad},
		{"binary cut", binaryHeader(0x21, 0x11, fourBody)[:20], none, none, errProxyShort},
		{"binary too long", binaryHeader(0x21, 0x11, strings.Repeat("x", MaxProxyHeader+1)), none, none, errProxyLong},
	} {
		t.Run(test.name, func(t *testing.T) {
			h, n, err := parseProxyHeader([]byte(test.in + strings.Repeat("rest", min(1, len(test.in)))))
			if errors.Is(test.err, errProxyShort) {
				h, n, err = parseProxyHeader([]byte(test.in))
			}
			if !errors.Is(err, test.err) || h.source.String() != test.source || h.target.String() != test.target {
				t.Fatalf("%v -> %v, %v; want %s -> %s, %v", h.source, h.target, err, test.source, test.target, test.err)
			}
			if err == nil && n != len(test.in) {
				t.Errorf("%d bytes, want %d", n, len(test.in))
			}
		})
	}
}

func FuzzParseProxyHeader(f *testing.F) {
	f.Add([]byte("PROXY TCP4 203.0.113.9 10.0.0.1 12345 443\r\nGET /"))
	f.Add([]byte(binaryHeader(0x21, 0x21, sixBody())))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, n, err := parseProxyHeader(data)
		if err != nil {
			return
		}
		if n < 1 || n > len(data) || n > proxyFixed+MaxProxyHeader || h.source.IsValid() && h.source.Addr().IsUnspecified() {
			t.Fatalf("%d of %d bytes, %v", n, len(data), h)
		}
		for i := range n {
			if _, _, err := parseProxyHeader(data[:i]); !errors.Is(err, errProxyShort) {
				t.Fatalf("the first %d of %d bytes: %v, want errProxyShort", i, n, err)
			}
		}
		again, m, err := parseProxyHeader(append(bytes.Clone(data[:n]), "more"...))
		if err != nil || m != n || again != h {
			t.Fatalf("with more behind: %v, %d, %v", again, m, err)
		}
	})
}

// pipeListener hands out the connections that it is given.
type pipeListener struct {
	net.Listener
	conns chan net.Conn
}

func (l pipeListener) Accept() (net.Conn, error) {
	c, ok := <-l.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

// peerConn is a pipe whose other end has an address.
type peerConn struct {
	net.Conn
	peer string
}

func (c peerConn) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.peer))
}

// accept returns a connection from peer as the listener gives it, and its other end.
func accept(t *testing.T, o ProxyListenerOptions, peer string) (*ProxyListener, net.Conn, net.Conn) {
	t.Helper()
	inner := pipeListener{conns: make(chan net.Conn, 1)}
	l, err := NewProxyListener(inner, o)
	if err != nil {
		t.Fatal(err)
	}
	near, far := net.Pipe()
	t.Cleanup(func() { near.Close(); far.Close() })
	inner.conns <- peerConn{near, peer}
	close(inner.conns)
	conn, err := l.Accept()
	if err != nil {
		return l, nil, far
	}
	return l, conn, far
}

var fromOurs = ProxyListenerOptions{Trusted: prefixes("10.0.0.0/8")}

func TestProxyListenerByteByByte(t *testing.T) {
	for _, header := range []string{"PROXY TCP4 203.0.113.9 10.0.0.1 12345 443\r\n", binaryHeader(0x21, 0x11, fourBody+strings.Repeat("x", 1000))} {
		_, conn, far := accept(t, fromOurs, "10.0.0.1:5")
		go func() {
			for _, b := range []byte(header + "hello") {
				if _, err := far.Write([]byte{b}); err != nil {
					return
				}
			}
			far.Close()
		}()
		if got := conn.RemoteAddr().String(); got != "203.0.113.9:12345" {
			t.Errorf("remote %s", got)
		}
		if got := conn.LocalAddr().String(); got != "10.0.0.1:443" {
			t.Errorf("local %s", got)
		}
		if data, err := io.ReadAll(conn); string(data) != "hello" || err != nil {
			t.Errorf("%q, %v", data, err)
		}
	}
}

func TestProxyListenerKeepsWhatComesBehind(t *testing.T) {
	_, conn, far := accept(t, fromOurs, "10.0.0.1:5")
	go func() {
		_, _ = far.Write([]byte("PROXY UNKNOWN\r\nhello"))
		far.Close()
	}()
	if data, err := io.ReadAll(conn); string(data) != "hello" || err != nil {
		t.Errorf("%q, %v", data, err)
	}
	if got := conn.RemoteAddr().String(); got != "10.0.0.1:5" {
		t.Errorf("remote %s, want the peer", got)
	}
}

func TestProxyListenerNeverBelievesOthers(t *testing.T) {
	const header = "PROXY TCP4 203.0.113.9 10.0.0.1 12345 443\r\n"
	_, conn, far := accept(t, fromOurs, "198.51.100.7:5")
	go func() {
		_, _ = far.Write([]byte(header))
		far.Close()
	}()
	if got := conn.RemoteAddr().String(); got != "198.51.100.7:5" {
		t.Errorf("remote %s", got)
	}
	if data, _ := io.ReadAll(conn); string(data) != header {
		t.Errorf("%q: the header of a stranger is data", data)
	}
	o := fromOurs
	o.RefuseOthers = true
	l, conn, far := accept(t, o, "198.51.100.7:5")
	if conn != nil || l.Stats().Refused != 1 {
		t.Errorf("accepted %v, %+v", conn, l.Stats())
	}
	if _, err := far.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("%v, want a closed connection", err)
	}
}

func TestProxyListenerClosesOnABadHeader(t *testing.T) {
	for name, header := range map[string]string{
		"missing": "GET / HTTP/1.1\r\n", "malformed": "PROXY TCP4 x\r\n", "endless": "PROXY " + strings.Repeat("x", 200), "cut": "PROXY TC",
	} {
		l, conn, far := accept(t, fromOurs, "10.0.0.1:5")
		go func() {
			_, _ = far.Write([]byte(header))
			far.Close()
		}()
		if got := conn.RemoteAddr().String(); got != "10.0.0.1:5" {
			t.Errorf("%s: remote %s", name, got)
		}
		_, readErr := conn.Read(make([]byte, 9))
		_, writeErr := conn.Write([]byte("x"))
		if !errors.Is(readErr, ErrProxyHeader) || !errors.Is(writeErr, ErrProxyHeader) || l.Stats().Bad != 1 {
			t.Errorf("%s: read %v, write %v, %+v", name, readErr, writeErr, l.Stats())
		}
	}
}

func TestProxyListenerDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		l, conn, _ := accept(t, fromOurs, "10.0.0.1:5")
		if err := conn.SetReadDeadline(start.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 9)); !errors.Is(err, ErrProxyHeader) || time.Since(start) != DefaultProxyTimeout {
			t.Errorf("%v after %v, %+v", err, time.Since(start), l.Stats())
		}
	})
}

func TestProxyListenerKeepsTheDeadlineOfItsUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		_, conn, far := accept(t, fromOurs, "10.0.0.1:5")
		if err := conn.SetDeadline(start.Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = far.Write([]byte("PROXY UNKNOWN\r\n")) }()
		if _, err := conn.Read(make([]byte, 9)); err == nil || time.Since(start) != time.Minute {
			t.Errorf("%v after %v, want the user's minute", err, time.Since(start))
		}
		_, conn, _ = accept(t, fromOurs, "10.0.0.1:5")
		start = time.Now()
		if err := conn.SetReadDeadline(start.Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 9)); err == nil || time.Since(start) != time.Second {
			t.Errorf("%v after %v, want the user's second", err, time.Since(start))
		}
	})
}

func TestProxyListenerUnderAServer(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l, err := NewProxyListener(inner, ProxyListenerOptions{Trusted: prefixes("127.0.0.0/8")})
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, strings.NewReader(strings.Repeat("x", 1<<20)+r.RemoteAddr))
	})}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	conn, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, binaryHeader(0x21, 0x11, fourBody)+"GET / HTTP/1.0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(conn); err != nil || !strings.HasSuffix(string(answer), "xx203.0.113.9:12345") || len(answer) < 1<<20 {
		t.Errorf("%d bytes, %.200q, %v", len(answer), answer, err)
	}
}

func TestProxyListenerRefusesBadConfiguration(t *testing.T) {
	for field, o := range map[string]ProxyListenerOptions{
		"Trusted":    {},
		"Trusted[0]": {Trusted: prefixes("0.0.0.0/0")},
		"Timeout":    {TrustLocal: true, Timeout: time.Hour},
	} {
		_, err := NewProxyListener(nil, o)
		var config *ConfigError
		if !errors.As(err, &config) || config.Field != field {
			t.Errorf("%v, want a ConfigError of %s", err, field)
		}
	}
}
