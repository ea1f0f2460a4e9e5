package telemetry

import "github.com/prometheus/client_golang/prometheus"

// sampled is a collector that reads a snapshot of type T once for each
// collection and makes a series of each of its metrics.
type sampled[T any] struct {
	read    func() T
	metrics []metric[T]
}

// metric is how one metric is read from a T.
type metric[T any] struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*T) float64
}

// gauge and counter return a metric without labels of its own.
func gauge[T any](name, help string, value func(*T) float64) metric[T] {
	return metric[T]{prometheus.NewDesc(name, help, nil, nil), prometheus.GaugeValue, value}
}

func counter[T any](name, help string, value func(*T) float64) metric[T] {
	return metric[T]{prometheus.NewDesc(name, help, nil, nil), prometheus.CounterValue, value}
}

// gaugeOf is gauge for one of several series of a name, which labels tells apart.
func gaugeOf[T any](name, help string, labels prometheus.Labels, value func(*T) float64) metric[T] {
	return metric[T]{prometheus.NewDesc(name, help, nil, labels), prometheus.GaugeValue, value}
}

// counterOf is counter for one of several series of a name, which labels tells apart.
func counterOf[T any](name, help string, labels prometheus.Labels, value func(*T) float64) metric[T] {
	return metric[T]{prometheus.NewDesc(name, help, nil, labels), prometheus.CounterValue, value}
}

// outcome is a value of the label outcome, and how often it came.
type outcome[T any] struct {
	name  string
	count func(*T) uint64
}

// byOutcome returns a counter with a series for each outcome.
func byOutcome[T any](name, help string, outcomes ...outcome[T]) (all []metric[T]) {
	for _, o := range outcomes {
		all = append(all, counterOf(name, help, prometheus.Labels{"outcome": o.name}, func(s *T) float64 { return float64(o.count(s)) }))
	}
	return all
}

// Describe implements prometheus.Collector.
func (c sampled[T]) Describe(ch chan<- *prometheus.Desc) {
	for i := range c.metrics {
		ch <- c.metrics[i].desc
	}
}

// Collect implements prometheus.Collector.
func (c sampled[T]) Collect(ch chan<- prometheus.Metric) {
	snapshot := c.read()
	c.send(ch, &snapshot)
}

// send makes the series of a snapshot.
func (c sampled[T]) send(ch chan<- prometheus.Metric, snapshot *T) {
	for i := range c.metrics {
		m := &c.metrics[i]
		ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(snapshot))
	}
}
