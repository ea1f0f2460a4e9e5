package accuracy

import (
	"cmp"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store/memstore"
)

// all is a store that takes all limits.
func all(*limit.Limit) bool { return true }

// Hits that passed and did not fit are charged by the wide limit of a reference. For what
// comes after that is as if they had been charged by the exact one, but they are all told.
func TestWideLimitsReadTheSameBucket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := limit.Must(limit.Spec{
			Algorithm: limit.Algorithm(rapid.IntRange(int(limit.SlidingWindow), int(limit.GCRA)).Draw(t, "algorithm")),
			Quota:     rapid.Int64Range(1, 20).Draw(t, "quota"),
			Period:    time.Minute,
		})
		ref := newReference(l, all)
		var narrow, wide limit.State
		now := limit.Micros(1_780_315_200_000_000)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now += limit.Micros(rapid.Int64Range(0, 90_000_000).Draw(t, "later") * rapid.Int64Range(0, 1).Draw(t, "moves"))
			hits := rapid.Int64Range(1, 3).Draw(t, "hits")
			var a, b limit.Decision
			if narrow, a = limit.Decide(ref.exact, narrow, now, hits); a.Allowed {
				wide, b = limit.Decide(ref.exact, wide, now, hits)
			} else if wide, b = limit.Decide(ref.exact, wide, now, hits); rapid.Bool().Draw(t, "passes all the same") {
				narrow, _ = limit.Charge(ref.exact, narrow, now, hits)
				var told limit.Decision
				wide, told = limit.Charge(ref.wide, wide, now, hits)
				if over := ref.overshoot(&told); over <= 0 || over > 120 {
					t.Fatalf("%v: %d hits that did not fit are an overshoot of %v", l.Spec, hits, over)
				}
			}
			if a.Allowed != b.Allowed || a.Remaining != b.Remaining {
				t.Fatalf("%v: charged by exact %+v, by wide %+v", l.Spec, a, b)
			}
		}
	})
}

// Overshoot is told as far as a reference is wide.
func TestOvershootIsTold(t *testing.T) {
	passing := map[limit.Algorithm]int64{limit.LeakyBucket: 60, limit.TokenBucket: 600}
	for algorithm, most := range map[limit.Algorithm]float64{
		limit.FixedWindow: wideCounter - 1, limit.SlidingLog: wideLog - 1, limit.SlidingWindow: wideLog - 1, limit.SubWindows: wideLog - 1, limit.TokenBucket: 1e9, limit.LeakyBucket: 1e9,
	} {
		ref := newReference(limit.Must(limit.Spec{Algorithm: algorithm, Quota: 10, Period: time.Hour}), all)
		whole := ref.limit.Capacity()
		var s limit.State
		var d limit.Decision
		for passed := int64(1); passed < cmp.Or(passing[algorithm], 1000); passed++ {
			s, d = limit.Charge(ref.wide, s, 1_780_315_200_000_000, 1)
			if want := min(max(float64(passed-whole)/float64(whole), 0), most); ref.overshoot(&d) != want {
				t.Fatalf("%v: %v after %d hits, want %v", algorithm, ref.overshoot(&d), passed, want)
			}
		}
	}
}

// What cannot be measured has no reference, and few enough are remembered.
func TestReferencesAreBounded(t *testing.T) {
	for _, spec := range []limit.Spec{
		{Algorithm: limit.Concurrency, Quota: 1, Period: time.Minute},
		{Algorithm: limit.Ban, Quota: 1, Period: time.Minute, BanFor: time.Minute},
		{Algorithm: limit.FixedWindow, Quota: 1, Period: time.Minute, CountDenied: true},
	} {
		if ref := newReference(limit.Must(spec), all); ref != nil {
			t.Errorf("%v has %+v", spec, ref)
		}
	}
	for _, spec := range []limit.Spec{
		{Algorithm: limit.FixedWindow, Quota: 0, Period: time.Minute},
		{Algorithm: limit.TokenBucket, Quota: 1, Period: limit.MaxPeriod, Burst: 30},
		{Algorithm: limit.FixedWindow, Quota: limit.MaxQuota, Period: time.Minute, MaxDebt: 5},
		{Algorithm: limit.SlidingLog, Quota: limit.MaxLogQuota, Period: time.Minute},
		{Algorithm: limit.SlidingWindow, Quota: limit.MaxQuota, Period: limit.MaxPeriod, MaxDebt: 5},
		{Algorithm: limit.SubWindows, Quota: MaxReferenceLog, Period: time.Minute, SubWindows: 7, Strict: true},
		{Algorithm: limit.SlidingWindow, Quota: MaxReferenceLog, Period: time.Minute, MaxDebt: 5, Carry: limit.CarryShare},
	} {
		if ref := newReference(limit.Must(spec), all); ref == nil || ref.exact.Capacity() > ref.wide.Capacity() {
			t.Errorf("%v has %+v", spec, ref)
		}
	}
	inner, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(inner, Options{Sample: 1})
	if err != nil {
		t.Fatal(err)
	}
	made := map[*limit.Limit]*limit.Limit{}
	for range 2*maxReferences + 1 {
		l := limit.Must(limit.PerMinute(5))
		if made[l] = s.ReferenceOf(l); made[l] == nil || s.ReferenceOf(l) != made[l] {
			t.Fatalf("%v, then %v", made[l], s.ReferenceOf(l))
		}
	}
	remembered := 0
	for l, ref := range made {
		if s.ReferenceOf(l) == ref {
			remembered++
		}
	}
	if remembered == 0 || remembered > maxReferences {
		t.Errorf("%d are remembered", remembered)
	}
}

