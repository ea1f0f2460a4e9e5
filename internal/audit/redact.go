package audit

import (
	"net/netip"

	"github.com/headgate/headgate/internal/keyname"
	"github.com/headgate/headgate/internal/view"
)

// Bits of an address that a redacted event keeps: of IPv4, and of IPv6.
const (
	keptBits4 = 24
	keptBits6 = 48
)

// Redact returns e for those who may not see who was limited: with the keyed hash of the
// key and of all values in their place, and the network in place of the address of the client (/24 of IPv4,
// /48 of IPv6). The user agent stays.
func (r *Recorder) Redact(e view.Event) view.Event { return redact(e, r.hasher) }

func redact(e view.Event, h *keyname.Hasher) view.Event {
	if !e.KeyHashed {
		e.Key, e.KeyHashed = h.Hash(e.Domain, e.Key), true
		if e.Descriptors != nil {
			e.Descriptors = hideValues(e.Domain, e.Descriptors, h)
		}
	}
	e.ClientIP = network(e.ClientIP)
	return e
}

// network returns the network of an address; "" of what is none.
func network(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		if _, err := netip.ParsePrefix(address); err == nil {
			return address // cut before
		}
		return ""
	}
	bits := keptBits6
	if ip = ip.Unmap(); ip.Is4() {
		bits = keptBits4
	}
	prefix, err := ip.Prefix(bits)
	if err != nil {
		return ""
	}
	return prefix.String()
}
