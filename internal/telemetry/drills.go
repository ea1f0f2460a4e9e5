package telemetry

// Drills is what is known of drills.
type Drills struct {
	// UnderWay is whether one lasts, Here whether its fault is on this node.
	UnderWay, Here bool
	// Begun counts those that have begun on this node since start, Aborted those of them
	// that ended because decisions failed.
	Begun, Aborted uint64
}

// WatchDrills adds drills to the metrics. read is called once for each collection.
func (m *Metrics) WatchDrills(read func() Drills) {
	m.register.MustRegister(sampled[Drills]{read, []metric[Drills]{
		gauge("headgate_drill_under_way", "1 while nodes rehearse a fault, else 0.", func(s *Drills) float64 { return oneIf(s.UnderWay) }),
		gauge("headgate_drill_here", "1 while this node has the fault that is rehearsed, else 0.", func(s *Drills) float64 { return oneIf(s.Here) }),
		counter("headgate_drills_total", "Drills that have begun on this node.", func(s *Drills) float64 { return float64(s.Begun) }),
		counter("headgate_drills_aborted_total", "Drills that ended on this node because decisions failed.", func(s *Drills) float64 { return float64(s.Aborted) }),
	}})
}
