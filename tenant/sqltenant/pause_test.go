package sqltenant

import (
	"errors"
	"testing"

	"time"

	"github.com/headgate/headgate/tenant"
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

// A load that failed, or has read an older state than is known, is not tried again before a
// pause is over.
func TestFailedLoadWaits(t *testing.T) {
	r := run{Watcher: NewWatcher(new(DB), nil, WatcherOptions{}), rules: make(chan struct{}, 1), pause: time.Hour}
	r.Begin(new(tenant.Snapshot), Point{Version: 3})
	for version, older := range map[int64]bool{2: true, 3: false, 4: false} {
		if r.older(&loaded{at: Point{Version: version}}) != older {
			t.Errorf("version %d is older than 3: %v", version, !older)
		}
	}
	r.loadAgain(errors.New("away"))
	r.act(t.Context(), seen{})
	if r.loading || !r.want {
		t.Errorf("loading %v, wanted %v", r.loading, r.want)
	}
}

// While all accounts are read for the first time, each look finds that nothing is known. They
// are not read once more for that, but for another history they are.
func TestFirstLoadIsOne(t *testing.T) {
	r := run{Watcher: NewWatcher(new(DB), nil, WatcherOptions{}), rules: make(chan struct{}, 1), loading: true}
	r.act(t.Context(), seen{rules: true, all: true})
	if r.want {
		t.Error("a second load is wanted")
	}
	r.Begin(new(tenant.Snapshot), Point{Version: 3})
	r.act(t.Context(), seen{rules: true, all: true})
	if !r.want {
		t.Error("no load is wanted for another history")
	}
}
