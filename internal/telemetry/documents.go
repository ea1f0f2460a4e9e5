package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Documents is what this node knows of what the database says beside accounts.
type Documents struct {
	// Version is that of the last change that is in force.
	Version int64
	// On, Shadow, Off and Raised are the switches in force, by their state.
	On, Shadow, Off, Raised int64
	// RefusedRules, RefusedRows, RefusedTiers and RefusedSwitches are not in force since
	// they cannot be.
	RefusedRules, RefusedRows, RefusedTiers, RefusedSwitches int64
}

// WatchDocuments adds what is known of documents to the metrics. read is called once
// for each collection.
func (m *Metrics) WatchDocuments(read func() Documents) {
	const switched, refused = "headgate_switches", "headgate_documents_refused"
	const switchedHelp = "Switches in force, by state (on, shadow, off, raised); those that are over are not counted."
	const refusedHelp = "Entries of the database that are not in force because they are not valid, by kind (rules, rule_row, tiers, switch)."
	m.register.MustRegister(sampled[Documents]{read, []metric[Documents]{
		gauge("headgate_documents_version", "Version of the database whose rules, tiers and switches are in force. A node that differs for long does not hear from the database.", func(s *Documents) float64 { return float64(s.Version) }),
		gaugeOf(switched, switchedHelp, prometheus.Labels{"state": "on"}, func(s *Documents) float64 { return float64(s.On) }),
		gaugeOf(switched, switchedHelp, prometheus.Labels{"state": "shadow"}, func(s *Documents) float64 { return float64(s.Shadow) }),
		gaugeOf(switched, switchedHelp, prometheus.Labels{"state": "off"}, func(s *Documents) float64 { return float64(s.Off) }),
		gaugeOf(switched, switchedHelp, prometheus.Labels{"state": "raised"}, func(s *Documents) float64 { return float64(s.Raised) }),
		gaugeOf(refused, refusedHelp, prometheus.Labels{"kind": "rules"}, func(s *Documents) float64 { return float64(s.RefusedRules) }),
		gaugeOf(refused, refusedHelp, prometheus.Labels{"kind": "rule_row"}, func(s *Documents) float64 { return float64(s.RefusedRows) }),
		gaugeOf(refused, refusedHelp, prometheus.Labels{"kind": "tiers"}, func(s *Documents) float64 { return float64(s.RefusedTiers) }),
		gaugeOf(refused, refusedHelp, prometheus.Labels{"kind": "switch"}, func(s *Documents) float64 { return float64(s.RefusedSwitches) }),
	}})
}
