package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Shard is the state of one server of a store.
type Shard struct {
	// Store names the store among those of this process, Addr the server.
	Store, Addr string
	// Connected says whether there is a connection.
	Connected bool
	// Breaker is 0 while the breaker is closed, 1 while a probe is under way, 2
	// while it is open.
	Breaker int
	// InFlight is the number of calls that wait for their answers.
	InFlight int64
	// Calls counts calls of the server, Failures those that failed or were too
	// slow, Refused what the breaker held back, Late scripts that ran after their
	// deadline and charged nothing, Redirected calls that the server sent to
	// another one, Reseeded buckets that were brought back after a failover.
	Calls, Failures, Refused, Late, Redirected, Reseeded uint64
	// Flights counts the batches that concurrent checks were joined into,
	// Callers the checks aboard, Takes what they asked.
	Flights, Callers, Takes uint64
}

// WatchShards adds the state of the servers of the stores to the metrics. read
// is called once for each collection. Addresses come from configuration and
// from the topology that the servers report.
func (m *Metrics) WatchShards(read func() []Shard) {
	m.registry.MustRegister(shardCollector(read))
}

type shardCollector func() []Shard

// shardMetrics are the metrics of one server; the labels are store and shard.
var shardMetrics = []metric[Shard]{
	shardGauge("headgate_store_connected", "1 while there is a connection to the server, else 0.", func(s *Shard) float64 { return oneIf(s.Connected) }),
	shardGauge("headgate_store_breaker_state", "State of the server's breaker: 0 closed, 1 half-open, 2 open.", func(s *Shard) float64 { return float64(s.Breaker) }),
	shardGauge("headgate_store_in_flight", "Calls that wait for the server's answer.", func(s *Shard) float64 { return float64(s.InFlight) }),
	shardCounter("headgate_store_calls_total", "Calls of the server.", func(s *Shard) float64 { return float64(s.Calls) }),
	shardCounter("headgate_store_call_failures_total", "Calls of the server that failed, or were not answered in time.", func(s *Shard) float64 { return float64(s.Failures) }),
	shardCounter("headgate_store_refused_total", "Calls that the server's breaker held back.", func(s *Shard) float64 { return float64(s.Refused) }),
	shardCounter("headgate_store_late_total", "Calls that reached the server after their deadline, and charged nothing.", func(s *Shard) float64 { return float64(s.Late) }),
	shardCounter("headgate_store_redirects_total", "Calls that the server sent to another one.", func(s *Shard) float64 { return float64(s.Redirected) }),
	shardCounter("headgate_store_reseeds_total", "Buckets that were brought back to the server after a failover.", func(s *Shard) float64 { return float64(s.Reseeded) }),
	shardCounter("headgate_store_flights_total", "Batches that concurrent checks were joined into.", func(s *Shard) float64 { return float64(s.Flights) }),
	shardCounter("headgate_store_flight_callers_total", "Checks aboard of those batches.", func(s *Shard) float64 { return float64(s.Callers) }),
	shardCounter("headgate_store_flight_takes_total", "Limits that those checks asked for.", func(s *Shard) float64 { return float64(s.Takes) }),
}

var shardLabels = []string{"store", "shard"}

func shardGauge(name, help string, value func(*Shard) float64) metric[Shard] {
	return metric[Shard]{prometheus.NewDesc(name, help, shardLabels, nil), prometheus.GaugeValue, value}
}

func shardCounter(name, help string, value func(*Shard) float64) metric[Shard] {
	return metric[Shard]{prometheus.NewDesc(name, help, shardLabels, nil), prometheus.CounterValue, value}
}

// Describe implements prometheus.Collector.
func (shardCollector) Describe(ch chan<- *prometheus.Desc) {
	for i := range shardMetrics {
		ch <- shardMetrics[i].desc
	}
}

// Collect implements prometheus.Collector. A server that is listed twice, as may
// be while the topology changes, is shown once: two series of one name would
// spoil the whole collection.
func (read shardCollector) Collect(ch chan<- prometheus.Metric) {
	seen := map[[2]string]bool{}
	for _, s := range read() {
		id := [2]string{s.Store, s.Addr}
		if seen[id] {
			continue
		}
		seen[id] = true
		for i := range shardMetrics {
			m := &shardMetrics[i]
			ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(&s), s.Store, s.Addr)
		}
	}
}
