// Package halfclose ends what is sent on a connection, while the other direction stays.
package halfclose

import (
	"errors"
	"net"
)

// Write ends what is sent on c. Where c ends in both directions at once, it does nothing and
// returns errors.ErrUnsupported.
func Write(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
