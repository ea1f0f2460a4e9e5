package limit

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/alloctest"
)

func TestNewRefuses(t *testing.T) {
	day := mustCalendar(t, CalendarDay, "UTC")
	minute := func(a Algorithm, change func(*Spec)) Spec {
		s := Spec{Algorithm: a, Quota: 10, Period: time.Minute}
		change(&s)
		return s
	}
	for _, test := range []struct {
		field, text string
		spec        Spec
	}{
		{"algorithm", "10 is unknown", Spec{Algorithm: 10, Quota: 1, Period: time.Second}},
		{"period", "not positive", Spec{Quota: 1}},
		{"period", "not positive", Spec{Quota: 1, Period: -time.Second}},
		{"period", "whole number of microseconds", Spec{Quota: 1, Period: 1500}},
		{"period", "366 days", Spec{Quota: 1, Period: MaxPeriod + time.Microsecond}},
		{"quota", "negative", Spec{Quota: -1, Period: time.Second}},
		{"quota", "larger unit", Spec{Quota: MaxQuota + 1, Period: time.Second}},
		{"quota", "larger unit", Spec{Algorithm: GCRA, Quota: MaxBucketQuota + 1, Period: time.Second}},
		{"quota", "sub_windows with strict", Spec{Algorithm: SlidingLog, Quota: MaxLogQuota + 1, Period: time.Second}},
		{"burst", "pair it with a second limit", minute(SlidingWindow, func(s *Spec) { s.Burst = 5 })},
		{"burst", "pair it with a second limit", minute(FixedWindow, func(s *Spec) { s.Burst = 5 })},
		{"burst", "pair it with a second limit", minute(SubWindows, func(s *Spec) { s.Burst = 5 })},
		{"burst", "pair it with a second limit", minute(SlidingLog, func(s *Spec) { s.Burst = 5 })},
		{"burst", "pair it with a second limit", minute(LeakyBucket, func(s *Spec) { s.Burst = 5 })},
		{"burst", "max_delay and max_queue", minute(LeakyQueue, func(s *Spec) { s.Burst = 5 })},
		{"burst", "negative", minute(GCRA, func(s *Spec) { s.Burst = -1 })},
		{"burst", "larger unit", minute(GCRA, func(s *Spec) { s.Burst = MaxBucketQuota + 1 })},
		{"burst", "35 years", Spec{Algorithm: TokenBucket, Quota: 1, Period: 24 * time.Hour, Burst: 14000}},
		{"burst", "35 years", Spec{Algorithm: GCRA, Quota: 1, Period: MaxPeriod, Burst: MaxBucketQuota}},
		{"sub_windows", "use algorithm sub_windows", minute(SlidingWindow, func(s *Spec) { s.SubWindows = 5 })},
		{"strict", "use algorithm sub_windows", minute(SlidingLog, func(s *Spec) { s.Strict = true })},
		{"sub_windows", "not in 2 to 60", minute(SubWindows, func(s *Spec) { s.SubWindows = 1 })},
		{"sub_windows", "not in 2 to 60", minute(SubWindows, func(s *Spec) { s.SubWindows = 61 })},
		{"max_delay", "only leaky_queue", minute(LeakyBucket, func(s *Spec) { s.MaxDelay = 1 })},
		{"max_queue", "only leaky_queue", minute(TokenBucket, func(s *Spec) { s.MaxQueue = 1 })},
		{"max_delay", "negative", minute(LeakyQueue, func(s *Spec) { s.MaxDelay = -1 })},
		{"max_delay", "microseconds", minute(LeakyQueue, func(s *Spec) { s.MaxDelay = 1 })},
		{"max_delay", "above", minute(LeakyQueue, func(s *Spec) { s.MaxDelay = MaxPeriod + time.Second })},
		{"max_queue", "negative", minute(LeakyQueue, func(s *Spec) { s.MaxQueue = -1 })},
		{"max_queue", "larger unit", minute(LeakyQueue, func(s *Spec) { s.MaxQueue = MaxBucketQuota })},
		{"count_denied", "only fixed_window", minute(SlidingLog, func(s *Spec) { s.CountDenied = true })},
		{"count_denied", "only fixed_window", minute(LeakyQueue, func(s *Spec) { s.CountDenied = true })},
		{"quota", "4096, the most of concurrency", minute(Concurrency, func(s *Spec) { s.Quota = MaxConcurrency + 1 })},
		{"quota", "of a ban is below 1", minute(Ban, func(s *Spec) { s.Quota, s.BanFor = 0, time.Hour })},
		{"ban_for", "0s is out of range", minute(Ban, func(*Spec) {})},
		{"ban_for", "out of range", minute(Ban, func(s *Spec) { s.BanFor = -time.Second })},
		{"ban_for", "up to 8784h", minute(Ban, func(s *Spec) { s.BanFor = MaxBan + time.Microsecond })},
		{"ban_for", "whole number of microseconds", minute(Ban, func(s *Spec) { s.BanFor = 1500 })},
		{"ban_for", "only ban", minute(Concurrency, func(s *Spec) { s.BanFor = time.Hour })},
		{"burst", "only token_bucket and gcra", minute(Concurrency, func(s *Spec) { s.Burst = 5 })},
		{"burst", "only token_bucket and gcra", minute(Ban, func(s *Spec) { s.Burst, s.BanFor = 5, time.Hour })},
		{"count_denied", "only fixed_window", minute(Ban, func(s *Spec) { s.CountDenied, s.BanFor = true, time.Hour })},
		{"calendar", "belong to fixed_window", minute(Concurrency, func(s *Spec) { s.Calendar = day })},
		{"calendar", "belong to fixed_window", minute(SlidingWindow, func(s *Spec) { s.Calendar = day })},
		{"calendar", "belong to fixed_window", minute(GCRA, func(s *Spec) { s.Calendar = day })},
		{"calendar", "NewCalendar", minute(FixedWindow, func(s *Spec) { s.Calendar = &Calendar{Unit: CalendarDay} })},
	} {
		l, err := New(test.spec)
		var specErr *SpecError
		if !errors.As(err, &specErr) {
			t.Errorf("%+v: %v, %v, want a SpecError", test.spec, l, err)
			continue
		}
		if specErr.Field != test.field || specErr.Hint == "" || !strings.Contains(err.Error(), test.text) {
			t.Errorf("%+v: %q on field %s, want %q on field %s", test.spec, err, specErr.Field, test.text, test.field)
		}
	}
}

