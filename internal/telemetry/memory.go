package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Memory is the state of the memory store.
type Memory struct {
	Keys     int64 // buckets held
	Bytes    int64 // memory they take
	MaxBytes int64 // memory they may take
	Overflow int64 // takes decided by a shared bucket, since start
}

// WatchMemory adds the state of the memory store to the metrics. read is called
// once for each collection.
func (m *Metrics) WatchMemory(read func() Memory) {
	m.registry.MustRegister(memoryCollector{read})
}

type memoryCollector struct{ read func() Memory }

var (
	memoryKeys     = prometheus.NewDesc("headgate_memory_store_keys", "Buckets in the memory store.", nil, nil)
	memoryBytes    = prometheus.NewDesc("headgate_memory_store_bytes", "Memory that the memory store takes.", nil, nil)
	memoryMaxBytes = prometheus.NewDesc("headgate_memory_store_max_bytes", "Memory that the memory store may take.", nil, nil)
	memoryOverflow = prometheus.NewDesc("headgate_memory_store_overflow_total", "Decisions by a shared bucket because the memory store was full.", nil, nil)
)

// Describe implements prometheus.Collector.
func (memoryCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{memoryKeys, memoryBytes, memoryMaxBytes, memoryOverflow} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c memoryCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.read()
	gauge := func(d *prometheus.Desc, v int64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v))
	}
	counter := func(d *prometheus.Desc, v int64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v))
	}
	gauge(memoryKeys, s.Keys)
	gauge(memoryBytes, s.Bytes)
	gauge(memoryMaxBytes, s.MaxBytes)
	counter(memoryOverflow, s.Overflow)
}
