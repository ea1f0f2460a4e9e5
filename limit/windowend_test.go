package limit

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Whatever was asked, the window of a sliding window ends where windows of its length do,
// and with it the count of a fixed window.
func TestWindowEndsAfter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		period := time.Duration(rapid.Int64Range(1, 1e9).Draw(t, "period")) * time.Microsecond
		algorithm := rapid.SampledFrom([]Algorithm{SlidingWindow, FixedWindow}).Draw(t, "algorithm")
		l := Must(Spec{Algorithm: algorithm, Quota: 10, Period: period})
		var s State
		now := Micros(rapid.Int64Range(0, 1e15).Draw(t, "now"))
		for range rapid.IntRange(1, 5).Draw(t, "asked") {
			now += Micros(rapid.Int64Range(0, 2*period.Microseconds()).Draw(t, "later"))
			var d Decision
			s, d = Decide(l, s, now, rapid.Int64Range(1, 12).Draw(t, "hits"))
			got := l.WindowEndsAfter(d.ResetAfter)
			if d.ResetAfter == 0 {
				if got != 0 {
					t.Fatalf("unused, and its window ends in %v", got)
				}
				continue
			}
			if end := int64(now) + got.Microseconds(); got <= 0 || got > period || end%period.Microseconds() != 0 {
				t.Fatalf("at %d the window of %v ends in %v, reset %v", now, period, got, d.ResetAfter)
			}
		}
	})
}

func TestWindowEndsAfterOfOthers(t *testing.T) {
	var none *Limit
	if got := none.WindowEndsAfter(time.Second); got != time.Second {
		t.Errorf("of no limit: %v", got)
	}
	bucket := Must(Spec{Algorithm: TokenBucket, Quota: 10, Period: time.Second, Burst: 40})
	if got := bucket.WindowEndsAfter(3 * time.Second); got != 3*time.Second {
		t.Errorf("of a bucket: %v", got)
	}
}
