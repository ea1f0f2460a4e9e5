package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/headgate/headgate/internal/view"
)

const (
	nowValue   = prometheus.GaugeValue
	totalValue = prometheus.CounterValue
)

// WatchAudit adds what became of events of decisions to the metrics. read is called once
// for each collection, so that the sums of one scrape are exact. Names of sinks come from
// configuration.
func (m *Metrics) WatchAudit(read func() view.Audit) { m.register.MustRegister(audited{read}) }

// audited collects what became of events, and of those of each sink, as it was at one
// instant.
type audited struct{ read func() view.Audit }

// Describe implements prometheus.Collector.
func (c audited) Describe(ch chan<- *prometheus.Desc) {
	events, sinks := auditMetrics(new(view.Audit))
	events.Describe(ch)
	sinks.Describe(ch)
}

// Collect implements prometheus.Collector.
func (c audited) Collect(ch chan<- prometheus.Metric) {
	now := c.read()
	events, sinks := auditMetrics(&now)
	events.Collect(ch)
	sinks.Collect(ch)
}

// auditMetrics returns what collects a, and what collects its sinks.
func auditMetrics(a *view.Audit) (sampled[view.Audit], *listed[view.AuditSink]) {
	type sink = view.AuditSink
	return sampled[view.Audit]{func() view.Audit { return *a }, []metric[view.Audit]{
			counter("headgate_audit_decided_total", "Decisions that events were due for: the sum of produced, dropped, buffered and unsampled.", func(a *view.Audit) float64 { return float64(a.Decided) }),
			counter("headgate_audit_unsampled_total", "Allowed decisions that are not in the sample, and have no event.", func(a *view.Audit) float64 { return float64(a.Unsampled) }),
			counter("headgate_audit_produced_total", "Events that were handed to the sinks, or kept in memory where there are none.", func(a *view.Audit) float64 { return float64(a.Produced) }),
			counter("headgate_audit_dropped_total", "Events that found the buffer full, and are lost.", func(a *view.Audit) float64 { return float64(a.Dropped) }),
			gauge("headgate_audit_buffered", "Events that wait.", func(a *view.Audit) float64 { return float64(a.Buffered) }),
		}}, newListed(func() []sink { return a.Sinks }, []string{"sink"}, func(s *sink) []string { return []string{s.Name} }, []listedMetric[sink]{
			{totalValue, "headgate_audit_sink_written_total", "Events that the sink has taken.", func(s *sink) float64 { return float64(s.Written) }, nil},
			{totalValue, "headgate_audit_sink_failed_total", "Events that the sink has lost.", func(s *sink) float64 { return float64(s.Failed) }, nil},
			{nowValue, "headgate_audit_sink_buffered", "Events that wait for the sink.", func(s *sink) float64 { return float64(s.Buffered) }, nil},
			{nowValue, "headgate_audit_sink_up", "1 while the sink takes events, 0 since it failed.", func(s *sink) float64 { return oneIf(s.Error == "") }, nil},
		}...)
}

// WatchAccuracy adds how exact decisions were to the metrics. read is called once for
// each collection.
func (m *Metrics) WatchAccuracy(read func() []view.RuleAccuracy) {
	type rule = view.RuleAccuracy
	m.register.MustRegister(newListed(read, []string{"rule"}, func(r *rule) []string { return []string{r.Rule} }, []listedMetric[rule]{
		{totalValue, "headgate_accuracy_decided_total", "Decisions about keys of the sample, which were compared with an exact count.", func(r *rule) float64 { return float64(r.Decided) }, nil},
		{totalValue, "headgate_accuracy_wrong_allowed_total", "Decisions about keys of the sample that allowed what an exact count denies.", func(r *rule) float64 { return float64(r.WrongAllowed) }, nil},
		{totalValue, "headgate_accuracy_wrong_denied_total", "Decisions about keys of the sample that denied what an exact count allows.", func(r *rule) float64 { return float64(r.WrongDenied) }, nil},
		{nowValue, "headgate_accuracy_overshoot_ratio", "Most hits beyond a limit that were admitted in the last hour, as a share of it.", func(r *rule) float64 { return r.Overshoot }, nil},
		{nowValue, "headgate_accuracy_bound_ratio", "Most hits beyond a limit that the rule promises to admit, as a share of it; missing where no bound is known.", func(r *rule) float64 { return r.Bound }, func(r *rule) bool { return r.Bound >= 0 }},
	}...))
}

// TopKeys is the state of the tracker of keys.
type TopKeys struct {
	// Tracked is the number of keys that are counted now, Capacity the most.
	Tracked, Capacity int64
	// Seen counts the decisions that were looked at, Evicted the keys that made room
	// for others.
	Seen, Evicted uint64
	// NewKeys is the estimated number of different keys of the last minute, by the
	// ID of the rule.
	NewKeys map[string]float64
}

