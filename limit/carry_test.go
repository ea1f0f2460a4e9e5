package limit

import (
	"math/big"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestNothingUsedIsForgotten changes a limit after random hits, and demands that
// what the old algorithm still knew of hits that the new one looks at counts.
//
//promise:change-from-a-log
func TestNothingUsedIsForgotten(t *testing.T) {
	periods := []time.Duration{7 * time.Millisecond, time.Second, 10 * time.Second, time.Minute, 15 * time.Minute, time.Hour, 24 * time.Hour}
	rapid.Check(t, func(t *rapid.T) {
		draw := func(algorithms []Algorithm) *Limit {
			spec := drawSpec(t, rapid.SampledFrom(algorithms).Draw(t, "algorithm"))
			spec.Period = rapid.SampledFrom(periods).Draw(t, "period")
			spec.Quota = rapid.Int64Range(1, 200).Draw(t, "quota of a change")
			l, err := New(spec)
			if err != nil {
				t.Skip(err)
			}
			return l
		}
		before, after := draw([]Algorithm{SlidingWindow, FixedWindow, SubWindows, SlidingLog}), draw(countingAlgorithms)
		var s State
		var d Decision
		var events []event
		now := epoch
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			now += drawStep(t, before, d)
			_, peek := Decide(before, s, Micros(now), 0)
			hits := drawHits(t, before, peek.Remaining)
			if s, d = Decide(before, s, Micros(now), hits); d.Allowed {
				events = append(events, event{now, hits})
			}
		}
		now += rapid.Int64Range(0, 2*min(before.periodMicros, after.periodMicros)).Draw(t, "pause µs")
		since := knownSince(before, now)
		events = slices.DeleteFunc(events, func(e event) bool { return e.at < since })
		_, d = Decide(after, s, Micros(now), 0)
		if most := mostLeft(after, events, now); d.Remaining > most {
			t.Fatalf("%v %+v\nthen %v %+v\nat %d, known are %v:\n%+v, at most %d remain", before.Algorithm, before.Spec, after.Algorithm, after.Spec, now, events, d, most)
		}
	})
}

// knownSince returns from when on a limit knows of all hits.
func knownSince(l *Limit, now int64) int64 {
	switch l.Algorithm {
	case SubWindows:
		return now - now%l.partMicros - int64(l.SubWindows-1)*l.partMicros
	case SlidingLog:
		return now - l.periodMicros + 1
	}
	return now - now%l.periodMicros
}

// mostLeft returns how many hits more l may let pass at now at the most.
func mostLeft(l *Limit, events []event, now int64) int64 {
	if l.Algorithm.IsBucket() {
		o := newOracle(l.Spec).(*bucketOracle)
		for _, e := range events {
			if o.charge(e.at, e.hits); o.level.Cmp(o.depth) > 0 {
				o.level.Set(o.depth)
			}
		}
		left := new(big.Rat).Sub(o.depth, o.levelAt(now))
		return new(big.Int).Div(left.Num(), left.Denom()).Int64()
	}
	sum := int64(0)
	for _, e := range events {
		if e.at >= knownSince(l, now) {
			sum += e.hits
		}
	}
	return max(l.Quota-sum, 0)
}

// TestShareAndNothing changes what is half used.
//
//promise:on-change
func TestShareAndNothing(t *testing.T) {
	spec := func(a Algorithm, quota int64, period time.Duration, carry Carry) *Limit {
		return Must(Spec{Algorithm: a, Quota: quota, Period: period, Carry: carry})
	}
	for _, a := range []Algorithm{SlidingWindow, FixedWindow, SubWindows, SlidingLog, TokenBucket, GCRA} {
		for _, b := range []Algorithm{SlidingWindow, FixedWindow, SubWindows, SlidingLog, TokenBucket, GCRA} {
			for _, c := range []struct {
				carry     Carry
				quota     int64
				remaining int64
			}{
				{CarryUsed, 200, 150}, {CarryShare, 200, 100}, {CarryNothing, 200, 200},
				{CarryShare, 50, 25}, {CarryShare, 3, 1}, {CarryNothing, 50, 50}, {CarryShare, 100, 50},
			} {
				if c.carry == CarryUsed && isTAT(1+uint8(a)) {
					continue // a backlog is a time
				}
				s, _ := Decide(spec(a, 100, time.Minute, c.carry), State{}, Micros(epoch), 50)
				after := spec(b, c.quota, time.Minute, c.carry)
				if _, d := Decide(after, s, Micros(epoch), 0); d.Remaining != c.remaining {
					t.Errorf("50 of 100 of %v, then %d of %v, %v: %d remain, want %d", a, c.quota, b, c.carry, d.Remaining, c.remaining)
				}
			}
		}
		same := spec(a, 100, time.Minute, CarryNothing)
		s, _ := Decide(same, State{}, Micros(epoch), 50)
		if _, d := Decide(spec(a, 100, time.Minute, CarryNothing), s, Micros(epoch), 0); d.Remaining != 50 {
			t.Errorf("%v, not changed: %d remain", a, d.Remaining)
		}
		// A plain state under a limit that wants to know what it was, and back.
		plain, _ := Decide(spec(a, 100, time.Minute, CarryUsed), State{}, Micros(epoch), 50)
		wrapped, d := Decide(same, plain, Micros(epoch), 10)
		if d.Remaining != 40 || wrapped.Kind != KindTerms {
			t.Errorf("%v, plain before: %+v", a, d)
		}
		if unwrapped, d := Decide(spec(a, 100, time.Minute, CarryUsed), wrapped, Micros(epoch), 10); d.Remaining != 30 || unwrapped.Kind != 1+uint8(a) {
			t.Errorf("%v, plain again: %+v", a, d)
		}
	}
}

