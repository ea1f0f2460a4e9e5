package telemetry

// Balanced counts connections to a listener behind a load balancer that speaks the PROXY
// protocol.
type Balanced struct {
	// Listener is its name, Outcome proxied, bad or refused.
	Listener, Outcome string
	Connections       uint64
}

// WatchBalanced adds such connections to the metrics. read is called once for each
// collection.
func (m *Metrics) WatchBalanced(read func() []Balanced) {
	m.register.MustRegister(newListed(read, []string{"listener", "outcome"}, func(b *Balanced) []string { return []string{b.Listener, b.Outcome} }, []listedMetric[Balanced]{
		{totalValue, "headgate_proxy_protocol_connections_total", "Connections to listeners behind the PROXY protocol.", func(b *Balanced) float64 { return float64(b.Connections) }, nil},
	}...))
}
