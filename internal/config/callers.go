package config

import (
	"net"
)

// Callers are the settings of who may ask for decisions, and for what.
type Callers struct {
	// Callers is the file of tokens and certificates; "" (the default) lets everybody in
	// who reaches a port.
	Callers string `group:"callers" placeholder:"FILE" help:"YAML file of the tokens and client certificates of those who may ask for decisions, with their rights: check, name_limits, give_back, reserve, explain; 'headgate caller token' makes a line of it. Read again when it changes. Who shows none of them may then do what the file says under anonymous, and nothing else. Default: whoever reaches a port may check and reserve."`
	// CallerLimits gives the rights to name limits and to give back to all who reach the
	// HTTP API, the gRPC port and that of Redis clients, or takes them from all; nil (the default) gives them on
	// addresses that only this machine reaches.
	CallerLimits *bool `group:"callers" negatable:"" help:"Let all who reach the HTTP API, the gRPC port and --redis-addr name limits of their own (limit in /v1/check, limit overrides in descriptors, CL.THROTTLE), give back hits (refund, negative hits) and reset counts. Whoever may do so is not limited. --no-caller-limits refuses it to all, whatever they show: 403, PERMISSION_DENIED. Still served then: charges, reservations and what settles them, and calls that renew or release slots of requests in flight, Envoy's negative hits for that among them. Default: on where an address is one of this machine alone (127.0.0.1, localhost, a unix socket), else only by --callers."`
}

// OpensLimits reports whether callers without a credential may name limits and give back
// at an address. Who comes by way of a load balancer, behind, is not of this machine.
func (c *Callers) OpensLimits(addr string, behind bool) bool {
	if c.CallerLimits != nil {
		return *c.CallerLimits
	}
	return c.Callers == "" && !behind && Loopback(addr)
}

// ClosesLimits reports whether nobody may name limits or give back.
func (c *Callers) ClosesLimits() bool { return c.CallerLimits != nil && !*c.CallerLimits }

func (c *Callers) validate() error {
	return refuse(c.Callers != "" && c.CallerLimits != nil && *c.CallerLimits,
		"--caller-limits, --callers: the file says who may name limits and give back; hint: leave --caller-limits out, and write \"anonymous: {http: [check, name_limits, give_back]}\" in the file if all may")
}

// Loopback reports whether only this machine reaches an address.
func Loopback(addr string) bool {
	network, address, err := ListenAddress(addr)
	if err != nil || network == "unix" {
		return err == nil
	}
	host, _, _ := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
