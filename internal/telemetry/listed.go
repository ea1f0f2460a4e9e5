package telemetry

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// listed is a collector that reads a list of T once for each collection and makes series
// of each. What is listed twice is shown once: two series of one name would spoil the whole
// collection.
type listed[T any] struct {
	read func() []T
	// values returns the values of the labels.
	values  func(*T) []string
	metrics []listedMetric[T]
	descs   []*prometheus.Desc
}

// listedMetric is how one metric is read from a T.
type listedMetric[T any] struct {
	kind       prometheus.ValueType
	name, help string
	value      func(*T) float64
	// known says whether there is a value; nil: always.
	known func(*T) bool
}

// newListed returns the collector of metrics with those labels.
func newListed[T any](read func() []T, labels []string, values func(*T) []string, metrics ...listedMetric[T]) *listed[T] {
	c := &listed[T]{read: read, values: values, metrics: metrics}
	for i := range metrics {
		c.descs = append(c.descs, prometheus.NewDesc(metrics[i].name, metrics[i].help, labels, nil))
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *listed[T]) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *listed[T]) Collect(ch chan<- prometheus.Metric) {
	all, seen := c.read(), map[string]bool{}
	for i := range all {
		one := &all[i]
		values := c.values(one)
		id := strings.Join(values, "\x00")
		if seen[id] {
			continue
		}
		seen[id] = true
		for j := range c.metrics {
			if m := &c.metrics[j]; m.known == nil || m.known(one) {
				ch <- prometheus.MustNewConstMetric(c.descs[j], m.kind, m.value(one), values...)
			}
		}
	}
}
