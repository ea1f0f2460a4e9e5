package telemetry

import "testing"

func TestHooks(t *testing.T) {
	m := New(Build{}, Options{})
	state := Hooks{Told: 10, Sent: 4, Failed: 3, Dropped: 2, Retried: 7, Queued: 1}
	m.WatchHooks(func() Hooks { return state })
	expect(t, m, map[string]float64{
		"headgate_webhook_told_total": 10, "headgate_webhook_sent_total": 4, "headgate_webhook_failed_total": 3,
		"headgate_webhook_dropped_total": 2, "headgate_webhook_retries_total": 7, "headgate_webhook_queued": 1,
	})
	state.Told, state.Queued = 12, 3
	expect(t, m, map[string]float64{"headgate_webhook_told_total": 12, "headgate_webhook_queued": 3})
}
