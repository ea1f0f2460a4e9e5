package storetest

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/limit"
)

func TestMaxInWindow(t *testing.T) {
	for _, test := range []struct {
		stamps []limit.Micros
		want   int
	}{
		{nil, 0},
		{[]limit.Micros{5}, 1},
		{[]limit.Micros{5, 5, 5}, 3},
		{[]limit.Micros{0, 10}, 1},
		{[]limit.Micros{0, 9}, 2},
		{[]limit.Micros{30, 0, 9, 18, 27}, 2},
		{[]limit.Micros{-3, 4, 6, 7}, 3},
	} {
		if got := MaxInWindow(test.stamps, 10*time.Microsecond); got != test.want {
			t.Errorf("%v: %d, want %d", test.stamps, got, test.want)
		}
	}
}

// TestMaxInWindowBySearch counts the window that ends at each stamp.
func TestMaxInWindowBySearch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		offsets := rapid.SliceOf(rapid.Int64Range(-50, 50)).Draw(t, "stamps")
		window := rapid.Int64Range(1, 30).Draw(t, "window")
		stamps := make([]limit.Micros, len(offsets))
		want := 0
		for i := range offsets {
			stamps[i] = limit.Micros(offsets[i])
		}
		for _, end := range offsets {
			n := 0
			for _, at := range offsets {
				if at > end-window && at <= end {
					n++
				}
			}
			want = max(want, n)
		}
		if got := MaxInWindow(stamps, time.Duration(window)*time.Microsecond); got != want {
			t.Errorf("%v in %d µs: %d, want %d", stamps, window, got, want)
		}
	})
}
