package telemetry

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/store"
)

// Shard is the state of one server of a store.
type Shard struct {
	// Store names the store among those of this process, Addr the server.
	Store, Addr string
	// Away says that no request waits for the server, because it is a home of regions or that of
	// another region. Connected says whether there is a connection.
	Away, Connected bool
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
	// Overdue counts calls whose answers came after the budget and were used, Starved
	// those that were given up on while this process itself had no processor to run on,
	// and are no Failures.
	Overdue, Starved uint64
	// NotTaken counts the connections that a memcached refused because it takes no more.
	NotTaken uint64
	// Flights counts the batches that concurrent checks were joined into,
	// Callers the checks aboard, Takes what they asked.
	Flights, Callers, Takes uint64
	// Took counts how long the calls took.
	Took store.DurationCounts
}

// WatchShards adds the state of the servers of the stores to the metrics. read
// is called once for each collection. Addresses come from configuration and
// from the topology that the servers report.
func (m *Metrics) WatchShards(read func() []Shard) {
	m.shards = func() []Shard { return distinct(read()) }
	m.register.MustRegister(shardCollector{m})
}

// distinct leaves out what is listed twice, as a server may be while the topology
// changes: two series of one name would spoil the whole collection.
func distinct(all []Shard) []Shard {
	seen := map[[2]string]bool{}
	return slices.DeleteFunc(all, func(s Shard) bool {
		id := [2]string{s.Store, s.Addr}
		twice := seen[id]
		seen[id] = true
		return twice
	})
}

type shardCollector struct{ metrics *Metrics }

// shardMetrics are the metrics of one server; the labels are store and shard.
var shardMetrics = []metric[Shard]{
	shardGauge("headgate_store_connected", "1 while there is a connection to the server, else 0.", func(s *Shard) float64 { return oneIf(s.Connected) }),
	shardGauge("headgate_store_awaited", "1 if requests wait for the server, 0 if none does, because it is a home of regions or the store of another region.", func(s *Shard) float64 { return oneIf(!s.Away) }),
	shardGauge("headgate_store_breaker_state", "State of the server's breaker: 0 closed, 1 half-open, 2 open.", func(s *Shard) float64 { return float64(s.Breaker) }),
	shardGauge("headgate_store_in_flight", "Calls that wait for the server's answer.", func(s *Shard) float64 { return float64(s.InFlight) }),
	shardCounter("headgate_store_calls_total", "Calls of the server.", func(s *Shard) float64 { return float64(s.Calls) }),
	shardCounter("headgate_store_call_failures_total", "Calls of the server that failed, or were not answered in time.", func(s *Shard) float64 { return float64(s.Failures) }),
	shardCounter("headgate_store_refused_total", "Calls that the server's breaker held back.", func(s *Shard) float64 { return float64(s.Refused) }),
	shardCounter("headgate_store_connections_refused_total", "Connections that a memcached refused because it takes no more. Calls wait for one of those that there are.", func(s *Shard) float64 { return float64(s.NotTaken) }),
	shardCounter("headgate_store_late_total", "Calls that reached the server after their deadline, and charged nothing.", func(s *Shard) float64 { return float64(s.Late) }),
	shardCounter("headgate_store_overdue_answers_total", "Calls whose answers were used though they were read after the budget: this process was late, not the server.", func(s *Shard) float64 { return float64(s.Overdue) }),
	shardCounter("headgate_store_starved_calls_total", "Calls that were given up on while this process itself was late; the breaker does not count them.", func(s *Shard) float64 { return float64(s.Starved) }),
	shardCounter("headgate_store_redirects_total", "Calls that the server sent to another one.", func(s *Shard) float64 { return float64(s.Redirected) }),
	shardCounter("headgate_store_reseeds_total", "Buckets that were brought back to the server after a failover.", func(s *Shard) float64 { return float64(s.Reseeded) }),
	shardCounter("headgate_store_flights_total", "Batches that concurrent checks were joined into.", func(s *Shard) float64 { return float64(s.Flights) }),
	shardCounter("headgate_store_flight_callers_total", "Checks in the batches that concurrent checks were joined into.", func(s *Shard) float64 { return float64(s.Callers) }),
	shardCounter("headgate_store_flight_takes_total", "Limits that the checks in these batches asked for.", func(s *Shard) float64 { return float64(s.Takes) }),
}

