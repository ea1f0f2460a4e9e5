package h2

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headgate/headgate/internal/inlet"
)

// below hides a connection as TLS does.
type below struct {
	net.Conn
	under net.Conn
}

func (b below) NetConn() net.Conn { return b.under }

// A client whose machine is gone acknowledges nothing: the kernel is told for how long to go on
// sending to it, also where the connection is one of TLS or came through the inlet, as all of
// a process do. A pipe, which has no such setting, is served all the same.
func TestUserTimeout(t *testing.T) {
	for name, wrap := range map[string]func(net.Listener) net.Listener{
		"plain": func(l net.Listener) net.Listener { return l },
		"TLS":   func(l net.Listener) net.Listener { return hiding{l} },
		"inlet": func(l net.Listener) net.Listener { return inlet.Listen(l, inlet.Options{}) },
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			client, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			server, err := wrap(l).Accept()
			if err != nil {
				t.Fatal(err)
			}
			s := echoServer()
			s.Limits.PingTimeout = 7 * time.Second
			p := meetOn(t, s, client, server, false)
			p.stays(1)
			got := 0
			if e := inlet.Socket(server).Control(func(fd uintptr) {
				got, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
			}); e != nil || err != nil || got != 7000 {
				t.Errorf("TCP_USER_TIMEOUT is %d ms, %v, %v", got, e, err)
			}
		})
	}
}

// hiding is a listener of connections that are hidden as TLS does.
type hiding struct{ net.Listener }

func (h hiding) Accept() (net.Conn, error) {
	nc, err := h.Listener.Accept()
	return below{nc, nc}, err
}
