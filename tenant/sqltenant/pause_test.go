package sqltenant

import (
	"errors"
	"testing"
	"time"
)

// TestPausesDouble: a database that is away is asked ever less often, up to a bound, and
// from the start again once it has answered.
func TestPausesDouble(t *testing.T) {
	told := 0
	r := run{Watcher: NewWatcher(nil, nil, WatcherOptions{OnError: func(error) { told++ }})}
	for range 2 {
		for i, want := range []time.Duration{250, 500, 1000, 2000, 4000, 5000, 5000, 5000} {
			if got := r.fail(errors.New("away")); got != want*time.Millisecond {
				t.Errorf("pause %d is %v, want %v", i+1, got, want*time.Millisecond)
			}
		}
		r.works()
	}
	if told != 2*(8+1) {
		t.Errorf("told %d times, want of each failure and each return", told)
	}
}
