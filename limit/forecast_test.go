package limit

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Who takes hits as soon as they pass gets those that were forecast; of a bucket one more at
// most.
func TestForecast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		algorithm := rapid.SampledFrom([]Algorithm{SlidingWindow, FixedWindow, SubWindows, SlidingLog, TokenBucket, LeakyBucket, GCRA}).Draw(t, "algorithm")
		spec := Spec{Algorithm: algorithm, Strict: algorithm == SubWindows && rapid.Bool().Draw(t, "strict"), Quota: rapid.Int64Range(0, 20).Draw(t, "quota")}
		// Whole microseconds for each hit, because who takes one at a time waits those.
		spec.Period = time.Duration(max(spec.Quota, 1)*rapid.Int64Range(100, 1e6).Draw(t, "each")) * time.Microsecond
		if algorithm == TokenBucket || algorithm == GCRA {
			spec.Burst = rapid.Int64Range(1, 30).Draw(t, "burst")
		}
		if spec.Quota == 0 {
			spec.Burst = 0
		}
		l := Must(spec)
		var s State
		now := Micros(rapid.Int64Range(1e15, 2e15).Draw(t, "now"))
		for range rapid.IntRange(0, 4).Draw(t, "asked") {
			now += Micros(rapid.Int64Range(0, 2*spec.Period.Microseconds()).Draw(t, "later"))
			s, _ = Decide(l, s, now, rapid.Int64Range(1, 12).Draw(t, "hits"))
		}
		within := time.Duration(rapid.Int64Range(0, 3e7).Draw(t, "within")) * time.Microsecond
		_, before := Decide(l, s, now, 0)
		copied := s
		copied.Wide = slices.Clone(s.Wide)
		_, after := Decide(l, copied, now, 1)
		forecast := l.Forecast(before.Remaining, after.RetryAfter, within)
		passed := int64(0)
		for end := now + Micros(within.Microseconds()); now <= end; {
			var d Decision
			if s, d = Decide(l, s, now, 1); d.Allowed {
				passed++
				continue
			}
			if d.Never {
				break
			}
			now += Micros(d.RetryAfter.Microseconds())
		}
		if passed < forecast {
			t.Fatalf("%+v: %d of %d forecast passed within %v (%d remained, the next after %v)", spec, passed, forecast, within, before.Remaining, after.RetryAfter)
		}
		if algorithm.IsBucket() && passed > forecast+1 {
			t.Fatalf("%+v: %d passed within %v and %d were forecast", spec, passed, within, forecast)
		}
	})
}

func TestForecastOfOthers(t *testing.T) {
	var none *Limit
	daily, err := NewCalendar(CalendarDay, "Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name              string
		limit             *Limit
		remaining         int64
		retryAfter, after time.Duration
		want              int64
	}{
		{"no limit", none, 7, 0, time.Second, 0},
		{"quota 0", Must(Spec{Period: time.Second}), 0, 0, time.Minute, 0},
		{"calendar", Must(Spec{Algorithm: FixedWindow, Quota: 9, Calendar: daily}), 7, 0, time.Minute, 7},
		{"slots", Must(Spec{Algorithm: Concurrency, Quota: 9, Period: time.Second}), 7, 0, time.Minute, 0},
		{"a second five times", Must(Spec{Algorithm: FixedWindow, Quota: 10, Period: time.Second}), 10, 0, 5 * time.Second, 60},
		{"a weighed second five times", Must(PerSecond(10)), 10, 0, 5 * time.Second, 46},
		{"a debt of three seconds", Must(PerSecond(10)), 0, 3 * time.Second, 5 * time.Second, 9},
		{"too late", Must(PerSecond(10)), 0, 6 * time.Second, 5 * time.Second, 0},
		{"a bucket", Must(Spec{Algorithm: GCRA, Quota: 100, Period: time.Second, Burst: 10}), 10, 0, 5 * time.Second, 510},
		{"a bucket that waits", Must(Spec{Algorithm: GCRA, Quota: 100, Period: time.Second, Burst: 10}), 0, time.Second, 5 * time.Second, 401},
		{"saturated", Must(Spec{Algorithm: FixedWindow, Quota: MaxQuota, Period: time.Microsecond}), MaxQuota, 0, MaxPeriod, MaxQuota},
	} {
		if got := tt.limit.Forecast(tt.remaining, tt.retryAfter, tt.after); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}
