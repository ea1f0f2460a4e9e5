package telemetry

// RLQS is what Envoy's rate limit quota service counts.
type RLQS struct {
	// Streams are open; they have Buckets, each counted once for a stream.
	Streams, Buckets int
	// Reports have come. Ignored are buckets in them that could not be read or had no
	// room, and Failed questions to the rules that were not answered.
	Reports, Ignored, Failed uint64
	// Assigned are buckets that a stream was told of, Abandoned those that it was told to
	// forget.
	Assigned, Abandoned uint64
	// Allowed and Denied are requests that streams have reported.
	Allowed, Denied uint64
}

// WatchRLQS adds what Envoy's rate limit quota service counts to the metrics. read is called
// once for each collection.
func (m *Metrics) WatchRLQS(read func() RLQS) {
	m.register.MustRegister(sampled[RLQS]{read, []metric[RLQS]{
		gauge("headgate_rlqs_streams", "Envoys that report what they let pass (RLQS).", func(s *RLQS) float64 { return float64(s.Streams) }),
		gauge("headgate_rlqs_buckets", "Buckets that Envoys report, each counted for each Envoy that does.", func(s *RLQS) float64 { return float64(s.Buckets) }),
		counter("headgate_rlqs_reports_total", "Messages in which Envoys report.", func(s *RLQS) float64 { return float64(s.Reports) }),
		counter("headgate_rlqs_assigned_total", "Assignments that were sent to Envoys.", func(s *RLQS) float64 { return float64(s.Assigned) }),
		counter("headgate_rlqs_abandoned_total", "Buckets that Envoys were told to forget because no request came for a minute.", func(s *RLQS) float64 { return float64(s.Abandoned) }),
		counter("headgate_rlqs_ignored_total", "Buckets in reports that were not answered, because they were malformed or there are too many; and each message that ended its stream, because it was malformed or too long.", func(s *RLQS) float64 { return float64(s.Ignored) }),
		counter("headgate_rlqs_failed_total", "Charges of reports that the rules refused to take; it stays 0.", func(s *RLQS) float64 { return float64(s.Failed) }),
		counter("headgate_rlqs_allowed_total", "Requests that Envoys report to have let pass.", func(s *RLQS) float64 { return float64(s.Allowed) }),
		counter("headgate_rlqs_denied_total", "Requests that Envoys report to have denied.", func(s *RLQS) float64 { return float64(s.Denied) }),
	}})
}
