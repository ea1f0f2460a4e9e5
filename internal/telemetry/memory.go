package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Memory is the state of the memory store.
type Memory struct {
	// Keys is the number of buckets held.
	Keys int64
	// Bytes is the memory that they take, MaxBytes what they may take.
	Bytes, MaxBytes int64
	// Shared is the number of shared buckets in use because the store is full.
	Shared int64
	// Overflowed is the number of hits that found no room, since start.
	Overflowed uint64
	// Expired is the number of buckets dropped because they were as if unused,
	// since start.
	Expired uint64
}

// WatchMemory adds the state of the memory store to the metrics. read is called
// once for each collection.
func (m *Metrics) WatchMemory(read func() Memory) {
	m.registry.MustRegister(memoryCollector{read})
}

type memoryCollector struct{ read func() Memory }

var (
	memoryKeys       = prometheus.NewDesc("headgate_memory_store_keys", "Buckets in the memory store.", nil, nil)
	memoryBytes      = prometheus.NewDesc("headgate_memory_store_bytes", "Memory that the memory store takes.", nil, nil)
	memoryMaxBytes   = prometheus.NewDesc("headgate_memory_store_max_bytes", "Memory that the memory store may take.", nil, nil)
	memoryShared     = prometheus.NewDesc("headgate_memory_store_shared_buckets", "Buckets shared by keys that found no room; 0 unless the memory store is full.", nil, nil)
	memoryOverflowed = prometheus.NewDesc("headgate_memory_store_overflow_total", "Hits that found no room for a bucket of their own.", nil, nil)
	memoryExpired    = prometheus.NewDesc("headgate_memory_store_expired_total", "Buckets dropped because they were as if unused.", nil, nil)
)

// Describe implements prometheus.Collector.
func (memoryCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{memoryKeys, memoryBytes, memoryMaxBytes, memoryShared, memoryOverflowed, memoryExpired} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c memoryCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.read()
	for _, m := range []struct {
		desc  *prometheus.Desc
		kind  prometheus.ValueType
		value float64
	}{
		{memoryKeys, prometheus.GaugeValue, float64(s.Keys)},
		{memoryBytes, prometheus.GaugeValue, float64(s.Bytes)},
		{memoryMaxBytes, prometheus.GaugeValue, float64(s.MaxBytes)},
		{memoryShared, prometheus.GaugeValue, float64(s.Shared)},
		{memoryOverflowed, prometheus.CounterValue, float64(s.Overflowed)},
		{memoryExpired, prometheus.CounterValue, float64(s.Expired)},
	} {
		ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value)
	}
}
