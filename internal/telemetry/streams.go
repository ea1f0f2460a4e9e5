package telemetry

// Streams is what streams of checks count.
type Streams struct {
	// Streams are open.
	Streams int
	// Messages have come, with Checks, of which Failed were answered by an error.
	Messages, Checks, Failed uint64
	// Waited are messages that were not read at once for want of room, and Unread streams that
	// were ended because their answers were not read.
	Waited, Unread uint64
}

// WatchStreams adds what streams of checks count to the metrics. read is called once for each
// collection.
func (m *Metrics) WatchStreams(read func() Streams) {
	m.register.MustRegister(sampled[Streams]{read, []metric[Streams]{
		gauge("headgate_streams_open", "Streams of checks that are open.", func(s *Streams) float64 { return float64(s.Streams) }),
		counter("headgate_streams_messages_total", "Messages with checks that came over streams.", func(s *Streams) float64 { return float64(s.Messages) }),
		counter("headgate_streams_checks_total", "Checks that came over streams.", func(s *Streams) float64 { return float64(s.Checks) }),
		counter("headgate_streams_failed_total", "Checks over streams that were answered by an error.", func(s *Streams) float64 { return float64(s.Failed) }),
		counter("headgate_streams_waited_total", "Messages that waited because too much of their stream was in flight.", func(s *Streams) float64 { return float64(s.Waited) }),
		counter("headgate_streams_unread_total", "Streams that were ended because their answers were not read.", func(s *Streams) float64 { return float64(s.Unread) }),
	}})
}
