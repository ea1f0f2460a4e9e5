package identity

import (
	"fmt"
	"net/http"
	"net/netip"
	"sync/atomic"

	"github.com/headgate/headgate/internal/ascii"
)

// MaxHops bounds how many entries of a header are looked at from the right. A
// chain of trusted proxies is a few long.
const MaxHops = 32

// AddressSource is where the address of a client is read when a trusted proxy is
// between. Exactly one is read: a client can write any header that the proxies
// do not set themselves.
type AddressSource uint8

const (
	// PeerOnly reads no header: the address is the peer's. It is the zero value.
	PeerOnly AddressSource = iota
	// ForwardedFor reads X-Forwarded-For.
	ForwardedFor
	// Forwarded reads the "for" of the Forwarded header of RFC 7239.
	Forwarded
	// SingleHeader reads a header that holds one address, such as
	// CF-Connecting-IP.
	SingleHeader
)

// Vouch reports whether the peer of a request is one of ours, whatever its address is.
type Vouch func(*http.Request) bool

// ClientIPOptions configures a ClientIP. The zero value takes the peer of the
// connection for the client.
type ClientIPOptions struct {
	// Trusted are the networks of the proxies. A header is read only if the peer
	// lies in one of them. At most MaxTrusted, none of them the whole Internet.
	Trusted []netip.Prefix
	// Hops, when not 0, is how many proxies append to the header: the client is
	// the entry at that place from the right, whatever its network. With Trusted
	// the peer must lie there too; without, every peer is taken for the nearest
	// proxy, which is safe only where nobody else can connect. At most MaxHops.
	Hops int
	// Source is where the address is read. The default is PeerOnly.
	Source AddressSource
	// Header is the name of the header of SingleHeader.
	Header string
	// LocalPeer stands for a peer that has no IP address, which is the case on a
	// unix socket: 127.0.0.1, for instance, which may lie in Trusted. The zero
	// value makes such a request fail with ErrNoAddress.
	LocalPeer netip.Addr
	// Vouched, when not nil, reports whether the peer of a request is trusted though its
	// address is not in Trusted, because it has shown in another way who it is.
	Vouched Vouch
}

// ClientIP tells the address of the client that a request comes from. Only the
// peer of the connection is certain; every header is what the client wrote, up to
// the first proxy that is ours. So a header is read from the right, where our
// proxies append, and the first address there that is none of ours is the client.
// What a client puts on the left changes nothing.
//
//	X-Forwarded-For: 1.1.1.1, 203.0.113.9, 10.0.0.2     peer 10.0.0.1, trusted 10.0.0.0/8
//	                 written  the client   a proxy
//	                 by the
//	                 client
//
// Text that is no address ends the walk: the answer is then the last good address,
// that of the proxy which vouched for the text. With no entries, or only trusted
// ones, it is the peer.
//
// A ClientIP is safe for concurrent use and does not allocate.
type ClientIP struct {
	trusted   networks
	hops      int
	source    AddressSource
	header    string
	localPeer netip.Addr
	vouched   Vouch

	junk, short, untrusted atomic.Uint64
}

// NewClientIP checks options.
func NewClientIP(o ClientIPOptions) (*ClientIP, error) {
	var bad problems
	c := &ClientIP{trusted: newNetworks(o.Trusted, &bad), hops: o.Hops, source: o.Source, vouched: o.Vouched}
	if o.Hops < 0 || o.Hops > MaxHops {
		bad.add("Hops", fmt.Sprint(o.Hops), fmt.Sprintf("write how many proxies append to the header, up to %d", MaxHops))
	}
	if o.LocalPeer.IsValid() {
		var ok bool
		if c.localPeer, ok = plainAddr(o.LocalPeer); !ok {
			bad.add("LocalPeer", o.LocalPeer.String()+" is nobody's address", "write 127.0.0.1")
		}
	}
	if o.Source != SingleHeader && o.Header != "" {
		bad.add("Header", "set without SingleHeader", "set Source to SingleHeader, or leave Header empty")
	}
	switch o.Source {
	case PeerOnly:
		if o.Hops != 0 {
			bad.add("Hops", "set without a header to count in", "set Source to ForwardedFor or Forwarded")
		}
	case ForwardedFor, Forwarded:
		c.header = "X-Forwarded-For"
		if o.Source == Forwarded {
			c.header = "Forwarded"
		}
		if len(o.Trusted) == 0 && o.Hops == 0 {
			bad.add("Trusted", "empty", "name the networks of your proxies, or set Hops to how many there are")
		}
	case SingleHeader:
		c.header = http.CanonicalHeaderKey(o.Header)
		checkSingleHeader(o, c.header, &bad)
	default:
		bad.add("Source", fmt.Sprint(o.Source), "use one of the constants")
	}
	return c, bad.err()
}

