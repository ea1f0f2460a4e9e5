package telemetry

// WatchFloods adds how many connections were cut off for floods of frames to the metrics.
// read is called once for each collection.
func (m *Metrics) WatchFloods(read func() uint64) {
	m.register.MustRegister(sampled[uint64]{read, []metric[uint64]{
		counter("headgate_http2_floods_total", "Connections of HTTP/2 that were cut off because their frames cost work and asked for nothing.", func(n *uint64) float64 { return float64(*n) }),
	}})
}
