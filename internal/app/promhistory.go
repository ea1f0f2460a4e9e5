package app

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/credentials"
	"github.com/headgate/headgate/internal/promhistory"
)

// watchPrometheus has operators shown what a Prometheus tells, where a setting names one.
func (w *watching) watchPrometheus(s *config.Prometheus) error {
	if s.PrometheusURL == (config.StoreURL{}) {
		return nil
	}
	at, err := url.Parse(s.PrometheusURL.Reveal())
	if err != nil {
		return errors.New("--prometheus-url: not a URL")
	}
	o := promhistory.Options{URL: at, Layer: w.node.Layer}
	if path := s.PrometheusTokenFile; path != "" {
		o.Token = func() (string, error) { return credentials.ReadPassword(path) }
		if _, err := o.Token(); err != nil {
			return fmt.Errorf("--prometheus-token-file: %w", err)
		}
		if at.Scheme == "http" && !config.Loopback(at.Host) {
			w.process.logger.Warn("Prometheus is asked without TLS: the token can be read on the way; hint: https:// in --prometheus-url", "addr", at.Host)
		}
	}
	w.prometheus = promhistory.New(o)
	w.process.onDrain = append(w.process.onDrain, w.prometheus.Close)
	return nil
}
