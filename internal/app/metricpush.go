package app

import (
	"cmp"
	"errors"
	"fmt"
	"maps"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/metricpush"
	"github.com/headgate/headgate/internal/otlp"
	"github.com/headgate/headgate/internal/telemetry"
)

// pushMetrics sends all metrics to a collector, if a setting or the environment names one. What is
// wrong with variables of the environment ends the start only where a setting asks for the sending:
// they may be there for others.
func (p *process) pushMetrics(s *config.Observing) error {
	environment, err := otlp.ReadEnvironment(p.options.Getenv)
	named := s.MetricsEndpoint != (config.StoreURL{})
	switch {
	case named && err != nil:
		return fmt.Errorf("--metrics-endpoint: %w", err)
	case named:
		environment.Endpoint = s.MetricsEndpoint.Reveal()
	case !environment.Asks && s.MetricsInterval > 0:
		return errors.New("--metrics-interval: no collector is named, so that nothing is sent; hint: --metrics-endpoint URL")
	case !environment.Asks:
		return nil
	case err != nil:
		p.logger.Warn("the environment asks for metrics to be sent, in a way that cannot be heeded; none are sent", "error", err)
		return nil
	}
	sender, err := p.metricSender(s, &environment)
	if err != nil {
		return fmt.Errorf("--metrics-endpoint: %w", err)
	}
	p.metrics.WatchMetricPush(func() telemetry.MetricPush { return telemetry.MetricPush(sender.Stats()) })
	p.tasks = append(p.tasks, sender.Run)
	return nil
}

func (p *process) metricSender(s *config.Observing, e *otlp.Environment) (*metricpush.Sender, error) {
	to, err := otlp.ParseEndpoint(e.Endpoint, otlp.MetricsPath)
	if err != nil {
		return nil, err
	}
	to.AddHeader(e.Header)
	if e.TLS != nil {
		to.Secure(e.TLS)
	}
	about := map[string]string{"service.name": "headgate", "service.version": p.watching.node.Version, "service.instance.id": p.watching.node.Name}
	maps.Copy(about, e.Resource)
	interval := cmp.Or(s.MetricsInterval, e.Interval, metricpush.DefaultInterval)
	p.logger.Info("metrics are sent to a collector", "to", to.URL(), "every", interval)
	return metricpush.New(metricpush.Options{
		To: to, From: p.metrics.Gatherer(), Interval: interval, Timeout: e.Timeout, Plain: e.Plain, Resource: about,
		OnError: sometimes(p.logger.Warn, fewLines, "metrics were not taken by the collector; counters are sent with the next ones"),
	})
}
