package webhook

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

const (
	// dialTimeout bounds the time to connect, and headerTimeout that until an answer
	// begins.
	dialTimeout, headerTimeout = 5 * time.Second, 10 * time.Second
	// maxHeader bounds the header of an answer, in bytes.
	maxHeader = 64 << 10
	// maxIdle is how long a connection that is not used is kept.
	maxIdle = 90 * time.Second
)

var (
	errMetadata = errors.New("the address is one where clouds tell machines their secrets, or of one link only; hint: name the receiver's own address")
	errNotHere  = errors.New("http leads to another machine; hint: use https")
)

// forbidden are networks that no receiver is in: link-local ones, where clouds have
// their metadata service, and its addresses elsewhere.
var forbidden = []netip.Prefix{
	netip.MustParsePrefix("169.254.0.0/16"),
	netip.MustParsePrefix("fe80::/10"),
	netip.MustParsePrefix("fd00:ec2::/32"),
	netip.MustParsePrefix("100.100.100.200/32"),
}

// translated is the network whose addresses stand for those of IPv4 (RFC 6052).
var translated = netip.MustParsePrefix("64:ff9b::/96")

// checkIP refuses addresses that nothing is to be sent to.
func checkIP(ip net.IP, scheme string) error {
	addr, _ := netip.AddrFromSlice(ip)
	if addr = addr.Unmap(); translated.Contains(addr) {
		bytes := addr.As16()
		addr = netip.AddrFrom4([4]byte(bytes[12:]))
	}
	switch {
	case slices.ContainsFunc(forbidden, func(network netip.Prefix) bool { return network.Contains(addr) }):
		return errMetadata
	case scheme == "http" && !addr.IsLoopback():
		return errNotHere
	}
	return nil
}

// newTransport returns what requests of a scheme are sent by. Addresses are checked
// when they are connected to, so that no name can lead where its lookup did not
// before. There is no proxy: that would connect in our place.
func newTransport(scheme string) *http.Transport {
	dialer := &net.Dialer{Timeout: dialTimeout, Control: func(_, address string, _ syscall.RawConn) error {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return err
		}
		addr, err := netip.ParseAddr(host)
		if err != nil {
			return err
		}
		return checkIP(addr.AsSlice(), scheme)
	}}
	return &http.Transport{
		DialContext: dialer.DialContext, TLSHandshakeTimeout: dialTimeout, ResponseHeaderTimeout: headerTimeout,
		MaxResponseHeaderBytes: maxHeader, MaxIdleConnsPerHost: workers, IdleConnTimeout: maxIdle,
		DisableCompression: true, ForceAttemptHTTP2: true,
	}
}
