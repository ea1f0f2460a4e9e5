package telemetry

// HotRaises is what is known of the raises of hot keys.
type HotRaises struct {
	// InForce is how many keys are raised now, on all nodes.
	InForce int
	// Raised counts those that this node has raised, Full those that it has not because
	// too many were, since start.
	Raised, Full uint64
}

// WatchHotRaises adds the raises of hot keys to the metrics. read is called once for each
// collection.
func (m *Metrics) WatchHotRaises(read func() HotRaises) {
	m.register.MustRegister(sampled[HotRaises]{read, []metric[HotRaises]{
		gauge("headgate_hot_raises", "Hot keys whose limits are raised now because their rules say so, the same on all nodes.", func(s *HotRaises) float64 { return float64(s.InForce) }),
		counter("headgate_hot_raises_total", "Hot keys whose limits this node has raised.", func(s *HotRaises) float64 { return float64(s.Raised) }),
		counter("headgate_hot_raises_full_total", "Hot keys whose limits this node has not raised, because as many keys as allowed are raised or in a pause.", func(s *HotRaises) float64 { return float64(s.Full) }),
	}})
}
