package telemetry

// Refusals counts the requests that a door has refused for one reason since the start.
type Refusals struct {
	// Door and Reason are the values of the labels. They are of fixed lists.
	Door, Reason string
	Total        uint64
}

// WatchRefusals adds whom the doors turn away to the metrics. read is called once for each
// collection.
func (m *Metrics) WatchRefusals(read func() []Refusals) {
	m.register.MustRegister(newListed(read, []string{"door", "reason"}, func(r *Refusals) []string { return []string{r.Door, r.Reason} }, []listedMetric[Refusals]{
		{totalValue, "headgate_auth_refused_total",
			"Requests that were refused because of who asks, by door (admin, dashboard, billing, usage, gateway, proxy, ops, http, grpc, auth, redis) and reason (no_token, malformed, unknown_token, unknown_signer, bad_signature, expired, bad_claims, revoked, no_keys, wrong_scope, rate_limited, no_session, unknown_session, origin, other_host).",
			func(r *Refusals) float64 { return float64(r.Total) }, nil},
	}...))
}
