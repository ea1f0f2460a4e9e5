package config

import (
	"errors"
	"net/url"
)

// Prometheus are the settings of what is read from a Prometheus that scrapes the nodes.
type Prometheus struct {
	// PrometheusURL is where it answers questions; the zero value is nowhere.
	PrometheusURL StoreURL `group:"admin" name:"prometheus-url" placeholder:"URL" help:"Prometheus that scrapes the nodes, such as https://prometheus:9090, which this process asks for the page History of more than a week. Default: none."`
	// PrometheusTokenFile is the file of a bearer token; "" sends none.
	PrometheusTokenFile string `group:"admin" name:"prometheus-token-file" placeholder:"FILE" help:"File of the bearer token that --prometheus-url asks for. Read again for each question. Default: none."`
}

// validateAsked refuses a Prometheus that nobody would ask: operators, who do, are served elsewhere or nowhere.
func (p *Prometheus) validateAsked(operators bool) error {
	if operators {
		return nil
	}
	return unused("admin-addr", "neither the admin API nor the dashboard is served", given{"prometheus-url", p.PrometheusURL != (StoreURL{})})
}

func (p *Prometheus) validate() error {
	if p.PrometheusURL == (StoreURL{}) {
		return unused("prometheus-url", "no Prometheus is asked", given{"prometheus-token-file", p.PrometheusTokenFile != ""})
	}
	if err := p.PrometheusURL.checkScheme("prometheus-url", "http", "https"); err != nil {
		return err
	}
	u, err := url.Parse(p.PrometheusURL.Reveal())
	switch {
	case err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "":
		return errors.New("--prometheus-url: not the address of a Prometheus; hint: https://HOST:PORT, with a path where it has one, and no query")
	case u.User != nil && p.PrometheusTokenFile != "":
		return errors.New("--prometheus-url, --prometheus-token-file: a password and a token; hint: leave one of them out")
	}
	return nil
}