var shardLabels = []string{"store", "shard"}

func shardGauge(name, help string, value func(*Shard) float64) metric[Shard] {
	return metric[Shard]{prometheus.NewDesc(name, help, shardLabels, nil), prometheus.GaugeValue, value}
}

func shardCounter(name, help string, value func(*Shard) float64) metric[Shard] {
	return metric[Shard]{prometheus.NewDesc(name, help, shardLabels, nil), prometheus.CounterValue, value}
}

// The metrics of a store as a whole; the label is store.
var (
	storeDuration = prometheus.NewDesc("headgate_store_call_duration_seconds",
		"Time that calls of the servers of a store took, including those that were given up.", []string{"store"}, nil)
	storeSkew = prometheus.NewDesc("headgate_store_slot_skew_ratio",
		"Calls of the busiest server of a store in the last minute, divided by the mean of its servers; 1 is even. Only for stores with several servers.", []string{"store"}, nil)
)

// Describe implements prometheus.Collector.
func (shardCollector) Describe(ch chan<- *prometheus.Desc) {
	for i := range shardMetrics {
		ch <- shardMetrics[i].desc
	}
	ch <- storeDuration
	ch <- storeSkew
}

// Collect implements prometheus.Collector.
func (c shardCollector) Collect(ch chan<- prometheus.Metric) {
	shards := c.metrics.shards()
	took := map[string]*store.DurationCounts{}
	for _, s := range shards {
		for i := range shardMetrics {
			m := &shardMetrics[i]
			ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(&s), s.Store, s.Addr)
		}
		if took[s.Store] == nil {
			took[s.Store] = new(store.DurationCounts)
		}
		took[s.Store].Add(&s.Took)
	}
	for name, t := range took {
		ch <- newHistogram(storeDuration, seconds(store.DurationBounds[:]), t.Buckets[:], t.Total.Seconds(), name)
	}
	for name, skew := range c.metrics.skews(shards, time.Now()) {
		ch <- prometheus.MustNewConstMetric(storeSkew, prometheus.GaugeValue, skew, name)
	}
}

// shardCalls are the calls of servers, by store and address.
type shardCalls map[[2]string]uint64

func callsOf(shards []Shard) shardCalls {
	calls := make(shardCalls, len(shards))
	for _, s := range shards {
		calls[[2]string{s.Store, s.Addr}] = s.Calls
	}
	return calls
}

// skews returns, for each store with several servers, how many times the calls of the
// mean one the busiest has got: since the look at a view.LatencySpan ago, or since start
// where there is none.
func (m *Metrics) skews(shards []Shard, now time.Time) map[string]float64 {
	m.history.mu.Lock()
	base := m.history.calls.before(now, view.LatencySpan)
	m.history.mu.Unlock()
	byStore := map[string][]uint64{}
	for id, calls := range callsOf(shards) {
		if base != nil && base.value[id] <= calls {
			calls -= base.value[id]
		}
		byStore[id[0]] = append(byStore[id[0]], calls)
	}
	skews := map[string]float64{}
	for name, calls := range byStore {
		if len(calls) > 1 {
			skews[name] = skew(calls)
		}
	}
	return skews
}

// skew returns the largest of counts by their mean; 1 where all are 0.
func skew(counts []uint64) float64 {
	sum := uint64(0)
	for _, n := range counts {
		sum += n
	}
	if sum == 0 {
		return 1
	}
	return float64(slices.Max(counts)) * float64(len(counts)) / float64(sum)
}
