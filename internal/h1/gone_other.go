//go:build !linux

package h1

import "net"

// line would tell whether a client has hung up. Other systems do not tell while there is
// something to read.
type line struct{}

func (*line) watch(net.Conn) {}

func (*line) hungUp() bool { return false }
