package limit

import (
	"cmp"
	"fmt"
	"time"
)

const (
	maxPeriodMicros   = int64(MaxPeriod / time.Microsecond)
	defaultSubWindows = 10
)

// SpecError says what is wrong with a Spec.
type SpecError struct {
	// Field is the field at fault, as rules spell it: "quota", "period",
	// "burst", "sub_windows", "strict", "max_delay", "max_queue",
	// "count_denied", "ban_for", "calendar", "on_change", "max_debt" or
	// "algorithm".
	Field string
	// Problem is what is wrong with it.
	Problem string
	// Hint is what to do instead.
	Hint string
}

// Error implements error.
func (e *SpecError) Error() string {
	return fmt.Sprintf("limit: %s %s; hint: %s", e.Field, e.Problem, e.Hint)
}

// compile checks the Spec, fills in its defaults and derives the rest of l.
func (l *Limit) compile() error {
	for _, check := range [...]func(*Spec) error{
		checkAlgorithm, checkQuota, checkPeriod, checkBurst,
		checkSubWindows, checkQueue, checkCountDenied, checkBan, checkCarry, checkMaxDebt,
	} {
		if err := check(&l.Spec); err != nil {
			return err
		}
	}
	if l.Calendar == nil {
		l.setPeriod(l.Period.Microseconds())
	}
	l.banMicros = l.BanFor.Microseconds()
	l.capacity = l.Quota
	l.num, l.den = 1, 1
	l.byNum = divisorOf(l.num)
	switch {
	case l.Algorithm == SubWindows:
		l.SubWindows = cmp.Or(l.SubWindows, defaultSubWindows)
		parts := int64(l.SubWindows)
		l.partMicros = (l.periodMicros + parts - 1) / parts
	case l.Algorithm.IsBucket():
		if err := l.compileBucket(); err != nil {
			return err
		}
		if err := l.compileDebt(); err != nil {
			return err
		}
	case l.Calendar != nil:
		l.per = perCalendar<<perShift | Per(l.Calendar.Unit)
	case l.Algorithm == FixedWindow, l.Algorithm == SlidingWindow:
		l.per = perOf(l.periodMicros)
	}
	l.compileForm()
	return nil
}

// setPeriod makes micros, which are more than 0, the length of the windows of l.
func (l *Limit) setPeriod(micros int64) {
	l.periodMicros, l.byPeriod = micros, divisorOf(micros)
}

// compileDebt sets the most that a bucket may owe.
func (l *Limit) compileDebt() error {
	if debt := l.drainTime(l.MaxDebt); debt.whole >= maxDrain {
		return &SpecError{
			Field:   "max_debt",
			Problem: fmt.Sprintf("of %d takes more than %d µs (35 years) to pay back at %d per %v", l.MaxDebt, int64(maxDrain), l.Quota, l.Period),
			Hint:    "lower max_debt or raise quota",
		}
	}
	l.owed = l.mostOwed()
	return nil
}

// compileBucket derives the numbers of tat.go. A bucket of quota 0 has burst 0,
// tolerance 0 and an emission interval that is never used.
func (l *Limit) compileBucket() error {
	if l.Algorithm == LeakyQueue && l.MaxDelay == 0 {
		l.MaxDelay = l.Period
	}
	l.emission = span{whole: 1}
	if l.Quota == 0 {
		l.Burst = 0
		return nil
	}
	common := gcd(l.periodMicros, l.Quota)
	l.num, l.den = l.periodMicros/common, l.Quota/common
	l.byNum = divisorOf(l.num)
	l.emission.whole, l.emission.part = muldivmod(1, l.num, l.den)
	switch l.Algorithm {
	case LeakyQueue:
		l.compileQueue()
		return nil
	case LeakyBucket:
		l.Burst = 1
	default:
		l.Burst = cmp.Or(l.Burst, l.Quota)
	}
	l.capacity = l.Burst
	l.tolerance = l.drainTime(l.Burst)
	if l.tolerance.whole >= maxDrain {
		return &SpecError{
			Field:   "burst",
			Problem: fmt.Sprintf("of %d takes more than %d µs (35 years) to drain at %d per %v", l.Burst, int64(maxDrain), l.Quota, l.Period),
			Hint:    "lower burst or raise quota",
		}
	}
	return nil
}

