package telemetry

// Hooks counts the events that others are told of, over all of those who are. Told is
// the sum of Sent, Failed, Dropped and Queued.
type Hooks struct {
	Told, Sent, Failed, Dropped, Retried uint64
	Queued                               int64
}

// WatchHooks adds what others are told to the metrics. read is called once for each
// collection.
func (m *Metrics) WatchHooks(read func() Hooks) {
	m.register.MustRegister(sampled[Hooks]{read, []metric[Hooks]{
		counter("headgate_webhook_told_total", "Events that were due, one for each receiver: the sum of sent, failed, dropped and queued.", func(h *Hooks) float64 { return float64(h.Told) }),
		counter("headgate_webhook_sent_total", "Events that their receiver has taken.", func(h *Hooks) float64 { return float64(h.Sent) }),
		counter("headgate_webhook_failed_total", "Events that were given up: refused for good, or tried too often.", func(h *Hooks) float64 { return float64(h.Failed) }),
		counter("headgate_webhook_dropped_total", "Events that found the queue of their receiver full.", func(h *Hooks) float64 { return float64(h.Dropped) }),
		counter("headgate_webhook_retries_total", "Requests to receivers beyond the first one of an event.", func(h *Hooks) float64 { return float64(h.Retried) }),
		gauge("headgate_webhook_queued", "Events that wait, or are being sent.", func(h *Hooks) float64 { return float64(h.Queued) }),
	}})
}