// What approximates is compared with what counts more exactly, where the store takes that.
func TestReferenceIsCloser(t *testing.T) {
	none := func(l *limit.Limit) bool {
		return l.Algorithm == limit.SlidingWindow || l.Algorithm == limit.FixedWindow
	}
	for _, tt := range []struct {
		algorithm   limit.Algorithm
		quota       int64
		by, without limit.Algorithm
	}{
		{limit.SlidingWindow, MaxReferenceLog, limit.SlidingLog, limit.SlidingWindow},
		{limit.SlidingWindow, MaxReferenceLog + 1, limit.SubWindows, limit.SlidingWindow},
		{limit.SlidingWindow, 5_000_000, limit.SubWindows, limit.SlidingWindow},
		{limit.FixedWindow, 5, limit.FixedWindow, limit.FixedWindow},
	} {
		l := limit.Must(limit.Spec{Algorithm: tt.algorithm, Quota: tt.quota, Period: time.Hour})
		if ref := newReference(l, all); ref.exact.Algorithm != tt.by || ref.exact.Quota != tt.quota || ref.exact.Period != time.Hour {
			t.Errorf("%v of %d is compared with %+v", tt.algorithm, tt.quota, ref.exact.Spec)
		}
		if ref := newReference(l, none); ref.exact.Algorithm != tt.without {
			t.Errorf("%v of %d is compared with %+v by a store that takes windows alone", tt.algorithm, tt.quota, ref.exact.Spec)
		}
	}
	parts := limit.Must(limit.Spec{Algorithm: limit.SubWindows, Quota: 5, Period: time.Hour, Strict: true})
	if ref := newReference(parts, all); ref.exact.Algorithm != limit.SlidingLog || Approximation(parts, ref.exact) != 0 {
		t.Errorf("strict sub_windows are compared with %+v, bound %v", ref.exact.Spec, Approximation(parts, ref.exact))
	}
	if ref := newReference(parts, none); ref != nil {
		t.Errorf("sub_windows are measured by a store that takes none: %+v", ref.exact.Spec)
	}
}

// Large sub_windows are compared with such as they are, because finer ones would not be more exact
// for them but others.
func TestLargeSubWindowsAreTheirOwnReference(t *testing.T) {
	spec := limit.Spec{Algorithm: limit.SubWindows, Quota: MaxReferenceLog + 1, Period: time.Hour, SubWindows: 6}
	l := limit.Must(spec)
	if ref := newReference(l, all); ref.exact.Algorithm != limit.SubWindows || ref.exact.SubWindows != l.SubWindows || Approximation(l, ref.exact) != 0 {
		t.Errorf("they are compared with %+v, bound %v", ref.exact.Spec, Approximation(l, ref.exact))
	}
}

// A sliding_window lets twice its quota pass in a period at most; sub_windows count hits for a part
// longer than the period, and see by so much more.
func TestHowFarALimitMayBeExceeded(t *testing.T) {
	for quota, want := range map[int64]float64{MaxReferenceLog: 1, MaxReferenceLog + 1: 1 + 1.0/60} {
		l := limit.Must(limit.Spec{Quota: quota, Period: time.Hour})
		if got := Approximation(l, newReference(l, all).exact); got != want {
			t.Errorf("a sliding_window of %d may be exceeded by %v, want %v", quota, got, want)
		}
	}
}

// The numbers of the two limits of a reference differ, but one goes on where the other has left off,
// whatever becomes of a bucket when its limit is changed.
func TestReferencesGoOnCounting(t *testing.T) {
	for _, carry := range []limit.Carry{limit.CarryUsed, limit.CarryShare, limit.CarryNothing} {
		ref := newReference(limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 10, Period: time.Hour, Carry: carry}), all)
		s, _ := limit.Charge(ref.wide, limit.State{}, 1_780_315_200_000_000, 4)
		if _, d := limit.Decide(ref.exact, s, 1_780_315_200_000_000, 1); d.Remaining != 5 {
			t.Errorf("%v: %d are left, want 5", carry, d.Remaining)
		}
	}
}

// What passed beyond a limit is told whole, also where the limit forgives a part of it.
func TestWhatIsForgivenIsTold(t *testing.T) {
	for _, algorithm := range []limit.Algorithm{limit.FixedWindow, limit.TokenBucket} {
		ref := newReference(limit.Must(limit.Spec{Algorithm: algorithm, Quota: 10, Period: time.Hour, MaxDebt: 5}), all)
		_, d := limit.Charge(ref.wide, limit.State{}, 1_780_315_200_000_000, 30)
		if over := ref.overshoot(&d); over != 2 {
			t.Errorf("%v: an overshoot of %v, want 2", algorithm, over)
		}
	}
}

// The rules that are measured are bounded: the first ones are, and stay so.
func TestRulesAreBounded(t *testing.T) {
	var g gauges
	for i := range MaxRules {
		if g.of(strconv.Itoa(i)) == nil {
			t.Fatalf("rule %d is not measured", i)
		}
	}
	if g.of("one more") != nil || g.of("0") == nil || len(g.by) != MaxRules {
		t.Errorf("%d rules are measured, want %d", len(g.by), MaxRules)
	}
}