func checkSingleHeader(o ClientIPOptions, name string, bad *problems) {
	switch {
	case !ascii.IsToken(o.Header):
		bad.add("Header", fmt.Sprintf("%q is no header name", o.Header), "write the header that your proxy sets, such as CF-Connecting-IP")
	case name == "X-Forwarded-For" || name == "Forwarded":
		bad.add("Header", name+" holds a list", "set Source to ForwardedFor or Forwarded")
	}
	if len(o.Trusted) == 0 {
		bad.add("Trusted", "empty", "anyone can send this header: name the networks of the proxy that sets it")
	}
	if o.Hops != 0 {
		bad.add("Hops", "set with SingleHeader", "leave it 0: there is nothing to count")
	}
}

// Addr returns the address of the client, as IPv4 where it is that, without a
// zone; never an unspecified one. The error is ErrNoAddress.
func (c *ClientIP) Addr(r *http.Request) (netip.Addr, error) {
	peer, ok := c.peer(r)
	if !ok {
		return netip.Addr{}, ErrNoAddress
	}
	if c.source == PeerOnly {
		return peer, nil
	}
	lines := r.Header[c.header]
	if !c.trusts(r, peer) {
		if len(lines) > 0 {
			c.untrusted.Add(1)
		}
		return peer, nil
	}
	if c.source == SingleHeader {
		return c.single(peer, lines), nil
	}
	return c.walk(peer, lines), nil
}

// PeerTrusted reports whether the request comes from a peer in Trusted, or a vouched one: whether
// what proxies of ours set may be believed.
func (c *ClientIP) PeerTrusted(r *http.Request) bool {
	peer, ok := c.peer(r)
	return ok && c.knows(r, peer)
}

func (c *ClientIP) trusts(r *http.Request, peer netip.Addr) bool {
	return len(c.trusted) == 0 && c.hops > 0 || c.knows(r, peer)
}

// knows reports whether the peer of r is one of ours.
func (c *ClientIP) knows(r *http.Request, peer netip.Addr) bool {
	return c.trusted.contains(peer) || c.vouched != nil && c.vouched(r)
}

// peer returns the address of the other end of the connection.
func (c *ClientIP) peer(r *http.Request) (netip.Addr, bool) {
	if addr, ok := parseHop(r.RemoteAddr); ok {
		return addr, true
	}
	return c.localPeer, c.localPeer.IsValid()
}

// single returns the one address of a header, and the peer's where the header is
// missing, repeated or no address.
func (c *ClientIP) single(peer netip.Addr, lines []string) netip.Addr {
	if len(lines) == 0 {
		c.short.Add(1)
		return peer
	}
	if len(lines) == 1 {
		if addr, ok := parseHop(lines[0]); ok {
			return addr
		}
	}
	c.junk.Add(1)
	return peer
}

// walk goes through the entries of all lines, as one list, from the right.
func (c *ClientIP) walk(peer netip.Addr, lines []string) netip.Addr {
	last, more, line := peer, false, ""
	for hop := 1; hop <= MaxHops; hop++ {
		if !more {
			if len(lines) == 0 {
				if c.hops > 0 || hop == 1 {
					c.short.Add(1)
				}
				return peer
			}
			line, lines = lines[len(lines)-1], lines[:len(lines)-1]
		}
		var addr netip.Addr
		var ok bool
		if addr, line, more, ok = c.cut(line); !ok {
			c.junk.Add(1)
			return last
		}
		if hop == c.hops || c.hops == 0 && !c.trusted.contains(addr) {
			return addr
		}
		last = addr
	}
	return peer
}

// cut cuts the last address off a line.
func (c *ClientIP) cut(line string) (addr netip.Addr, rest string, more, ok bool) {
	var element string
	if c.source == ForwardedFor {
		rest, element, more = cutHop(line)
	} else {
		rest, element, more = cutForwarded(line)
		if element, ok = forwardedFor(element); !ok {
			return addr, rest, more, false
		}
	}
	addr, ok = parseHop(element)
	return addr, rest, more, ok
}

// ClientIPStats counts what is worth a look since the start.
type ClientIPStats struct {
	// Junk is how many headers of trusted peers held something that is no
	// address where one was needed, or a single address several times.
	Junk uint64
	// Short is how many headers of trusted peers were missing, or had fewer
	// entries than Hops: a proxy that does not append, or a way around one.
	Short uint64
	// Untrusted is how many requests of untrusted peers carried the header: a
	// network missing in Trusted, or someone who tries.
	Untrusted uint64
}

// Stats returns the counts so far.
func (c *ClientIP) Stats() ClientIPStats {
	return ClientIPStats{Junk: c.junk.Load(), Short: c.short.Load(), Untrusted: c.untrusted.Load()}
}
