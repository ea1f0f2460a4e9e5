package inlet

import (
	"net"
	"syscall"
)

// Socket returns the socket that c is over, whatever stands between; nil where there is none.
func Socket(c net.Conn) syscall.RawConn {
	for {
		if own, ok := c.(*conn); ok {
			c = own.Conn
			continue
		}
		if socket, ok := c.(syscall.Conn); ok {
			raw, err := socket.SyscallConn()
			if err != nil {
				return nil
			}
			return raw
		}
		over, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		c = over.NetConn()
	}
}