func TestNewFillsInDefaults(t *testing.T) {
	second := func(a Algorithm) *Limit { return Must(Spec{Algorithm: a, Quota: 7, Period: time.Second}) }
	if l := second(TokenBucket); l.Burst != 7 {
		t.Errorf("token_bucket has burst %d", l.Burst)
	}
	if l := second(LeakyBucket); l.Burst != 1 {
		t.Errorf("leaky_bucket has burst %d", l.Burst)
	}
	if l := second(LeakyQueue); l.MaxDelay != time.Second {
		t.Errorf("leaky_queue has a delay of %v", l.MaxDelay)
	}
	if l := second(SubWindows); l.SubWindows != 10 || l.PartMicros() != 100_000 {
		t.Errorf("sub_windows has %d parts of %d µs", l.SubWindows, l.PartMicros())
	}
	l := Must(Spec{Algorithm: GCRA, Quota: 600, Period: time.Second, Burst: 7})
	num, den := l.EmissionInterval()
	whole, part := l.Tolerance()
	if num != 5000 || den != 3 || whole != 11_666 || part != 2 || l.Capacity() != 7 || l.PeriodMicros() != 1_000_000 {
		t.Errorf("600/s burst 7: %d/%d µs each, %d and %d/%d µs, capacity %d", num, den, whole, part, den, l.Capacity())
	}
	ban := Must(Spec{Algorithm: Ban, Quota: 7, Period: time.Second, BanFor: time.Minute})
	if ban.BanMicros() != 60_000_000 || ban.Capacity() != 7 || l.BanMicros() != 0 {
		t.Errorf("a ban of a minute after 7: %d µs after %d, a bucket %d µs", ban.BanMicros(), ban.Capacity(), l.BanMicros())
	}
	calendar := Must(Spec{Algorithm: FixedWindow, Quota: 7, Period: time.Second, Calendar: mustCalendar(t, CalendarDay, "")})
	if calendar.PeriodMicros() != 0 {
		t.Errorf("a calendar limit has a period of %d µs", calendar.PeriodMicros())
	}
	for spec, want := range map[Spec]time.Duration{
		PerSecond(1): time.Second, PerMinute(1): time.Minute, PerHour(1): time.Hour, PerDay(1): 24 * time.Hour,
	} {
		if l := Must(spec); l.Period != want || l.Algorithm != SlidingWindow {
			t.Errorf("%+v, want a sliding window of %v", l.Spec, want)
		}
	}
}

