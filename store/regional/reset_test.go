package regional_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// A fixed window ends with that of the home, whether hits pass by leases or by the reserve, of which
// hits come back later.
func TestAFixedWindowEndsAtOneTime(t *testing.T) {
	inPlace(t, func(p *place) {
		l := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 100, Period: time.Hour})
		began := time.Now()
		ask := func(what string, n int, ends time.Duration) (last store.Result) {
			t.Helper()
			for range n {
				last = p.take(store.Take{Key: []byte("k"), Limit: l, Hits: 1})[0]
				if got, want := last.ResetAfter, ends-time.Since(began); got > want || got < want-time.Second {
					t.Errorf("%s the window ends after %v, want %v", what, got, want)
				}
			}
			return last
		}
		p.later(58 * time.Minute)
		ask("by the reserve, while nothing is known of the home,", 3, time.Hour)
		p.later(400 * time.Millisecond)
		if ask("by a lease", 1, time.Hour); p.store.Stats().Leased == 0 {
			t.Errorf("nothing passed by a lease: %+v", p.store.Stats())
		}
		for range 50 {
			p.later(400 * time.Millisecond)
			ask("near the end of the limit", 5, time.Hour)
		}
		if ask("where it is used up", 1, time.Hour).Allowed {
			t.Error("more than the limit passes")
		}
		p.home.down.Store(true)
		p.later(2*time.Minute + time.Second)
		ask("while the home is away", 1, 2*time.Hour)
	})
}
