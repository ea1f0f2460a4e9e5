package telemetry

import (
	"time"

	"github.com/headgate/headgate/verdict"
	"github.com/prometheus/client_golang/prometheus"
)

// plainCollector makes the series of Options.PlainNames: what others also have, by names
// that say nothing of Headgate.
type plainCollector struct{ metrics *Metrics }

var (
	plainDecisions = prometheus.NewDesc("ratelimit_decisions_total", "Limits decided, as headgate_decisions_total.", []string{"rule", "outcome"}, nil)
	plainDenied    = prometheus.NewDesc("ratelimit_denied_total", "Limits that denied, by rule.", []string{"rule"}, nil)
	plainRemaining = prometheus.NewDesc("ratelimit_remaining", "Hits left in the bucket that was looked at last, by rule.", []string{"rule"}, nil)
	plainDuration  = prometheus.NewDesc("ratelimit_check_duration_seconds", "Time to decide a call.", nil, nil)
	plainErrors    = prometheus.NewDesc("ratelimit_redis_errors_total", "Requests that the store could not decide, by reason.", []string{"reason"}, nil)
	plainFailOpen  = prometheus.NewDesc("ratelimit_failopen_total", "Limits that allowed because the store could not decide.", nil, nil)
	plainCircuit   = prometheus.NewDesc("ratelimit_circuit_state", "State of the server's breaker: 0 closed, 1 half-open, 2 open.", []string{"store", "shard"}, nil)
	plainAllowed   = prometheus.NewDesc("allowed_total", "Requests allowed.", nil, nil)
	plainLimited   = prometheus.NewDesc("limited_total", "Requests denied.", nil, nil)
	plainRetry     = prometheus.NewDesc("retry_after_ms", "What denied requests are told to wait, in milliseconds.", nil, nil)
	plainBurst     = prometheus.NewDesc("burst_exhausted_total", "Denials by a limit with a burst that is used up.", nil, nil)
)

// Describe implements prometheus.Collector.
func (plainCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		plainDecisions, plainDenied, plainRemaining, plainDuration, plainErrors, plainFailOpen, plainCircuit,
		plainAllowed, plainLimited, plainRetry, plainBurst,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c plainCollector) Collect(ch chan<- prometheus.Metric) {
	t := c.metrics.stripes.total()
	burst := uint64(0)
	for i := range t.rules {
		burst += t.rules[i].burst
		collectPlainRule(ch, t, i)
	}
	ch <- t.durations(plainDuration, decisionBounds[:])
	for i, n := range t.errors {
		ch <- total(plainErrors, n, string(storeReasons[i]))
	}
	ch <- total(plainFailOpen, t.failOpen)
	ch <- total(plainAllowed, t.requests[verdict.Allowed]+t.requests[verdict.DegradedAllowed]+t.requests[verdict.Unmatched]+t.requests[verdict.UnknownDomain])
	ch <- total(plainLimited, t.requests[verdict.Denied]+t.requests[verdict.DegradedDenied])
	ch <- newHistogram(plainRetry, milliseconds(retryBounds[:]), t.retries[:], float64(t.retry)/float64(time.Millisecond))
	ch <- total(plainBurst, burst)
	if c.metrics.shards == nil {
		return
	}
	for _, s := range c.metrics.shards() {
		ch <- prometheus.MustNewConstMetric(plainCircuit, prometheus.GaugeValue, float64(s.Breaker), s.Store, s.Addr)
	}
}

func collectPlainRule(ch chan<- prometheus.Metric, t *totals, i int) {
	inForce, id, said := i < len(t.gen.rules), t.gen.id(i), &t.rules[i]
	for o, n := range said.outcomes {
		if n > 0 || inForce && shown(verdict.Outcome(o)) {
			ch <- total(plainDecisions, n, id, verdict.Outcome(o).String())
		}
	}
	if n := said.outcomes[verdict.Denied] + said.outcomes[verdict.DegradedDenied] + said.outcomes[verdict.LocalDenied] + said.outcomes[verdict.OpenDenied]; n > 0 || inForce {
		ch <- total(plainDenied, n, id)
	}
	if said.looked > 0 {
		ch <- prometheus.MustNewConstMetric(plainRemaining, prometheus.GaugeValue, float64(said.remaining), id)
	}
}

// milliseconds converts bounds.
func milliseconds(bounds []time.Duration) []float64 {
	all := seconds(bounds)
	for i := range all {
		all[i] *= 1e3
	}
	return all
}