func TestMustPanicsOnABadSpec(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a limit without a period was made")
		}
	}()
	Must(Spec{Quota: 1})
}

func TestAlgorithmNames(t *testing.T) {
	for _, a := range allAlgorithms {
		if got, err := ParseAlgorithm(a.String()); got != a || err != nil {
			t.Errorf("ParseAlgorithm(%q) = %v, %v", a, got, err)
		}
	}
	if a, err := ParseAlgorithm("best"); err == nil {
		t.Errorf("ParseAlgorithm(best) = %v", a)
	}
	if got := Algorithm(10).String(); got != "algorithm(10)" {
		t.Errorf("the eleventh algorithm is %q", got)
	}
}

// TestQuota0DeniesEverything is a promise of Spec, and the place where an
// algorithm could divide by zero.
func TestQuota0DeniesEverything(t *testing.T) {
	for _, a := range allAlgorithms[:len(allAlgorithms)-1] { // a ban has a quota
		l := Must(Spec{Algorithm: a, Period: time.Minute})
		for _, hits := range []int64{0, 1, MaxQuota} {
			s, d := Decide(l, State{}, Micros(epoch), hits)
			want := Decision{Allowed: hits == 0, Never: hits > 0}
			if d != want || !sameState(s, State{}) {
				t.Errorf("%v hits=%d: %+v, %+v", a, hits, s, d)
			}
		}
	}
}

// use charges n to a bucket: hits, a slot for the hold n, or denials.
func use(l *Limit, s State, now Micros, n int64) (State, Decision) {
	switch l.Algorithm {
	case Concurrency:
		return Acquire(l, s, now, Hold(n))
	case Ban:
		return Charge(l, s, now, n)
	}
	return Decide(l, s, now, n)
}

// TestAnotherAlgorithmsHitsCount: what was used counts for every other algorithm
// that counts hits; slots and denials are none.
//
//promise:change-from-counters change-from-a-log change-from-a-bucket change-to-a-bucket change-of-slots-and-bans
func TestAnotherAlgorithmsHitsCount(t *testing.T) {
	of := func(a Algorithm) *Limit {
		spec := Spec{Algorithm: a, Quota: 5, Period: time.Minute}
		if a == Ban {
			spec.BanFor = time.Hour
		}
		return Must(spec)
	}
	for _, before := range allAlgorithms {
		for _, after := range allAlgorithms {
			s, _ := use(of(before), State{}, Micros(epoch), 1)
			l := of(after)
			_, got := Decide(l, s, Micros(epoch), 0)
			_, unused := Decide(l, State{}, Micros(epoch), 0)
			counted := before == after || before <= GCRA && after <= GCRA
			if (got == unused) == counted {
				t.Errorf("%v after %v: %+v", after, before, got)
			}
		}
	}
}

// TestDecideDoesNotAllocate once the state of the wide algorithms has its memory.
func TestDecideDoesNotAllocate(t *testing.T) {
	calendar := Must(Spec{Algorithm: FixedWindow, Quota: 100, Calendar: mustCalendar(t, CalendarDay, "Europe/Berlin")})
	carrying := []*Limit{
		Must(Spec{Algorithm: GCRA, Quota: 100, Period: time.Minute, Carry: CarryShare}),
		Must(Spec{Algorithm: SubWindows, Quota: 100, Period: time.Minute, Carry: CarryNothing}),
	}
	for _, l := range append(append(benchLimits(), calendar), carrying...) {
		now := Micros(epoch)
		var s State
		for range 300 { // a log has reached its size when half of it has expired
			s, _ = Decide(l, s, now, 1)
			now += Micros(l.periodMicros / 50)
		}
		allocations := alloctest.PerRun(500, func() {
			s, _ = Decide(l, s, now, 1)
			Decide(l, s, now, l.capacity)
			Decide(l, s, now, 0)
			s, _ = Refund(l, s, now, 1)
			Lifetime(l, s, now)
			now += Micros(l.periodMicros / 100)
			s, _ = Decide(l, s, now, 1)
		})
		if allocations != 0 {
			t.Errorf("%v allocates %v times", l.Algorithm, allocations)
		}
	}
}
