package rlqs

import (
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
)

// A stream that was silent gives back no more of what it was promised than can still be in
// each of the buckets: the rest is over, and others have used the room since.
func TestSilentStreamsGiveBackWhatIsLeft(t *testing.T) {
	began := time.Unix(1_800_000_000, 0) // a whole minute
	window := func(a limit.Algorithm) *limit.Limit {
		return limit.Must(limit.Spec{Algorithm: a, Quota: 100, Period: time.Minute})
	}
	for _, tt := range []struct {
		name    string
		counted []*limit.Limit
		silent  time.Duration
		allowed int64
		want    int64
	}{
		{"more than was promised", []*limit.Limit{window(limit.FixedWindow)}, time.Hour, 70, 20},
		{"within the window", []*limit.Limit{window(limit.FixedWindow)}, 59 * time.Second, 20, -30},
		{"after the window", []*limit.Limit{window(limit.FixedWindow)}, time.Minute, 20, 0},
		{"by its weight", []*limit.Limit{window(limit.SlidingWindow)}, 90 * time.Second, 20, -15},
		{"a log that has forgotten", []*limit.Limit{window(limit.SlidingLog)}, time.Minute, 0, 0},
		{"a bucket that has drained", []*limit.Limit{window(limit.TokenBucket)}, 61 * time.Second, 0, 0},
		{"a bucket that may hold it", []*limit.Limit{window(limit.GCRA)}, 30 * time.Second, 0, -50},
		{"of two limits the shorter", []*limit.Limit{limit.Must(limit.PerHour(100)), window(limit.FixedWindow)}, time.Minute, 0, 0},
		{"of two limits the shorter, which comes first", []*limit.Limit{window(limit.FixedWindow), limit.Must(limit.PerHour(100))}, time.Minute, 0, 0},
		{"no limit that counts for long", nil, time.Hour, 0, -50},
	} {
		l := &lease{promised: 50, promisedAt: began, counted: tt.counted}
		if got := l.settles(tt.allowed, began.Add(tt.silent)); got != tt.want || l.promised != 0 {
			t.Errorf("%s: %d, want %d; promised %d", tt.name, got, tt.want, l.promised)
		}
	}
}
