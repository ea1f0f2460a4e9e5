package config

import (
	"fmt"
	"net/netip"
	"strings"
)

// maxNetworks bounds each list of networks: they are compared for each connection or request,
// and balancers, proxies and gateways stand in a few.
const maxNetworks = 256

// networks reads a list of networks and single addresses with commas between.
func networks(name, list string) ([]netip.Prefix, error) {
	var found []netip.Prefix
	for text := range strings.SplitSeq(list, ",") {
		text = strings.TrimSpace(text)
		network, err := netip.ParsePrefix(text)
		if addr, notNetwork := netip.ParseAddr(text); notNetwork == nil && addr.Zone() == "" {
			network, err = addr.Prefix(addr.BitLen())
		}
		switch {
		case err != nil:
			return nil, fmt.Errorf("--%s: %.60q is no network; hint: 10.1.2.0/24, 10.1.2.3 or 2001:db8::/64", name, text)
		case network.Addr().Is4In6():
			return nil, fmt.Errorf("--%s: %s is IPv4 in IPv6; hint: write the IPv4 network", name, network)
		case network.Bits() == 0:
			return nil, fmt.Errorf("--%s: the whole Internet; hint: whoever is in these networks can write the address of any client: name those that you run", name)
		case len(found) == maxNetworks:
			return nil, fmt.Errorf("--%s: more than %d networks; hint: name wider ones", name, maxNetworks)
		}
		found = append(found, network.Masked())
	}
	return found, nil
}
