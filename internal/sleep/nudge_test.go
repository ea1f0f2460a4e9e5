package sleep_test

import (
	"testing"

	"github.com/headgate/headgate/internal/sleep"
)

// TestNudge: what was given often is there once, and giving waits for nobody.
func TestNudge(t *testing.T) {
	there := func(n sleep.Nudge) bool {
		select {
		case <-n:
			return true
		default:
			return false
		}
	}
	n := sleep.NewNudge()
	if there(n) {
		t.Error("it is there before it was given")
	}
	for range 2 {
		n.Give()
		n.Give()
		if !there(n) || there(n) {
			t.Error("it is not there once")
		}
	}
	sleep.Nudge(nil).Give()
}
