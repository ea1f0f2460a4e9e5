package forwardauth

import (
	"net/netip"
	"slices"
	"strings"
)

// Peers are those who may ask: networks, and whoever connects by a unix socket,
// whom the file system has let in. The zero value is unix sockets alone.
type Peers struct{ networks []netip.Prefix }

// NewPeers returns the peers in these networks.
func NewPeers(networks []netip.Prefix) Peers { return Peers{slices.Clone(networks)} }

// Allow reports whether addr, the address of a connection's other end as package
// net writes it, is that of a peer.
func (p Peers) Allow(addr string) bool {
	if addr == "" || addr[0] == '@' || addr[0] == '/' {
		return true // a unix socket: no name, an abstract one, a path
	}
	return p.within(addr)
}

// within reports whether addr is in one of the networks.
func (p Peers) within(addr string) bool {
	from, err := netip.ParseAddrPort(addr)
	if err != nil {
		return false
	}
	ip := from.Addr().Unmap().WithZone("")
	return slices.ContainsFunc(p.networks, func(n netip.Prefix) bool { return n.Contains(ip) })
}

// hostOf returns addr without its port, for a log.
func hostOf(addr string) string {
	if i := strings.LastIndexByte(addr, ':'); i >= 0 {
		return addr[:i]
	}
	return addr
}
