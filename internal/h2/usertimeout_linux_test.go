package h2

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// below hides a connection as TLS does.
type below struct {
	net.Conn
	under net.Conn
}

func (b below) NetConn() net.Conn { return b.under }

// A client whose machine is gone acknowledges nothing: the kernel is told for how long to go on
// sending to it, also where the connection is one of TLS. A pipe, which has no such setting, is
// served all the same.
func TestUserTimeout(t *testing.T) {
	for name, wrap := range map[string]func(net.Conn) net.Conn{
		"plain": func(nc net.Conn) net.Conn { return nc },
		"TLS":   func(nc net.Conn) net.Conn { return below{nc, nc} },
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
			server, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			s := echoServer()
			s.Limits.PingTimeout = 7 * time.Second
			p := meetOn(t, s, client, wrap(server), false)
			p.stays(1)
			got := 0
			control(server, func(fd int) { got, err = unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT) })
			if err != nil || got != 7000 {
				t.Errorf("TCP_USER_TIMEOUT is %d ms, %v", got, err)
			}
		})
	}
}
