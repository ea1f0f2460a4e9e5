package app

import (
	"fmt"
	"net"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/telemetry"
)

// balanced are the listeners behind load balancers that speak the PROXY protocol.
type balanced []balancedListener

type balancedListener struct {
	name string
	*identity.ProxyListener
}

// behindBalancer returns l as the listener of that name is served: behind the PROXY
// protocol where settings say so. TLS, if any, comes behind that header.
func (p *process) behindBalancer(name string, l net.Listener) (net.Listener, error) {
	s := &p.settings.LoadBalancers
	if !s.Behind(name) {
		return l, nil
	}
	from, err := s.Balancers()
	if err != nil {
		return nil, err
	}
	told, err := identity.NewProxyListener(l, identity.ProxyListenerOptions{
		Trusted: from, TrustLocal: l.Addr().Network() == "unix", RefuseOthers: s.ProxyProtocolOthers == "refuse",
	})
	if err != nil {
		return nil, fmt.Errorf("--proxy-protocol: %w", err)
	}
	p.inlets.balanced = append(p.inlets.balanced, balancedListener{name, told})
	return told, nil
}

// stats returns what metrics tell of connections.
func (b balanced) stats() []telemetry.Balanced {
	var all []telemetry.Balanced
	for _, l := range b {
		s := l.Stats()
		all = append(all,
			telemetry.Balanced{Listener: l.name, Outcome: "proxied", Connections: s.Proxied - min(s.Bad, s.Proxied)},
			telemetry.Balanced{Listener: l.name, Outcome: "bad", Connections: s.Bad},
			telemetry.Balanced{Listener: l.name, Outcome: "refused", Connections: s.Refused})
	}
	return all
}
