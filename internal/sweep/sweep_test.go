package sweep_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/sweep"
)

// diary has when a Sweep has looked.
type diary struct {
	began time.Time
	looks []time.Duration
}

func (d *diary) note() { d.looks = append(d.looks, time.Since(d.began)) }

func (d *diary) want(t *testing.T, looks ...time.Duration) {
	t.Helper()
	synctest.Wait()
	if !slices.Equal(d.looks, looks) {
		t.Errorf("it looked at %v, want %v", d.looks, looks)
	}
}

// TestSweep: it looks as long as there is something, rests, and can be woken again.
func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, left := diary{began: time.Now()}, 3
		s := sweep.New(time.Second, func() bool {
			d.note()
			left--
			return left > 0
		})
		time.Sleep(10 * time.Second)
		d.want(t)
		s.Wake()
		s.Wake()
		time.Sleep(10 * time.Second)
		d.want(t, 11*time.Second, 12*time.Second, 13*time.Second)
		left = 1
		s.Wake()
		time.Sleep(10 * time.Second)
		d.want(t, 11*time.Second, 12*time.Second, 13*time.Second, 21*time.Second)
	})
}

// TestSweepIsWokenDuringALook: what comes while it looks, and is not found, is looked at by a
// later round.
func TestSweepIsWokenDuringALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := diary{began: time.Now()}
		var s *sweep.Sweep
		s = sweep.New(time.Second, func() bool {
			d.note()
			if len(d.looks) == 1 {
				s.Wake()
			}
			return false
		})
		s.Wake()
		time.Sleep(10 * time.Second)
		d.want(t, time.Second, 2*time.Second)
	})
}

// TestSweepStops: after Stop there is no look, whatever is left and whoever wakes it.
func TestSweepStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := diary{began: time.Now()}
		s := sweep.New(time.Second, func() bool { d.note(); return true })
		s.Wake()
		time.Sleep(1500 * time.Millisecond)
		s.Stop()
		s.Wake()
		time.Sleep(10 * time.Second)
		d.want(t, time.Second)

		never := sweep.New(time.Second, func() bool { d.note(); return true })
		never.Stop()
		never.Wake()
		time.Sleep(10 * time.Second)
		d.want(t, time.Second)
	})
}
