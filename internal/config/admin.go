package config

import "errors"

// Admin are the settings of the API for operators, which shows how the node is and
// changes what tenants may use. Without a database of tenants it shows only.
type Admin struct {
	AdminAddr     string `group:"admin" placeholder:"ADDR" help:"Address of the API that shows how this node is, and shows and changes what tenants may use: host:port, or unix:///path. Default: off."`
	AdminTokens   string `group:"admin" placeholder:"FILE" help:"YAML file of the tokens and client certificates that the admin API and the dashboard allow; 'headgate admin token' makes a line of it. Read again when it changes."`
	AdminHashKey  string `group:"admin" placeholder:"FILE" help:"The key that API keys are hashed by ('openssl rand -base64 32'): those that the admin API is given in full, and those that callers send in entries api_key, so that the quota of one is found. The same on all nodes. Default: hash_key_file of --identity. Without either, keys are named by hash:HASH."`
	AdminTLSCert  string `group:"admin" placeholder:"FILE" help:"Certificate chain in PEM, to serve the admin API over HTTPS. Read again when it changes."`
	AdminTLSKey   string `group:"admin" placeholder:"FILE" help:"Key of --admin-tls-cert in PEM."`
	AdminClientCA string `group:"admin" placeholder:"FILE" help:"Authorities in PEM: every client of the admin API must have a certificate that one of them has signed. Without a token its common name is who asks. Read again when it changes."`
}

// validate looks at tokens and keys only where an API is served: others use them too.
func (a *Admin) validate() error {
	if a.AdminAddr == "" {
		return unused("admin-addr", "no admin API is served", given{"admin-tls-cert", a.AdminTLSCert != ""}, given{"admin-tls-key", a.AdminTLSKey != ""}, given{"admin-client-ca", a.AdminClientCA != ""})
	}
	return errors.Join(
		refuse(a.AdminTokens == "", "--admin-tokens: nobody could ask; hint: `headgate admin token NAME --scope write`"),
		alone("admin-tls", a.AdminTLSCert, a.AdminTLSKey),
		refuse(a.AdminClientCA != "" && a.AdminTLSCert == "", "--admin-client-ca: certificates of clients need TLS; hint: --admin-tls-cert and --admin-tls-key"),
		address("admin-addr", a.AdminAddr),
	)
}
