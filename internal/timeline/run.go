package timeline

import (
	"context"
	"time"

	"github.com/headgate/headgate/internal/view"
)

// keepEvery is how often Run has the minutes kept.
const keepEvery = 5 * time.Minute

// Run asks once a second what was answered since the start, and how long decisions of the last minute took,
// until ctx ends. It calls keep every five minutes, and at the end.
func (t *Timeline) Run(ctx context.Context, look func() (since view.Requests, took view.Latency), keep func()) {
	tick := time.NewTimer(0)
	defer tick.Stop()
	for kept := time.Now(); ; {
		// In the middle of a second, so that a tick that is a little late does not belong to the next one.
		tick.Reset(time.Until(time.Now().Truncate(time.Second).Add(1500 * time.Millisecond)))
		select {
		case <-ctx.Done():
			keep()
			return
		case <-tick.C:
		}
		since, took := look()
		t.Tell(time.Now(), since, took)
		if time.Since(kept) >= keepEvery {
			keep()
			kept = time.Now()
		}
	}
}
