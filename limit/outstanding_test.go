package limit

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestOutstanding(t *testing.T) {
	const hour, start = int64(3_600_000_000), int64(1_800_000_000_000_000) // a whole hour
	for _, tt := range []struct {
		name         string
		spec         Spec
		charged, now int64 // after start
		want         int64
	}{
		{"fixed window, at its end", Spec{Algorithm: FixedWindow, Quota: 100, Period: time.Hour}, 0, hour - 1, 80},
		{"fixed window, over", Spec{Algorithm: FixedWindow, Quota: 100, Period: time.Hour}, hour - 1, hour, 0},
		{"sliding window, the same", Spec{Quota: 100, Period: time.Hour}, 0, hour - 1, 80},
		{"sliding window, the one before", Spec{Quota: 100, Period: time.Hour}, 0, hour + hour/4, 60},
		{"sliding window, rounded down", Spec{Quota: 100, Period: time.Hour}, 0, hour + 1, 79},
		{"sliding window, over", Spec{Quota: 100, Period: time.Hour}, hour - 1, 2 * hour, 0},
		{"sub-windows, whole", Spec{Algorithm: SubWindows, SubWindows: 4, Quota: 100, Period: time.Hour}, 0, hour - 1, 80},
		{"sub-windows, the last part", Spec{Algorithm: SubWindows, SubWindows: 4, Quota: 100, Period: time.Hour}, 0, hour + hour/8, 40},
		{"sub-windows, over", Spec{Algorithm: SubWindows, SubWindows: 4, Quota: 100, Period: time.Hour}, 0, hour + hour/4, 0},
		{"strict sub-windows, the last part", Spec{Algorithm: SubWindows, SubWindows: 4, Strict: true, Quota: 100, Period: time.Hour}, 0, hour + hour/8, 80},
		{"log, just within", Spec{Algorithm: SlidingLog, Quota: 100, Period: time.Hour}, 5, hour + 4, 80},
		{"log, over", Spec{Algorithm: SlidingLog, Quota: 100, Period: time.Hour}, 5, hour + 5, 0},
		{"token bucket, while a full one drains", Spec{Algorithm: TokenBucket, Quota: 100, Burst: 50, Period: time.Hour}, 0, hour / 2, 80},
		{"token bucket, drained", Spec{Algorithm: TokenBucket, Quota: 100, Burst: 50, Period: time.Hour}, 0, hour/2 + 1, 0},
		{"gcra, drained", Spec{Algorithm: GCRA, Quota: 100, Period: time.Hour}, 0, hour + 1, 0},
		{"a clock that steps back", Spec{Algorithm: FixedWindow, Quota: 100, Period: time.Hour}, 5 * hour, 0, 80},
		{"slots", Spec{Algorithm: Concurrency, Quota: 100, Period: time.Hour}, 0, 0, 0},
	} {
		l := Must(tt.spec)
		if got := l.Outstanding(Micros(start+tt.charged), Micros(start+tt.now), 80); got != tt.want {
			t.Errorf("%s: %d of 80, want %d", tt.name, got, tt.want)
		}
	}
	if got := Must(PerMinute(5)).Outstanding(0, 0, -1); got != 0 {
		t.Errorf("%d of less than none", got)
	}
}

// Of hits that are alone in a window, what is outstanding is what the window says is used
// of them; nobody else's hits are given back.
func TestOutstandingIsWhatWeighs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		algorithm := rapid.SampledFrom([]Algorithm{FixedWindow, SlidingWindow, SubWindows, SlidingLog}).Draw(t, "algorithm")
		l := Must(Spec{Algorithm: algorithm, Quota: 1000, Period: time.Second, Strict: algorithm == SubWindows && rapid.Bool().Draw(t, "strict")})
		charged := Micros(1_800_000_000_000_000 + rapid.Int64Range(0, 5_000_000).Draw(t, "charged"))
		now := charged + Micros(rapid.Int64Range(0, 3_000_000).Draw(t, "later"))
		hits := rapid.Int64Range(1, 1000).Draw(t, "hits")
		s, _ := Charge(l, State{}, charged, hits)
		_, d := Decide(l, s, now, 0)
		used, got := d.Limit-d.Remaining, l.Outstanding(charged, now, hits)
		if got > used || got < used-1 { // what is used is rounded up
			t.Errorf("%v: %d of %d are outstanding, %d are used", algorithm, got, hits, used)
		}
	})
}

// Nothing is outstanding once a hit has weighed for as long as it may, and something may be until
// then.
func TestWeighs(t *testing.T) {
	for _, spec := range []Spec{
		{Algorithm: FixedWindow, Quota: 10, Period: time.Hour}, {Quota: 10, Period: time.Hour}, {Algorithm: SlidingLog, Quota: 10, Period: time.Hour},
		{Algorithm: SubWindows, SubWindows: 4, Quota: 10, Period: time.Hour}, {Algorithm: SubWindows, SubWindows: 4, Strict: true, Quota: 10, Period: time.Hour},
		{Algorithm: TokenBucket, Quota: 10, Burst: 5, Period: time.Hour}, {Algorithm: GCRA, Quota: 10, Period: time.Hour},
	} {
		l := Must(spec)
		weighs, longest := Micros(l.Weighs()/time.Microsecond), Micros(0)
		for charged := Micros(1_800_000_000_000_000); charged < 1_800_000_000_000_000+7_200_000_000; charged += 100_000_000 {
			if n := l.Outstanding(charged, charged+weighs, 10); n != 0 {
				t.Errorf("%v: %d are outstanding after %v", l.Algorithm, n, l.Weighs())
			}
			for age := Micros(0); age < weighs; age += 50_000_000 {
				if l.Outstanding(charged, charged+age, 10) > 0 {
					longest = max(longest, age)
				}
			}
		}
		if longest < weighs*3/4 {
			t.Errorf("%v: nothing is outstanding after %d s of %v", l.Algorithm, longest/1_000_000, l.Weighs())
		}
	}
	if n := Must(Spec{Algorithm: Concurrency, Quota: 10, Period: time.Hour}).Weighs(); n != 0 {
		t.Errorf("slots weigh for %v", n)
	}
	if got := Must(Spec{Algorithm: FixedWindow, Quota: 10, Calendar: mustCalendar(t, CalendarMonth, "Europe/Berlin")}).Weighs(); got < 31*24*time.Hour {
		t.Errorf("a month weighs for %v", got)
	}
}
