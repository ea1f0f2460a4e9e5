package identity

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"
)

const (
	// proxyLineLength is the longest header of version 1, its end of line
	// included, by the specification.
	proxyLineLength = 107
	// MaxProxyHeader bounds the addresses and extensions of a header of version
	// 2, in bytes. The format allows 64 KiB; certificates' names and the like
	// need some hundreds.
	MaxProxyHeader = 4096

	proxySignature = "\r\n\r\n\x00\r\nQUIT\n"
	proxyFixed     = 16
)

// Faults of a PROXY protocol header. They hold nothing of what was sent.
var (
	errProxyShort   = errors.New("more bytes are needed")
	errProxyMissing = errors.New("no PROXY protocol header")
	errProxyBad     = errors.New("malformed PROXY protocol header")
	errProxyLong    = errors.New("PROXY protocol header too long")
)

// proxyHeader is what a header of the PROXY protocol says. Source is not valid
// where the header names no addresses: the connection is then the proxy's own.
type proxyHeader struct {
	source, target netip.AddrPort
}

// parseProxyHeader reads a header of version 1 or 2 at the start of data and
// returns its length. The error is errProxyShort while the header may still be
// good but is not whole.
func parseProxyHeader(data []byte) (h proxyHeader, n int, err error) {
	if hasPrefixSoFar(data, proxySignature) {
		return parseProxyBinary(data)
	}
	if hasPrefixSoFar(data, "PROXY ") {
		return parseProxyLine(data)
	}
	return h, 0, errProxyMissing
}

// hasPrefixSoFar reports whether data starts with prefix, or may do so when more
// of it has come.
func hasPrefixSoFar(data []byte, prefix string) bool {
	n := min(len(data), len(prefix))
	return string(data[:n]) == prefix[:n]
}

// parseProxyLine reads "PROXY TCP4 source target port port\r\n".
func parseProxyLine(data []byte) (h proxyHeader, n int, err error) {
	end := bytes.IndexByte(data[:min(len(data), proxyLineLength)], '\n')
	switch {
	case end < 0 && len(data) >= proxyLineLength:
		return h, 0, errProxyLong
	case end < 0:
		return h, 0, errProxyShort
	case end < 1 || data[end-1] != '\r':
		return h, 0, errProxyBad
	}
	line := string(data[:end-1])
	if line == "PROXY UNKNOWN" || strings.HasPrefix(line, "PROXY UNKNOWN ") {
		return h, end + 1, nil
	}
	var fields [6]string
	for i := range fields {
		var more bool
		if fields[i], line, more = strings.Cut(line, " "); more != (i < len(fields)-1) {
			return h, 0, errProxyBad
		}
	}
	if fields[1] != "TCP4" && fields[1] != "TCP6" {
		return h, 0, errProxyBad
	}
	six := fields[1] == "TCP6"
	var ok1, ok2 bool
	h.source, ok1 = proxyEndpoint(fields[2], fields[4], six)
	h.target, ok2 = proxyEndpoint(fields[3], fields[5], six)
	if !ok1 || !ok2 || h.source.Addr().IsUnspecified() {
		return proxyHeader{}, 0, errProxyBad
	}
	return h, end + 1, nil
}

// proxyEndpoint reads an address of the family that the line names, and a port
// without leading zeros.
func proxyEndpoint(host, port string, six bool) (netip.AddrPort, bool) {
	addr, err := netip.ParseAddr(host)
	if err != nil || addr.Is6() != six || addr.Zone() != "" {
		return netip.AddrPort{}, false
	}
	number, ok := parsePort(port)
	if !ok || len(port) > 1 && port[0] == '0' {
		return netip.AddrPort{}, false
	}
	return netip.AddrPortFrom(addr.Unmap(), number), true
}

// parseProxyBinary reads signature, version and command, family, length,
// addresses, and passes over the extensions that follow them.
func parseProxyBinary(data []byte) (h proxyHeader, n int, err error) {
	if len(data) < proxyFixed {
		return h, 0, errProxyShort
	}
	command, family := data[12], data[13]
	if command != 0x20 && command != 0x21 {
		return h, 0, errProxyBad
	}
	length := int(binary.BigEndian.Uint16(data[14:]))
	if length > MaxProxyHeader {
		return h, 0, errProxyLong
	}
	n = proxyFixed + length
	if len(data) < n {
		return h, 0, errProxyShort
	}
	if command == 0x20 {
		return h, n, nil // the proxy speaks for itself, to see whether we live
	}
	body := data[proxyFixed:n]
	switch family {
	case 0x11, 0x21: // TCP over IPv4, over IPv6
		size := 4
		if family == 0x21 {
			size = 16
		}
		if len(body) < 2*size+4 {
			return h, 0, errProxyBad
		}
		source, _ := netip.AddrFromSlice(body[:size])
		target, _ := netip.AddrFromSlice(body[size : 2*size])
		ports := body[2*size:]
		h.source = netip.AddrPortFrom(source.Unmap(), binary.BigEndian.Uint16(ports))
		h.target = netip.AddrPortFrom(target.Unmap(), binary.BigEndian.Uint16(ports[2:]))
		if h.source.Addr().IsUnspecified() {
			return proxyHeader{}, 0, errProxyBad
		}
	case 0x00, 0x31: // unspecified, unix stream: nobody with an IP address
	default:
		return h, 0, errProxyBad
	}
	return h, n, nil
}
