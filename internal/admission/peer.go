package admission

import (
	"math"
	"net/netip"
)

// RemoteAddressKey is the entry key of the address of a peer.
const RemoteAddressKey = "remote_address"

// ipv6PrefixBits is what one customer usually holds of IPv6: limiting single
// addresses would hand out 2^64 quotas.
const ipv6PrefixBits = 64

// RemoteAddress names the peer of an address with a port: an IPv4 address, or
// the /64 of an IPv6 address; false when it is neither.
func RemoteAddress(peer string) (string, bool) {
	name, _, ok := Remote(peer)
	return name, ok
}

// Remote is RemoteAddress and PeerAddr at once.
func Remote(peer string) (name string, addr netip.Addr, ok bool) {
	if end, address, ok := ipv4(peer); ok {
		return peer[:end], netip.AddrFrom4(address), true
	}
	parsed, err := netip.ParseAddrPort(peer)
	if err != nil {
		return "", netip.Addr{}, false
	}
	addr = parsed.Addr().Unmap().WithZone("")
	if addr.Is4() {
		return addr.String(), addr, true
	}
	prefix, err := addr.Prefix(ipv6PrefixBits)
	return prefix.String(), addr, err == nil
}

// PeerAddr returns the address of a peer's address with a port, as IPv4 where it is
// that, without a zone; the zero value of what is neither.
func PeerAddr(peer string) netip.Addr {
	if _, address, ok := ipv4(peer); ok {
		return netip.AddrFrom4(address)
	}
	parsed, _ := netip.ParseAddrPort(peer)
	return parsed.Addr().Unmap().WithZone("")
}

// ipv4 reads an IPv4 address with a port, of which there is one way to write it;
// false for anything else. The address ends before end. It is there for speed:
// net/http keeps the address of each request as text.
func ipv4(peer string) (end int, address [4]byte, ok bool) {
	at := 0
	for part := range address {
		from, n := at, 0
		for at < len(peer) && isDigit(peer[at]) && at-from < 3 {
			n = n*10 + int(peer[at]-'0')
			at++
		}
		if at == from || n > 255 || peer[from] == '0' && at-from > 1 || at == len(peer) || peer[at] != "...:"[part] {
			return 0, address, false
		}
		address[part] = byte(n)
		at++
	}
	return at - 1, address, isPort(peer[at:])
}

// isPort accepts a number up to 65535 of at most five digits, as all systems write it.
func isPort(s string) bool {
	n := 0
	for i := range len(s) {
		if !isDigit(s[i]) {
			return false
		}
		n = n*10 + int(s[i]-'0')
	}
	return 0 < len(s) && len(s) <= len("65535") && n <= math.MaxUint16
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
