//go:build !linux

package backlog

import "net"

// refuseTCP does nothing: there is no way that is known to us.
func refuseTCP(*net.TCPListener) {}

// waiting reports false, because this system was not asked.
func waiting(net.Listener) bool { return false }
