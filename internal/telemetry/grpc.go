package telemetry

// GRPCEvent is how often something has happened in the own transport of gRPC.
type GRPCEvent struct {
	// Event names it: it comes from the program.
	Event string
	Count uint64
}

// WatchGRPC adds what the own transport of gRPC counts to the metrics. read is called once for
// each collection.
func (m *Metrics) WatchGRPC(read func() []GRPCEvent) {
	m.register.MustRegister(newListed(read, []string{"event"}, func(e *GRPCEvent) []string { return []string{e.Event} }, []listedMetric[GRPCEvent]{
		{totalValue, "headgate_grpc_h2_events_total", "Events of --grpc-transport=h2: calls and batches answered, and connections and streams that were ended, by cause.", func(e *GRPCEvent) float64 { return float64(e.Count) }, nil},
	}...))
}