// compileQueue sets the tolerance of a leaky_queue; see leaky_queue.go. Without
// a bound of its own the queue is as long as a burst may be.
func (l *Limit) compileQueue() {
	longest := int64(MaxBucketQuota)
	if l.MaxQueue > 0 {
		longest = l.MaxQueue + 1
	}
	delay := span{whole: l.MaxDelay.Microseconds()}
	l.tolerance = delay.plus(l.emission, l.den)
	if full := l.drainTime(longest); l.tolerance.exceeds(full) {
		l.tolerance = full
	}
	l.capacity = l.hitsIn(l.tolerance)
}

func checkAlgorithm(s *Spec) error {
	if int(s.Algorithm) >= len(algorithmNames) {
		return &SpecError{"algorithm", fmt.Sprintf("%d is unknown", uint8(s.Algorithm)), "use one of the constants, such as SlidingWindow"}
	}
	return nil
}

func checkQuota(s *Spec) error {
	bound := int64(MaxQuota)
	switch {
	case s.Algorithm == SlidingLog:
		bound = MaxLogQuota
	case s.Algorithm == Concurrency:
		bound = MaxConcurrency
	case s.Algorithm.IsBucket():
		bound = MaxBucketQuota
	}
	if s.Quota < 0 {
		return &SpecError{"quota", fmt.Sprintf("%d is negative", s.Quota), "0 denies every hit"}
	}
	if s.Quota <= bound {
		return nil
	}
	hint := "count in a larger unit"
	switch s.Algorithm {
	case SlidingLog:
		hint = "use sub_windows with strict, which keeps the same promise in constant memory"
	case Concurrency:
		hint = "guard a whole service by the shedders of its nodes"
	}
	return &SpecError{"quota", fmt.Sprintf("%d is above %d, the most of %v", s.Quota, bound, s.Algorithm), hint}
}

func checkPeriod(s *Spec) error {
	if s.Calendar != nil {
		if s.Algorithm != FixedWindow {
			return &SpecError{"calendar", fmt.Sprintf("is not for %v", s.Algorithm), "calendar windows belong to fixed_window"}
		}
		if s.Calendar.location == nil {
			return &SpecError{"calendar", "was not made by NewCalendar", "make it with NewCalendar"}
		}
		return nil
	}
	switch {
	case s.Period <= 0:
		return &SpecError{"period", fmt.Sprintf("%v is not positive", s.Period), "give a duration such as 1s or 24h"}
	case s.Period%time.Microsecond != 0:
		return &SpecError{"period", fmt.Sprintf("%v is not a whole number of microseconds", s.Period), "round it to 1us"}
	case s.Period > MaxPeriod:
		return &SpecError{"period", fmt.Sprintf("%v is above %v", s.Period, MaxPeriod), "366 days is the longest period"}
	}
	return nil
}

func checkBurst(s *Spec) error {
	switch {
	case s.Burst == 0:
		return nil
	case s.Burst < 0:
		return &SpecError{"burst", fmt.Sprintf("%d is negative", s.Burst), "0 means the quota"}
	case s.Algorithm == LeakyBucket:
		return &SpecError{"burst", "is not for leaky_bucket, which spaces hits evenly", "use token_bucket, or pair it with a second limit"}
	case s.Algorithm == LeakyQueue:
		return &SpecError{"burst", "is not for leaky_queue, which delays hits instead", "use max_delay and max_queue"}
	case s.Algorithm == Concurrency, s.Algorithm == Ban:
		return &SpecError{"burst", fmt.Sprintf("is not for %v", s.Algorithm), "only token_bucket and gcra take it"}
	case !s.Algorithm.IsBucket():
		return &SpecError{"burst", fmt.Sprintf("is not for %v, which counts in windows", s.Algorithm), "pair it with a second limit over a shorter period, or use token_bucket"}
	case s.Burst > MaxBucketQuota:
		return &SpecError{"burst", fmt.Sprintf("%d is above %d", s.Burst, int64(MaxBucketQuota)), "count in a larger unit"}
	}
	return nil
}

func checkSubWindows(s *Spec) error {
	switch {
	case s.Algorithm != SubWindows && s.SubWindows != 0:
		return &SpecError{"sub_windows", fmt.Sprintf("is not for %v", s.Algorithm), "use algorithm sub_windows"}
	case s.Algorithm != SubWindows && s.Strict:
		return &SpecError{"strict", fmt.Sprintf("is not for %v", s.Algorithm), "use algorithm sub_windows"}
	case s.SubWindows != 0 && (s.SubWindows < MinSubWindows || s.SubWindows > MaxSubWindows):
		return &SpecError{"sub_windows", fmt.Sprintf("%d is not in %d to %d", s.SubWindows, MinSubWindows, MaxSubWindows), fmt.Sprintf("0 means %d", defaultSubWindows)}
	}
	return nil
}

