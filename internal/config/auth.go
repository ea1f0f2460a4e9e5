package config

import (
	"errors"
	"net/netip"
)

// Auth are the settings of the way in for gateways that ask about each request
// before they let it pass.
type Auth struct {
	AuthAddr string `group:"gateways" placeholder:"ADDR" help:"Address for gateways that ask by a sub-request about each request (nginx auth_request, Traefik, Caddy, APISIX, HAProxy, Envoy ext_authz): host:port, or unix:///path. With it Envoy's ext_authz over gRPC is served on --grpc-addr too. Default: off."`
	// AuthPeers are networks, or single addresses, with commas between. The default is
	// this machine. Unix sockets are always allowed.
	AuthPeers  string `group:"gateways" default:"127.0.0.0/8,::1/128" placeholder:"NETWORKS" help:"Networks of the gateways that may ask, with commas between. Only from them is it believed what they say of a request. Default ${default}."`
	AuthDomain string `group:"gateways" placeholder:"DOMAIN" help:"Domain of the rules that gateways ask for. Default: the only one there is."`
}

// Peers returns the networks of AuthPeers.
func (a *Auth) Peers() ([]netip.Prefix, error) { return networks("auth-peers", a.AuthPeers) }

func (a *Auth) validate() error {
	_, err := a.Peers()
	if a.AuthAddr == "" {
		return errors.Join(err, unused("auth-addr", "no gateway asks by sub-requests",
			given{"auth-peers", a.AuthPeers != "" && a.AuthPeers != defaultOf[Auth]("AuthPeers")}, given{"auth-domain", a.AuthDomain != ""}))
	}
	return errors.Join(err, address("auth-addr", a.AuthAddr))
}
