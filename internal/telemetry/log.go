package telemetry

// WatchLog adds how many lines of logs were dropped to the metrics. read is called once for
// each collection.
func (m *Metrics) WatchLog(dropped func() uint64) {
	m.register.MustRegister(sampled[uint64]{dropped, []metric[uint64]{
		counter("headgate_log_lines_dropped_total", "Lines of logs that were dropped because nobody read them in time.", func(n *uint64) float64 { return float64(*n) }),
	}})
}
