package config

import "errors"

// OpsTLS are the settings of TLS at --ops-addr and --metrics-addr.
type OpsTLS struct {
	// OpsTLSCert and OpsTLSKey are files in PEM; both or neither.
	OpsTLSCert string `group:"listen" placeholder:"FILE" help:"Certificate chain in PEM, to serve --ops-addr and --metrics-addr over HTTPS. Read again when it changes. Sockets of this machine are served without."`
	OpsTLSKey  string `group:"listen" placeholder:"FILE" help:"Key of --ops-tls-cert in PEM."`
	// OpsClientCA is a file in PEM; "" asks for no certificates.
	OpsClientCA string `group:"listen" placeholder:"FILE" help:"Authorities in PEM: who connects to --ops-addr or --metrics-addr must have a certificate that one of them has signed. Read again when it changes."`
}

// SecuresOps reports whether the operators' address is served by TLS.
func (s *Settings) SecuresOps() bool { return s.secures(s.OpsAddr) }

// SecuresMetrics reports whether the address of metrics is served by TLS.
func (s *Settings) SecuresMetrics() bool { return s.secures(s.MetricsAddr) }

func (t *OpsTLS) secures(addr string) bool {
	network, _, err := ListenAddress(addr)
	return t.OpsTLSCert != "" && err == nil && network == "tcp"
}

// validateOpsTLS refuses what does not go together, and certificates of no listener.
func (s *Settings) validateOpsTLS() error {
	t := &s.OpsTLS
	if s.OpsAddr == "" && s.MetricsAddr == "" {
		return unused("ops-addr", "there is no other address that they are for but --metrics-addr", given{"ops-tls-cert", t.OpsTLSCert != ""}, given{"ops-tls-key", t.OpsTLSKey != ""}, given{"ops-client-ca", t.OpsClientCA != ""})
	}
	return errors.Join(
		alone("ops-tls", t.OpsTLSCert, t.OpsTLSKey),
		refuse(t.OpsClientCA != "" && t.OpsTLSCert == "", "--ops-client-ca: certificates of clients need TLS; hint: --ops-tls-cert and --ops-tls-key"),
	)
}
