package lease_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store/lease"
)

// TestPause: a node that has found a bucket empty denies from memory, and says when
// to come again: then the hit passes. For more hits it says what the
// store would.
func TestPause(t *testing.T) {
	for _, spec := range []limit.Spec{
		limit.PerMinute(6000),
		{Algorithm: limit.GCRA, Quota: 6000, Period: time.Minute, Burst: 1000},
	} {
		t.Run(spec.Algorithm.String(), func(t *testing.T) {
			inBubble(t, lease.Options{}, func(r *rig) {
				l := limit.Must(spec)
				// Not all at once: what a window counts must be able to fade.
				for range 400 {
					r.warm(20, hit("k", l, leasedMode))
				}
				pause := 600 * time.Millisecond
				if l.Algorithm.IsBucket() {
					pause = 100 * time.Millisecond
				}
				for range 20 {
					for r.take(hit("k", l, leasedMode))[0].Allowed {
					}
					for _, hits := range []int64{1, 8, 40} {
						many := hit("k", l, leasedMode)
						many.Hits = hits
						before := r.node.Stats().Paused
						d := r.take(many)[0].Decision
						if d.Allowed || r.node.Stats().Paused != before+1 {
							t.Fatalf("%d hits: %+v, want a denial from memory", hits, d)
						}
						// A view has whole hits: it may be one, of 10 ms, off.
						exact := r.shared.TakeOne("k", l, hits).RetryAfter
						if d.RetryAfter < exact-15*time.Millisecond || d.RetryAfter > max(exact, pause)+5*time.Millisecond {
							t.Errorf("%d hits: retry after %v, the store says %v and the pause is %v", hits, d.RetryAfter, exact, pause)
						}
						if hits == 40 {
							time.Sleep(d.RetryAfter)
						}
					}
					if res := r.take(hit("k", l, leasedMode))[0]; !res.Allowed {
						t.Errorf("after that time: %+v", res.Decision)
					}
				}
			})
		})
	}
}