func checkQueue(s *Spec) error {
	switch {
	case s.Algorithm != LeakyQueue && s.MaxDelay != 0:
		return &SpecError{"max_delay", fmt.Sprintf("is not for %v", s.Algorithm), "only leaky_queue delays hits"}
	case s.Algorithm != LeakyQueue && s.MaxQueue != 0:
		return &SpecError{"max_queue", fmt.Sprintf("is not for %v", s.Algorithm), "only leaky_queue delays hits"}
	case s.MaxDelay < 0:
		return &SpecError{"max_delay", fmt.Sprintf("%v is negative", s.MaxDelay), "0 means the period"}
	case s.MaxDelay%time.Microsecond != 0:
		return &SpecError{"max_delay", fmt.Sprintf("%v is not a whole number of microseconds", s.MaxDelay), "round it to 1us"}
	case s.MaxDelay > MaxPeriod:
		return &SpecError{"max_delay", fmt.Sprintf("%v is above %v", s.MaxDelay, MaxPeriod), "callers wait for seconds, not for years"}
	case s.MaxQueue < 0:
		return &SpecError{"max_queue", fmt.Sprintf("%d is negative", s.MaxQueue), "0 means no bound beyond max_delay"}
	case s.MaxQueue >= MaxBucketQuota:
		return &SpecError{"max_queue", fmt.Sprintf("%d is not below %d", s.MaxQueue, int64(MaxBucketQuota)), "count in a larger unit"}
	}
	return nil
}

func checkCountDenied(s *Spec) error {
	if s.CountDenied && s.Algorithm >= SlidingLog {
		return &SpecError{"count_denied", fmt.Sprintf("is not for %v", s.Algorithm), "only fixed_window, sliding_window and sub_windows count denied hits"}
	}
	return nil
}

func checkCarry(s *Spec) error {
	switch {
	case int(s.Carry) >= len(carryNames):
		return &SpecError{"on_change", fmt.Sprintf("%d is unknown", uint8(s.Carry)), "use one of the constants, such as CarryUsed"}
	case s.Carry != CarryUsed && (s.Algorithm == Concurrency || s.Algorithm == Ban):
		return &SpecError{"on_change", fmt.Sprintf("is not for %v", s.Algorithm), "only limits that count hits carry over what was used"}
	}
	return nil
}

func checkMaxDebt(s *Spec) error {
	bound := int64(MaxQuota)
	if s.Algorithm.IsBucket() {
		bound = MaxBucketQuota
	}
	switch {
	case s.MaxDebt == 0:
		return nil
	case s.MaxDebt < 0:
		return &SpecError{"max_debt", fmt.Sprintf("%d is negative", s.MaxDebt), "0 leaves the bound that all limits have"}
	case s.Algorithm == Concurrency, s.Algorithm == Ban:
		return &SpecError{"max_debt", fmt.Sprintf("is not for %v", s.Algorithm), "only limits that count hits have debts"}
	case s.MaxDebt > bound:
		return &SpecError{"max_debt", fmt.Sprintf("%d is above %d", s.MaxDebt, bound), "count in a larger unit"}
	}
	return nil
}

// gcd returns the greatest common divisor of two positive numbers (Euclid).
func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// The numbers that a store needs which decides elsewhere than in Decide, such
// as in a script. They are those of the formulas in the algorithms' files.

// PeriodMicros returns Period in µs, 0 with a Calendar.
func (l *Limit) PeriodMicros() int64 { return l.periodMicros }

// PartMicros returns the length of a part of sub_windows in µs, else 0.
func (l *Limit) PartMicros() int64 { return l.partMicros }

// Per returns the period that states of fixed_window and sliding_window are marked
// with, else 0.
func (l *Limit) Per() Per { return l.per }

// BanMicros returns BanFor in µs, 0 unless l is a ban.
func (l *Limit) BanMicros() int64 { return l.banMicros }

// EmissionInterval returns the time in which one hit of a bucket drains:
// num/den µs, Period/Quota in lowest terms. It is 1/1 for quota 0.
func (l *Limit) EmissionInterval() (num, den int64) { return l.num, l.den }

// Tolerance returns how far the TAT of a bucket may be ahead of now: whole +
// part/den µs, with the den of EmissionInterval.
func (l *Limit) Tolerance() (whole, part int64) { return l.tolerance.whole, l.tolerance.part }

// Capacity returns what Decision.Limit says; see there.
func (l *Limit) Capacity() int64 { return l.capacity }
