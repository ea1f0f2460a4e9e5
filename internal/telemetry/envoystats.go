package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// EnvoyStatistics are what envoyproxy/ratelimit counts, by the names that it has for statsd.
// Counts are since the start and never fall, but for those of rules that have gone.
type EnvoyStatistics struct {
	Counts []EnvoyCount
	// Times are how long calls took, each up to a bound.
	Times []EnvoyTime
}

// EnvoyCount is a counter.
type EnvoyCount struct {
	Name string
	N    uint64
}

// EnvoyTime is how many of the times of that name were so long, or shorter and longer than the
// bound before.
type EnvoyTime struct {
	Name string
	UpTo time.Duration
	N    uint64
}

const (
	envoyService = "ratelimit.service."
	envoyServer  = "ratelimit_server." + grpcMethod + "."
)

// EnvoyStatistics returns them; only of Metrics with Options.EnvoyCounts.
func (m *Metrics) EnvoyStatistics() EnvoyStatistics {
	t := m.stripes.total()
	requests, errors := t.answered()
	s := EnvoyStatistics{Counts: []EnvoyCount{
		{envoyServer + "total_requests", requests},
		{envoyService + "call.should_rate_limit.redis_error", errors},
		{envoyService + "call.should_rate_limit.service_error", m.unfit.Load()},
		{envoyService + "config_load_success", m.reload.total[ReloadLoaded].Load()},
		{envoyService + "config_load_error", m.reload.total[ReloadRefused].Load() + m.reload.total[ReloadLastGood].Load()},
	}}
	eachEnvoyPath(t, m.detailed, func(path []string, h hits) {
		name := envoyService + "rate_limit." + envoyName(path) + "."
		for _, stat := range envoyHits {
			s.Counts = append(s.Counts, EnvoyCount{name + stat.name, stat.value(&h)})
		}
	})
	buckets := t.cells.buckets(customaryBounds[:])
	for i, n := range buckets {
		s.Times = append(s.Times, EnvoyTime{envoyServer + "response_time", customaryBounds[min(i, len(customaryBounds)-1)], n})
	}
	return s
}

// valuesWithoutName adds to the metrics what has no series of its own.
func valuesWithoutName(r prometheus.Registerer, d *detailed) {
	r.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "headgate_metric_values_other_total",
		Help: "Decisions of rules with detailed_metric or value_to_metric whose values have no series of their own, because there are 2,000 already.",
	}, func() float64 { return float64(d.other.Load()) }))
}
