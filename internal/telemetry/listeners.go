package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Listener is what is known of the connections of one listener.
type Listener struct {
	// Name is that of a listener: it comes from the program.
	Name         string
	Open         int64
	Full, Failed uint64
}

// Certificate is what is known of the certificate of one listener.
type Certificate struct {
	Listener string
	NotAfter time.Time
	// Refused counts changes of its files that could not be used, and Stale says that what the
	// files hold now is not in force.
	Refused uint64
	Stale   bool
}

// WatchListeners adds connections and certificates to the metrics. Both are called once for
// each collection.
func (m *Metrics) WatchListeners(listeners func() []Listener, certificates func() []Certificate) {
	byName := func(l *Listener) []string { return []string{l.Name} }
	m.register.MustRegister(
		newListed(listeners, []string{"listener"}, byName, []listedMetric[Listener]{
			{prometheus.GaugeValue, "headgate_connections", "Connections that are open.", func(l *Listener) float64 { return float64(l.Open) }, nil},
			{totalValue, "headgate_connections_refused_total", "Connections that were closed because too many were open.", func(l *Listener) float64 { return float64(l.Full) }, nil},
			{totalValue, "headgate_tls_handshakes_failed_total", "Connections whose TLS handshake failed, including those without a certificate that may connect.", func(l *Listener) float64 { return float64(l.Failed) }, nil},
		}...),
		newListed(certificates, []string{"listener"}, func(c *Certificate) []string { return []string{c.Listener} }, []listedMetric[Certificate]{
			{prometheus.GaugeValue, "headgate_certificate_expiry_timestamp_seconds", "When the certificate in force expires.", func(c *Certificate) float64 { return float64(c.NotAfter.Unix()) }, nil},
			{prometheus.GaugeValue, "headgate_certificate_stale", "1 while the files of a certificate hold something that cannot be used, so that the one before stays in force, else 0.", func(c *Certificate) float64 { return oneIf(c.Stale) }, nil},
			{totalValue, "headgate_certificate_refused_total", "Changes of the files of a certificate that could not be used, so that the one before stays in force.", func(c *Certificate) float64 { return float64(c.Refused) }, nil},
		}...),
	)
}
