package telemetry

import "github.com/prometheus/client_golang/prometheus"

// DualRun is what a dual run counts.
type DualRun struct {
	// Compared answers were compared, Different decide otherwise; OldDenied and OwnDenied
	// were denied by the old service and by the rules of this process.
	Compared, Different, OldDenied, OwnDenied uint64
	// OldFailed and OwnFailed were not answered, Skipped not compared.
	OldFailed, OwnFailed, Skipped uint64
	// Causes are the answers that differ by cause.
	Causes map[string]uint64
}

// WatchDualRun adds what a dual run counts to the metrics. read is called once for each
// collection, and first to know the causes.
func (m *Metrics) WatchDualRun(read func() DualRun) {
	all := []metric[DualRun]{
		counter("headgate_dual_run_compared_total", "Answers of the old service that were compared with those of the rules.", func(s *DualRun) float64 { return float64(s.Compared) }),
		counter("headgate_dual_run_different_total", "Answers in which one of the two denies and the other does not.", func(s *DualRun) float64 { return float64(s.Different) }),
		counter("headgate_dual_run_skipped_total", "Requests that were not compared, because too many decisions were under way.", func(s *DualRun) float64 { return float64(s.Skipped) }),
	}
	of := func(name, help, label, value string, count func(*DualRun) uint64) metric[DualRun] {
		return counterOf(name, help, prometheus.Labels{label: value}, func(s *DualRun) float64 { return float64(count(s)) })
	}
	const denied, failed = "Requests that were denied, by side (old, own).", "Requests that were not answered, by side (old, own)."
	all = append(all,
		of("headgate_dual_run_denied_total", denied, "side", "old", func(s *DualRun) uint64 { return s.OldDenied }),
		of("headgate_dual_run_denied_total", denied, "side", "own", func(s *DualRun) uint64 { return s.OwnDenied }),
		of("headgate_dual_run_failed_total", failed, "side", "old", func(s *DualRun) uint64 { return s.OldFailed }),
		of("headgate_dual_run_failed_total", failed, "side", "own", func(s *DualRun) uint64 { return s.OwnFailed }),
	)
	for cause := range read().Causes {
		all = append(all, of("headgate_dual_run_differences_total", "Answers that differ, in whole or in part, by cause (shape, limit, start, window, counts).", "cause", cause, func(s *DualRun) uint64 { return s.Causes[cause] }))
	}
	m.register.MustRegister(sampled[DualRun]{read, all})
}
