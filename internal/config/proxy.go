package config

import (
	"errors"
	"net/netip"
	"net/url"
	"time"
)

// Proxy is everything that can be set on `headgate proxy`.
type Proxy struct {
	To             string        `group:"backend" required:"" placeholder:"URL" help:"Backend that requests are forwarded to: http://host:port or https://host:port, with a path that goes before theirs if need be."`
	RewriteHost    bool          `group:"backend" help:"Send the host of --to as Host. By default the backend sees the Host that the client sent."`
	BackendTimeout time.Duration `group:"backend" default:"60s" help:"Longest wait for the backend to begin its answer, 504 past it; 0 for no bound. What follows the header takes as long as it takes."`
	MaxBody        Size          `group:"backend" default:"0" placeholder:"SIZE" help:"Largest body of a request, such as 10MiB; 413 for a larger one. Default ${default}: no bound."`

	HTTPAddr  string `group:"listen" default:":8080" placeholder:"ADDR" help:"Address for clients: host:port, or unix:///path. Port 0 takes a free one. Default ${default}."`
	TLSCert   string `group:"listen" placeholder:"FILE" help:"Certificate chain in PEM, to serve HTTPS. The file is read again when it changes."`
	TLSKey    string `group:"listen" placeholder:"FILE" help:"Key of --tls-cert in PEM."`
	MaxHeader Size   `group:"listen" default:"64KiB" placeholder:"SIZE" help:"Largest header of a request; 431 for a larger one. Default ${default}."`

	Settings `embed:""`

	Shedding `embed:""`

	Admin `embed:""`

	Dashboard `embed:""`

	Domain         string `group:"rules" placeholder:"DOMAIN" help:"Domain of the rules that requests are limited by. Default: the only one there is."`
	Costs          string `group:"rules" placeholder:"SHAPE_OR_FILE" help:"Limit what answers cost, such as tokens of a language model, by rules on tokens:total: openai, anthropic, or a YAML file. Default: none."`
	TrustedProxies string `group:"identity" placeholder:"NETWORKS" help:"Networks of proxies in front of this one, with commas between. From them X-Forwarded-For is believed, where the file of --identity has no client_ip. Default: none."`
}

const (
	maxBackendTimeout          = 24 * time.Hour
	minHeaderSize, maxHeadSize = 4 << 10, 1 << 20
)

// Target returns To, checked.
func (s *Proxy) Target() (*url.URL, error) {
	to, err := url.Parse(s.To)
	switch {
	case s.To == "":
		return nil, errors.New("--to: no backend is named; hint: --to http://localhost:9000")
	case err != nil, to.Scheme != "http" && to.Scheme != "https", to.Host == "":
		return nil, errors.New("--to: not a URL of http or https; hint: http://localhost:9000")
	case to.User != nil:
		return nil, errors.New("--to: a user in the URL; hint: leave it out, the credentials that the backend sees are those of the clients")
	case to.RawQuery != "" || to.Fragment != "":
		return nil, errors.New("--to: a query or a fragment in the URL; hint: leave it out")
	}
	return to, nil
}

// Trusted returns the networks of TrustedProxies.
func (s *Proxy) Trusted() ([]netip.Prefix, error) {
	if s.TrustedProxies == "" {
		return nil, nil
	}
	return networks("trusted-proxies", s.TrustedProxies)
}

// Validate reports everything that is wrong with s, each problem with the name
// of its setting and a hint. It opens and resolves nothing.
func (s *Proxy) Validate() error {
	_, err1 := s.Target()
	_, err2 := s.Trusted()
	return errors.Join(
		err1, err2,
		s.Settings.validate(),
		refuse(s.Rules == "" && !s.FedRules() && s.Tenants == (DatabaseURL{}) && !s.Follows(),
			"--rules: none; hint: a proxy without rules limits nothing: --rules FILE_OR_DIR, or --tenants URL for those of a database, or --snapshot-keys for those of an admin process"),
		refuse((s.TLSCert == "") != (s.TLSKey == ""), "--tls-cert and --tls-key: one without the other; hint: give both, or none to serve without TLS"),
		between("backend-timeout", s.BackendTimeout, 0, maxBackendTimeout),
		refuse(s.MaxHeader < minHeaderSize || s.MaxHeader > maxHeadSize, "--max-header: %d bytes are out of range; hint: from 4KiB to 1MiB", s.MaxHeader),
		s.Shedding.validate(),
		s.validateOperators(),
		address("http-addr", s.HTTPAddr),
	)
}

// validateOperators refuses what is for operators where none are served: nobody else has a
// use for it in front of a backend.
func (s *Proxy) validateOperators() error {
	none := s.AdminAddr == "" && s.DashboardAddr == ""
	return errors.Join(
		unused("admin-addr", "neither the admin API nor the dashboard is served", given{"admin-tokens", none && s.AdminTokens != ""}, given{"admin-hash-key", none && s.AdminHashKey != ""}),
		s.Prometheus.validateAsked(!none),
		s.Admin.validate(), s.Dashboard.validate(s.AdminTokens),
	)
}