// WatchTopKeys adds the state of the tracker of keys to the metrics. read is called once
// for each collection.
func (m *Metrics) WatchTopKeys(read func() TopKeys) {
	m.register.MustRegister(topKeysCollector{sampled[TopKeys]{read, []metric[TopKeys]{
		gauge("headgate_top_keys", "Keys that are counted one by one now.", func(s *TopKeys) float64 { return float64(s.Tracked) }),
		gauge("headgate_top_keys_max", "Keys that can be counted one by one.", func(s *TopKeys) float64 { return float64(s.Capacity) }),
		counter("headgate_top_keys_seen_total", "Decisions that were looked at to find the keys with the most requests.", func(s *TopKeys) float64 { return float64(s.Seen) }),
		counter("headgate_top_keys_evicted_total", "Keys that were counted and made room for others.", func(s *TopKeys) float64 { return float64(s.Evicted) }),
	}}})
}

// topKeysCollector also makes the series that each rule has.
type topKeysCollector struct{ sampled[TopKeys] }

var newKeys = prometheus.NewDesc("headgate_rule_keys", "Different keys of the last minute, estimated, by rule.", []string{"rule"}, nil)

// Describe implements prometheus.Collector.
func (c topKeysCollector) Describe(ch chan<- *prometheus.Desc) {
	c.sampled.Describe(ch)
	ch <- newKeys
}

// Collect implements prometheus.Collector.
func (c topKeysCollector) Collect(ch chan<- prometheus.Metric) {
	snapshot := c.read()
	c.send(ch, &snapshot)
	for rule, n := range snapshot.NewKeys {
		ch <- prometheus.MustNewConstMetric(newKeys, nowValue, n, rule)
	}
}

// Tracing counts spans of decisions since start.
type Tracing struct {
	// Started were recorded; Exported of them were taken by the collector, Failed
	// were not, Dropped found the queue full.
	Started, Exported, Failed, Dropped uint64
}

// WatchTracing adds what became of spans to the metrics. read is called once for each
// collection.
func (m *Metrics) WatchTracing(read func() Tracing) {
	m.register.MustRegister(sampled[Tracing]{read, []metric[Tracing]{
		counter("headgate_trace_spans_started_total", "Spans of decisions that were recorded.", func(s *Tracing) float64 { return float64(s.Started) }),
		counter("headgate_trace_spans_exported_total", "Spans that the collector has taken.", func(s *Tracing) float64 { return float64(s.Exported) }),
		counter("headgate_trace_spans_failed_total", "Spans that the collector has not taken.", func(s *Tracing) float64 { return float64(s.Failed) }),
		counter("headgate_trace_spans_dropped_total", "Spans that found the queue full.", func(s *Tracing) float64 { return float64(s.Dropped) }),
	}})
}

// Inspection is what one server of a store last told of itself.
type Inspection struct {
	// Store names the store among those of this process, Addr the server.
	Store, Addr string
	// Reachable says whether it has answered the last time; the others are 0 when
	// it has not.
	Reachable bool
	// ClockOffset is its clock minus that of this node, in seconds, give or take
	// ClockError.
	ClockOffset, ClockError float64
	// Memory is what it uses, MaxMemory what it may use, in bytes; 0: no bound.
	Memory, MaxMemory int64
	// Keys is the number of keys, of all databases.
	Keys int64
	// Evicted counts keys dropped for want of memory, Expired those whose time was
	// over, since it started.
	Evicted, Expired uint64
}

// WatchInspection adds what the servers of the stores tell of themselves to the metrics.
// read is called once for each collection, and must not wait for a server.
func (m *Metrics) WatchInspection(read func() []Inspection) {
	type server = Inspection
	told := func(s *server) bool { return s.Reachable }
	m.register.MustRegister(newListed(read, []string{"store", "shard"}, func(s *server) []string { return []string{s.Store, s.Addr} }, []listedMetric[server]{
		{nowValue, "headgate_store_inspected", "1 while the server answers questions about itself, else 0. Then the other figures are missing.", func(s *server) float64 { return oneIf(s.Reachable) }, nil},
		{nowValue, "headgate_store_clock_offset_seconds", "Clock of the server minus that of this node.", func(s *server) float64 { return s.ClockOffset }, told},
		{nowValue, "headgate_store_clock_error_seconds", "By how much the offset of the clock may be off, either way: half of the round trip.", func(s *server) float64 { return s.ClockError }, told},
		{nowValue, "headgate_store_memory_bytes", "Memory that the server uses.", func(s *server) float64 { return float64(s.Memory) }, told},
		{nowValue, "headgate_store_memory_max_bytes", "Memory that the server may use; missing where that is not bounded.", func(s *server) float64 { return float64(s.MaxMemory) }, func(s *server) bool { return s.Reachable && s.MaxMemory > 0 }},
		{nowValue, "headgate_store_keys", "Keys of the server, including those of other programs.", func(s *server) float64 { return float64(s.Keys) }, told},
		{totalValue, "headgate_store_evicted_keys_total", "Keys that the server dropped because it had no memory left. The limit of each may begin anew.", func(s *server) float64 { return float64(s.Evicted) }, told},
		{totalValue, "headgate_store_expired_keys_total", "Keys that the server dropped because their time was over.", func(s *server) float64 { return float64(s.Expired) }, told},
	}...))
}
