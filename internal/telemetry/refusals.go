package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Refusals counts the requests that a door has refused for one reason since the start.
type Refusals struct {
	// Door and Reason are the values of the labels. They are of fixed lists.
	Door, Reason string
	Total        uint64
}

// WatchRefusals adds whom the doors turn away to the metrics. read is called once for each
// collection.
func (m *Metrics) WatchRefusals(read func() []Refusals) {
	m.register.MustRegister(refusalCollector(read))
}

type refusalCollector func() []Refusals

var refusals = prometheus.NewDesc("headgate_auth_refused_total",
	"Requests that were refused because of who asks, by door (admin, dashboard, billing, usage, gateway, proxy, ops, http, grpc, auth, redis) and reason (no_token, malformed, unknown_token, unknown_signer, bad_signature, expired, bad_claims, revoked, no_keys, wrong_scope, rate_limited, no_session, unknown_session, origin, other_host).",
	[]string{"door", "reason"}, nil)

// Describe implements prometheus.Collector.
func (refusalCollector) Describe(ch chan<- *prometheus.Desc) { ch <- refusals }

// Collect implements prometheus.Collector.
func (c refusalCollector) Collect(ch chan<- prometheus.Metric) {
	for _, r := range c() {
		ch <- total(refusals, r.Total, r.Door, r.Reason)
	}
}
