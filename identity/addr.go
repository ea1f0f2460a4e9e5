package identity

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/headgate/headgate/internal/ascii"
)

const (
	// MaxTrusted bounds the networks of one configuration; the published lists
	// of large networks hold some hundreds.
	MaxTrusted = 4096
	// maxHopLength bounds one address in a header, blanks included. The longest
	// that means anything is an IPv6 address with zone, brackets and port.
	maxHopLength = 128
)

// networks is a set of prefixes, sorted and free of nested ones, so that at most
// one can hold an address. The zero value holds none.
type networks []netip.Prefix

// newNetworks checks and sorts prefixes, the Trusted of some options.
func newNetworks(prefixes []netip.Prefix, bad *problems) networks {
	if len(prefixes) > MaxTrusted {
		bad.add("Trusted", fmt.Sprintf("%d networks", len(prefixes)), fmt.Sprintf("at most %d", MaxTrusted))
		return nil
	}
	sorted := make([]netip.Prefix, 0, len(prefixes))
	for i, p := range prefixes {
		p, problem := plainPrefix(p)
		if problem != "" {
			bad.add(index("Trusted", i), problem, "write the network of a proxy that you run, such as 10.0.0.0/8 or 2001:db8::/32")
			continue
		}
		sorted = append(sorted, p)
	}
	slices.SortFunc(sorted, func(a, b netip.Prefix) int {
		if c := a.Addr().Compare(b.Addr()); c != 0 {
			return c
		}
		return a.Bits() - b.Bits()
	})
	set := sorted[:0]
	for _, p := range sorted {
		if n := len(set); n > 0 && set[n-1].Contains(p.Addr()) {
			continue
		}
		set = append(set, p)
	}
	return set
}

// plainPrefix returns p masked, and as IPv4 where it is IPv4 mapped into IPv6.
func plainPrefix(p netip.Prefix) (netip.Prefix, string) {
	if !p.IsValid() {
		return p, "not a network"
	}
	addr, bits := p.Addr(), p.Bits()
	if addr.Is4In6() {
		if bits < 96 {
			return p, p.String() + " is neither an IPv4 nor an IPv6 network"
		}
		addr, bits = addr.Unmap(), bits-96
	}
	if bits == 0 {
		return p, p.String() + " trusts everyone"
	}
	return netip.PrefixFrom(addr, bits).Masked(), ""
}

// contains reports whether addr, unmapped and without a zone, lies in the set.
func (n networks) contains(addr netip.Addr) bool {
	low, high := 0, len(n)
	for low < high {
		if mid := int(uint(low+high) / 2); n[mid].Addr().Compare(addr) <= 0 {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low > 0 && n[low-1].Contains(addr)
}

// parseHop reads an address as proxies write it: with or without a port,
// brackets, a zone, blanks around it. It reports false for anything else.
func parseHop(s string) (netip.Addr, bool) {
	if len(s) > maxHopLength {
		return netip.Addr{}, false
	}
	s = strings.Trim(s, " \t")
	if s == "" {
		return netip.Addr{}, false
	}
	if s[0] == '[' {
		end := strings.IndexByte(s, ']')
		if end < 0 || end+1 < len(s) && (s[end+1] != ':' || !isPort(s[end+2:])) {
			return netip.Addr{}, false
		}
		if s = s[1:end]; strings.IndexByte(s, ':') < 0 {
			return netip.Addr{}, false
		}
	} else if i := strings.IndexByte(s, ':'); i >= 0 && strings.LastIndexByte(s, ':') == i {
		if !isPort(s[i+1:]) {
			return netip.Addr{}, false
		}
		s = s[:i]
	}
	if i := strings.IndexByte(s, '%'); i >= 0 {
		if i+1 == len(s) || strings.IndexByte(s[:i], ':') < 0 {
			return netip.Addr{}, false
		}
		s = s[:i]
	}
	addr, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Addr{}, false
	}
	return plainAddr(addr)
}

// plainAddr returns addr as IPv4 where it is that, without a zone, and whether it
// can be the address of someone.
func plainAddr(addr netip.Addr) (netip.Addr, bool) {
	addr = addr.Unmap().WithZone("")
	return addr, addr.IsValid() && !addr.IsUnspecified()
}

// isPort accepts a port number, and the hidden ports of RFC 7239 ("_name").
func isPort(s string) bool {
	if len(s) > 1 && s[0] == '_' {
		return ascii.Only(s[1:], "._-")
	}
	_, ok := parsePort(s)
	return ok
}

// parsePort reads one to five digits.
func parsePort(s string) (uint16, bool) {
	if s == "" || len(s) > 5 {
		return 0, false
	}
	port := 0
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		port = port*10 + int(s[i]-'0')
	}
	return uint16(port), port <= 0xffff
}

// Prefixes says how much of an address names a client, in bits. Zero stands for
// the default: all 32 of an IPv4 address, 64 of an IPv6 address, because whoever
// holds one IPv6 address holds at least the 2^64 beside it.
type Prefixes struct {
	IPv4, IPv6 int
}

func (p Prefixes) withDefaults() Prefixes {
	p.IPv4 = cmp.Or(p.IPv4, 32)
	p.IPv6 = cmp.Or(p.IPv6, 64)
	return p
}

func (p Prefixes) check(field string, bad *problems) {
	if p.IPv4 < 0 || p.IPv4 > 32 {
		bad.add(field+".IPv4", fmt.Sprintf("%d bits", p.IPv4), "write 1 to 32; 0 means 32")
	}
	if p.IPv6 < 0 || p.IPv6 > 128 {
		bad.add(field+".IPv6", fmt.Sprintf("%d bits", p.IPv6), "write 1 to 128; 0 means 64")
	}
}

// AppendNetwork appends the text of the network that addr lies in: "192.0.2.1"
// for a whole address, "2001:db8::/64" for a part of one. IPv4 in IPv6 is IPv4,
// and a zone is left out. Bits out of range count as all of them.
func AppendNetwork(dst []byte, addr netip.Addr, p Prefixes) []byte {
	addr = addr.Unmap().WithZone("")
	p = p.withDefaults()
	bits := p.IPv6
	if addr.Is4() {
		bits = p.IPv4
	}
	prefix, err := addr.Prefix(bits)
	if err != nil || bits == addr.BitLen() {
		return addr.AppendTo(dst)
	}
	return prefix.AppendTo(dst)
}
