package h2

import (
	"crypto/tls"
	"net"
)

// tlsState returns what is known of the TLS of a connection, nil for one without.
func tlsState(nc net.Conn) *tls.ConnectionState {
	c, ok := nc.(interface{ ConnectionState() tls.ConnectionState })
	if !ok {
		return nil
	}
	state := c.ConnectionState()
	return &state
}
