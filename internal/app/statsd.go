package app

import (
	"fmt"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/statsd"
	"github.com/headgate/headgate/internal/telemetry"
)

// sendStatistics sends the statistics of envoyproxy/ratelimit to a statsd server, if the
// settings name one.
func (p *process) sendStatistics(s *config.Statsd) error {
	if !s.Sends() {
		return nil
	}
	network, address, err := statsd.ParseURL(s.Statsd.Reveal())
	if err != nil {
		return fmt.Errorf("--statsd: %w", err)
	}
	tags, err := statsd.ParseTags(s.StatsdTags)
	if err != nil {
		return fmt.Errorf("--statsd-tags: %w", err)
	}
	sender := statsd.New(statsd.Options{
		Network: network, Address: address, Interval: s.StatsdInterval, Dog: s.StatsdFormat == "dogstatsd", Tags: tags,
		Read:      func() statsd.Snapshot { return snapshotOf(p.metrics.EnvoyStatistics()) },
		OnFailure: sometimes(p.logger.Warn, oneLine, "statistics could not be sent; they are sent with the next ones"),
	})
	p.tasks = append(p.tasks, sender.Run)
	return nil
}

func snapshotOf(all telemetry.EnvoyStatistics) (s statsd.Snapshot) {
	for _, c := range all.Counts {
		s.Counts = append(s.Counts, statsd.Count(c))
	}
	for _, t := range all.Times {
		s.Times = append(s.Times, statsd.Time{Name: t.Name, Length: t.UpTo, N: t.N})
	}
	return s
}
