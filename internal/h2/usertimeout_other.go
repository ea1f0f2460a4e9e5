//go:build !linux

package h2

import (
	"net"
	"time"
)

// setUserTimeout does nothing: other systems have no such setting, and end a connection whose
// other side is gone when PingTimeout has passed.
func setUserTimeout(net.Conn, time.Duration) {}
