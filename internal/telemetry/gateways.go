package telemetry

// Gateways is what the way in for gateways has counted since start.
type Gateways struct {
	// Strangers asked and may not.
	Strangers uint64
	// Refused are requests that did not tell who asks.
	Refused uint64
	// Skipped are requests that nothing limits.
	Skipped uint64
}

// WatchGateways adds what the way in for gateways counts to the metrics. read is
// called once for each collection.
func (m *Metrics) WatchGateways(read func() Gateways) {
	m.register.MustRegister(sampled[Gateways]{read, []metric[Gateways]{
		counter("headgate_gateway_strangers_total", "Sub-requests from addresses that are not in --auth-peers.", func(s *Gateways) float64 { return float64(s.Strangers) }),
		counter("headgate_gateway_refused_total", "Requests that were refused because they did not tell who asks (400 and 401).", func(s *Gateways) float64 { return float64(s.Refused) }),
		counter("headgate_gateway_skipped_total", "Requests of gateways that nothing limits, such as CORS preflights.", func(s *Gateways) float64 { return float64(s.Skipped) }),
	}})
}
