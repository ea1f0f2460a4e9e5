package config

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// LoadBalancers says which listeners stand behind a load balancer that tells the address
// of the client by the PROXY protocol. The zero value is none.
type LoadBalancers struct {
	ProxyProtocol       string `group:"listen" placeholder:"LISTENER,..." help:"Listeners whose connections begin with a header of the PROXY protocol, version 1 or 2, by which a load balancer tells the address of the client: http, grpc, auth, redis, usage, admin, dashboard, health, metrics, ops. It comes before TLS. Default: none."`
	ProxyProtocolFrom   string `group:"listen" placeholder:"NETWORKS" help:"Networks of these load balancers, with commas between; on a unix socket everybody is one. A connection from there without the header is closed, or when it takes longer than 3s."`
	ProxyProtocolOthers string `group:"listen" enum:"serve,refuse" default:"serve" help:"Connections to such a listener from elsewhere: serve (their peer is the client, and no header is looked for) or refuse. Default ${default}."`
}

// Balancers returns ProxyProtocolFrom, checked; none where it is empty.
func (s *LoadBalancers) Balancers() ([]netip.Prefix, error) {
	if s.ProxyProtocolFrom == "" {
		return nil, nil
	}
	return networks("proxy-protocol-from", s.ProxyProtocolFrom)
}

// Behind reports whether the listener of that name stands behind a load balancer.
func (s *LoadBalancers) Behind(listener string) bool {
	return slices.Contains(words(s.ProxyProtocol), listener)
}

// CheckListeners refuses names that are none of those of the listeners that there are.
func (s *LoadBalancers) CheckListeners(there []string) error {
	for _, name := range words(s.ProxyProtocol) {
		if !slices.Contains(there, name) {
			return fmt.Errorf("--proxy-protocol: no listener %.40q; hint: this process has %s", name, strings.Join(there, ", "))
		}
	}
	return nil
}

func (s *LoadBalancers) validate() error {
	if s.ProxyProtocol != "" && s.ProxyProtocolFrom == "" {
		return errors.New("--proxy-protocol: nobody may send the header; hint: --proxy-protocol-from 10.1.2.0/24, the networks of your load balancers")
	}
	if s.ProxyProtocol == "" && (s.ProxyProtocolFrom != "" || s.ProxyProtocolOthers == "refuse") {
		return errors.New("--proxy-protocol-from, --proxy-protocol-others: no listener stands behind a load balancer; hint: --proxy-protocol http, or leave them out")
	}
	_, err := s.Balancers()
	return err
}
