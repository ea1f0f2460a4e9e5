package timeline

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/internal/view"
)

// Each second is known of its own, and the minutes are kept every five minutes and at the end.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		line, kept, looks := New(time.Now()), 0, 0.0
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			line.Run(ctx, func() (view.Requests, view.Latency) {
				looks++
				return view.Requests{Denied: 3 * looks}, view.Latency{P99: 0.001}
			}, func() { kept++ })
		}()
		begun := time.Now()
		sleep.For(t.Context(), keepEvery+10*time.Second)
		synctest.Wait()
		got := line.Between(begun, time.Now(), MaxPoints)
		if n := len(got.Points); got.Step != 1 || n < 309 || n > 310 || kept != 1 {
			t.Errorf("%d points of %d s, kept %d times", n, got.Step, kept)
		}
		for _, p := range got.Points[1:] {
			if p.Known != 1 || p.Requests.Denied != 3 {
				t.Errorf("%+v", p)
			}
		}
		stop()
		<-ended
		if kept != 2 {
			t.Errorf("kept %d times at the end", kept)
		}
	})
}
