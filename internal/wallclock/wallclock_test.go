package wallclock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/limit"
)

func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Clock
		machine := time.Now()
		if !c.Now().Equal(machine) || c.Now().String() != machine.String() {
			t.Errorf("the zero value is %v, want that of the machine with its monotonic reading: %v", c.Now(), machine)
		}
		for _, ahead := range []time.Duration{time.Hour, -24 * time.Hour} {
			c.Set(ahead)
			want := machine.Round(0).Add(ahead)
			if got := c.Now(); got != want || c.Ahead() != ahead || c.Micros() != limit.MicrosOf(want) {
				t.Errorf("ahead by %v: %v, %v, %v, want %v", ahead, got, c.Ahead(), c.Micros(), want)
			}
		}
		c.Set(0)
		if !c.Now().Equal(machine) {
			t.Errorf("put right: %v, want %v", c.Now(), machine)
		}
	})
}

// TestMonotonic: a clock that was put ahead has no monotonic reading, by which a difference from
// it would be that of the machine. In a bubble of synctest no time has one, so this is outside.
func TestMonotonic(t *testing.T) {
	var c Clock
	if now := c.Now(); now == now.Round(0) {
		t.Errorf("%v has no monotonic reading, and is the time of the machine", now)
	}
	c.Set(time.Hour)
	if now := c.Now(); now != now.Round(0) {
		t.Errorf("%v has a monotonic reading", now)
	}
}
