package telemetry

import "github.com/headgate/headgate/trial"

// WatchCandidates adds to the metrics what was seen of candidate limits. read is
// called once for each collection.
func (m *Metrics) WatchCandidates(read func() []trial.Report) {
	type report = trial.Report
	m.register.MustRegister(newListed(read, []string{"rule"}, func(r *report) []string { return []string{r.Rule} }, []listedMetric[report]{
		{nowValue, "headgate_candidate_decided", "Recent requests that only this rule decided, by which its candidate limits were compared.", func(r *report) float64 { return float64(r.Decided) }, nil},
		{nowValue, "headgate_candidate_added_denials", "Requests of headgate_candidate_decided that the candidate limits alone deny.", func(r *report) float64 { return float64(r.Added) }, nil},
		{nowValue, "headgate_candidate_avoided_denials", "Requests of headgate_candidate_decided that the main limits alone deny.", func(r *report) float64 { return float64(r.Avoided) }, nil},
		{nowValue, "headgate_candidate_rolled_back", "1 since this node took the candidate limits back by itself, else 0.", func(r *report) float64 { return oneIf(!r.RolledBack.IsZero()) }, nil},
	}...))
}
