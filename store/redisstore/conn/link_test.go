package conn

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/store/breaker"
)

// The breaker's pause is how often a server that refuses connections is dialled: three
// times at once, then once in each pause.
func TestNobodyDialsWhileOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &Options{Addr: "nowhere:1", Breaker: breaker.Options{Pause: 30 * time.Second, Jitter: func() float64 { return 0 }}}
		var dials []time.Duration
		began := time.Now()
		l := &link{options: o, gate: NewGate(o), dial: func(context.Context) (*Session, error) {
			dials = append(dials, time.Since(began))
			return nil, errors.New("connection refused")
		}}
		l.open()
		time.Sleep(100 * time.Second)
		l.close(ErrClosed)
		if len(dials) != 6 {
			t.Fatalf("dialled after %v, want three times at once, and then each 30 s", dials)
		}
		if dials[2] > time.Second {
			t.Errorf("the breaker had no three failures for %v", dials[2])
		}
		for i := 3; i < len(dials); i++ {
			if pause := dials[i] - dials[i-1]; pause < 30*time.Second || pause > 31*time.Second {
				t.Errorf("a pause of %v before dial %d", pause, i+1)
			}
		}
	})
}

// The link does not wait for the breaker where another server has taken over, and only
// there.
func TestDialsElsewhereAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &Options{Addr: "nowhere:1", Breaker: breaker.Options{Pause: time.Hour}}
		var dials, asked atomic.Int64
		var moved atomic.Bool
		l := &link{
			options: o, gate: NewGate(o),
			dial:      func(context.Context) (*Session, error) { dials.Add(1); return nil, errors.New("connection refused") },
			elsewhere: func(context.Context) bool { asked.Add(1); return moved.Load() },
		}
		l.open()
		time.Sleep(20 * time.Second)
		if dials.Load() != 3 || asked.Load() < 10 {
			t.Errorf("%d dials, and asked %d times who is the primary", dials.Load(), asked.Load())
		}
		moved.Store(true)
		time.Sleep(2 * time.Second)
		moved.Store(false)
		time.Sleep(2 * time.Second)
		if dials.Load() < 6 {
			t.Errorf("%d dials after another server had taken over", dials.Load())
		}
		l.close(ErrClosed)
	})
}

// The newest answer counts, however few sentinels give it; of equally new ones that
// which most give.
func TestNewestReport(t *testing.T) {
	old, fresh := Report{Addr: "old:1", Epoch: 3}, Report{Addr: "new:1", Epoch: 4}
	for name, c := range map[string]struct {
		reports []Report
		want    string
		votes   int
	}{
		"a minority knows the newer epoch":         {[]Report{old, old, fresh}, "new:1", 1},
		"the newer epoch comes first":              {[]Report{fresh, old, old}, "new:1", 1},
		"sentinels that may not tell their epochs": {[]Report{{Addr: "a:1"}, {Addr: "b:1"}, {Addr: "b:1"}}, "b:1", 2},
		"as many give one as the other":            {[]Report{{Addr: "b:1"}, {Addr: "a:1"}}, "a:1", 1},
		"in another order":                         {[]Report{{Addr: "a:1"}, {Addr: "b:1"}}, "a:1", 1},
		"one alone":                                {[]Report{old}, "old:1", 1},
	} {
		if got := Newest(c.reports); got.Addr != c.want || got.Votes != c.votes {
			t.Errorf("%s: %+v, want %s with %d votes", name, got, c.want, c.votes)
		}
	}
}