// TestMaxDebt charges more than a limit may owe.
//
//promise:max-debt
func TestMaxDebt(t *testing.T) {
	start := epoch / 60_000_000 * 60_000_000
	for _, a := range countingAlgorithms {
		spec := Spec{Algorithm: a, Quota: 100, Period: time.Minute, MaxDebt: 50}
		capacity := Must(spec).capacity
		s, _ := Charge(Must(spec), State{}, Micros(start), 60)
		s, d := Charge(Must(spec), s, Micros(start), 1_000_000)
		again, _ := Charge(Must(spec), cloneState(s), Micros(start), 7)
		if a != SlidingLog && !sameState(s, again) {
			t.Errorf("%v: owes %+v, then %+v", a, s, again)
		}
		if d.Remaining != 0 {
			t.Errorf("%v: %+v", a, d)
		}
		if back, d := Refund(Must(spec), cloneState(s), Micros(start), 50); a != SlidingLog && (d.Remaining != 0 || back.Kind == 0) {
			t.Errorf("%v, 50 given back: %+v", a, d)
		}
		if _, d := Refund(Must(spec), s, Micros(start), 51); a != SlidingLog && d.Remaining != 1 {
			t.Errorf("%v of %d, 51 given back: %+v", a, capacity, d)
		}
	}
	for _, bad := range []Spec{
		{Algorithm: Concurrency, Quota: 1, Period: time.Second, MaxDebt: 1},
		{Algorithm: Ban, Quota: 1, Period: time.Second, BanFor: time.Second, MaxDebt: 1},
		{Quota: 1, Period: time.Second, MaxDebt: -1},
		{Quota: 1, Period: time.Second, MaxDebt: MaxQuota + 1},
		{Algorithm: GCRA, Quota: 1, Period: MaxPeriod, MaxDebt: 40},
		{Algorithm: Ban, Quota: 1, Period: time.Second, BanFor: time.Second, Carry: CarryNothing},
		{Algorithm: Concurrency, Quota: 1, Period: time.Second, Carry: CarryShare},
		{Quota: 1, Period: time.Second, Carry: 3},
	} {
		if _, err := New(bad); err == nil {
			t.Errorf("%+v is no error", bad)
		}
	}
}

// TestPer: periods that people use have a form, and it is one that reads back.
//
//promise:window-tells-its-period
func TestPer(t *testing.T) {
	for text, want := range map[string]string{
		"1us": "1us", "1s": "1s", "60s": "1m", "15m": "15m", "90m": "90m", "24h": "1d", "168h": "7d", "1500ms": "1500ms",
		"4095us": "4095us", "4097us": "", "8784h": "366d",
	} {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		p := perOf(d.Microseconds())
		if p.String() != want || want != "" && p.micros() != d.Microseconds() {
			t.Errorf("%s: %q, %d µs", text, p, p.micros())
		}
	}
	for unit := CalendarDay; unit <= CalendarYear; unit++ {
		l := Must(Spec{Algorithm: FixedWindow, Quota: 1, Calendar: mustCalendar(t, unit, "Europe/Berlin")})
		start, end := l.Calendar.Window(Micros(epoch))
		if l.Per().String() != unit.String() || l.Per().micros() < int64(end-start) {
			t.Errorf("%v: %q of %d µs", unit, l.Per(), l.Per().micros())
		}
	}
}

// FuzzParsePer: what is read is written the same, and nothing else is read.
func FuzzParsePer(f *testing.F) {
	for _, word := range []string{"", "1us", "15m", "month", "0s", "4096d", "1x", "001s", "-1s"} {
		f.Add(word)
	}
	f.Fuzz(func(t *testing.T, word string) {
		p, err := ParsePer(word)
		if err != nil {
			return
		}
		if again, err := ParsePer(p.String()); err != nil || again != p || word != "" && p.micros() == 0 {
			t.Fatalf("%q is %d, %q, %d, %v", word, p, p, again, err)
		}
	})
}

// TestWindowsOfHitsThatAreBrought: a sliding window has hits of another limit in the window in which they were
// taken, and those from before the one before it in none.
func TestWindowsOfHitsThatAreBrought(t *testing.T) {
	l := Must(Spec{Algorithm: SlidingWindow, Quota: 10, Period: time.Minute})
	now := epoch - epoch%l.periodMicros + l.periodMicros/2
	for age, want := range map[int64]int64{0: 5, 45_000_000: 7, 89_000_000: 7, 91_000_000: 9} {
		s := l.counted([]made{{now - age, 4}}, now)
		if _, d := Decide(l, s, Micros(now), 1); d.Remaining != want {
			t.Errorf("hits of %d µs ago: %d are left, want %d", age, d.Remaining, want)
		}
	}
}
