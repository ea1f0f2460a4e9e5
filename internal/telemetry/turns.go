package telemetry

// Turns is who waits for a turn at the store: see package turns.
type Turns struct {
	// Waiting is how many requests wait now, Waited how many had to so far.
	Waiting int64
	Waited  uint64
}

// WatchTurns adds who waits for a turn to the metrics. read is called once for each collection.
func (m *Metrics) WatchTurns(read func() Turns) {
	m.register.MustRegister(sampled[Turns]{read, []metric[Turns]{
		gauge("headgate_turns_waiting", "Requests that wait for a turn at the store, because the node has more to do than its processors can.", func(t *Turns) float64 { return float64(t.Waiting) }),
		counter("headgate_turns_waited_total", "Requests that had to wait for a turn at the store.", func(t *Turns) float64 { return float64(t.Waited) }),
	}})
}
