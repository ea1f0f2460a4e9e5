package limit

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drawInstant draws an instant near others that matter, or anything.
func drawInstant(t *rapid.T, around, period int64) int64 {
	return around + rapid.OneOf(
		rapid.Int64Range(0, 3),
		rapid.Int64Range(0, 2*period),
		rapid.Int64Range(-2*period, 2*period),
		rapid.Int64Range(-1_000_000_000_000, 1_000_000_000_000),
	).Draw(t, "move µs")
}

// drawState draws a state that a store could hold after bit rot, or that a limit
// of other numbers has left.
func drawState(t *rapid.T) State {
	word := rapid.OneOf(
		rapid.Int64(),
		rapid.Int64Range(0, 1<<54),
		rapid.Int64Range(epoch-1_000_000_000, epoch+1_000_000_000),
		rapid.Int64Range(-2, 20),
		rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64, maxInstant, 2 * maxInstant, maxCount}),
	)
	return State{
		Kind: rapid.Uint8Range(0, KindTallies+1).Draw(t, "kind"),
		A:    word.Draw(t, "A"),
		B:    word.Draw(t, "B"),
		C:    word.Draw(t, "C"),
		Per:  rapid.SampledFrom([]Per{0, 0, perOf(60_000_000), perOf(1), perCalendar<<perShift | Per(CalendarMonth), 0xffff}).Draw(t, "per"),
		Wide: rapid.SliceOfN(word, 0, 70).Draw(t, "wide"),
	}
}

// TestAnyStateIsDecided demands an answer, in range, for whatever a store holds.
func TestAnyStateIsDecided(t *testing.T) {
	for _, a := range allAlgorithms {
		t.Run(a.String(), rapid.MakeCheck(func(t *rapid.T) {
			l := drawLimit(t, a)
			s := drawState(t)
			if rapid.Bool().Draw(t, "of this kind") {
				s.Kind = 1 + uint8(a)
			}
			now := Micros(rapid.OneOf(
				rapid.Int64(), rapid.Int64Range(0, 1<<54), rapid.Int64Range(epoch, epoch+1_000_000),
			).Draw(t, "now"))
			hits := rapid.OneOf(rapid.Int64(), rapid.Int64Range(0, 9), rapid.Int64Range(0, MaxQuota)).Draw(t, "hits")
			if a == SlidingLog {
				hits = min(hits, 2*MaxLogQuota)
			}
			refunded, d := Refund(l, cloneState(s), now, hits)
			checkRange(t, l, refunded, d)
			after, d := Decide(l, s, now, hits)
			checkRange(t, l, after, d)
			if Lifetime(l, after, now) < 0 {
				t.Fatalf("lifetime %v", Lifetime(l, after, now))
			}
		}))
	}
}

func checkRange(t *rapid.T, l *Limit, s State, d Decision) {
	if d.Limit != l.capacity || d.Remaining < 0 || d.Remaining > d.Limit || d.ResetAfter < 0 || d.Delay < 0 {
		t.Fatalf("out of range: %+v", d)
	}
	if (d.RetryAfter > 0) != (!d.Allowed && !d.Never) || d.RetryAfter < 0 || d.Allowed && d.Never {
		t.Fatalf("contradicts itself: %+v", d)
	}
	if len(s.Wide) > maxTallies*(tallyWords+70+2*MaxLogQuota) {
		t.Fatalf("%d words of state", len(s.Wide))
	}
}

// lockOut is the longest that a limit may make anything wait, wherever its state
// and clock came from: time stands still for a window at the most, and then what
// was used leaves. See the files of the algorithms.
func lockOut(l *Limit, s State, now int64) int64 {
	switch own := l.read(&s, now).own; {
	case l.Algorithm.IsBucket() && own.A < 0:
		return l.owed.up()
	case l.Algorithm == SubWindows:
		return int64(2*l.SubWindows+2) * l.partMicros
	case l.Algorithm.IsBucket():
		return l.tolerance.up()
	case l.Algorithm == SlidingWindow:
		return 3 * l.periodMicros
	}
	return 2 * l.periodMicros
}

// TestDebtBesideAnotherLimit: what a bucket owes delays its next limit by no more than that
// may owe, also where a limit of another algorithm has asked for the key in between.
func TestDebtBesideAnotherLimit(t *testing.T) {
	bucket := func(quota int64) *Limit {
		return Must(Spec{Algorithm: GCRA, Quota: quota, Period: time.Microsecond})
	}
	s, _ := Charge(bucket(0), State{}, Micros(epoch), 2)
	s, _ = Decide(Must(Spec{Algorithm: SubWindows, Quota: 1, Period: time.Microsecond, SubWindows: 2}), s, Micros(epoch), 1)
	l := bucket(1)
	s, d := Decide(l, s, Micros(epoch), 1)
	if d.RetryAfter != 2*time.Microsecond || d.RetryAfter > duration(lockOut(l, s, epoch)) {
		t.Errorf("%+v, want to wait for 2 µs, and at the most for %d", d, lockOut(l, s, epoch))
	}
}

// TestAnyLifeKeepsThePromises drives one bucket through changing limits of its
// algorithm, a clock that jumps both ways, refunds, charges, and sometimes a state that
// has rotted, and demands of each decision what Decision promises.
//
//promise:consistent-answers
func TestAnyLifeKeepsThePromises(t *testing.T) {
	for _, a := range countingAlgorithms {
		t.Run(a.String(), rapid.MakeCheck(func(t *rapid.T) {
			var s State
			now := epoch
			l := drawLimit(t, a)
			if rapid.Bool().Draw(t, "rotten") {
				s = drawState(t)
				s.Kind = 1 + uint8(a)
				if a == SlidingLog { // stamps are ascending in whatever order they were written
					slices.Sort(s.Wide)
				}
			}
			for range rapid.IntRange(1, 8).Draw(t, "steps") {
				if rapid.IntRange(0, 4).Draw(t, "change") == 0 {
					l = drawLimit(t, a)
					if !a.IsBucket() && a != SlidingLog {
						spec := l.Spec
						spec.CountDenied = rapid.Bool().Draw(t, "count denied")
						l = Must(spec)
					}
				}
				now = min(drawInstant(t, now, l.periodMicros), maxInstant-3*maxDrain-3*maxPeriodMicros)
				switch rapid.IntRange(0, 6).Draw(t, "op") {
				case 0:
					s = refundAndCheck(t, l, s, now)
					continue
				case 1:
					s = chargeAndCheck(t, l, s, now)
					continue
				}
				hits := max(1, drawHits(t, l, 1))
				s = decideAndCheck(t, l, s, now, hits)
			}
		}))
	}
}

// TestAnyChangeKeepsThePromises is that test with limits of any algorithm one after
// the other, that carry over in any way.
//
//promise:change-from-counters
func TestAnyChangeKeepsThePromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s State
		now := epoch
		l := drawAnyLimit(t)
		if rapid.Bool().Draw(t, "rotten") {
			s = drawState(t)
			slices.Sort(s.Wide)
		}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			if rapid.IntRange(0, 2).Draw(t, "change") == 0 {
				l = drawAnyLimit(t)
			}
			now = min(drawInstant(t, now, l.periodMicros), maxInstant-3*maxDrain-3*maxPeriodMicros)
			own := l.read(&s, now).own
			as := *l
			as.form = formOf(&own)
			if again := as.read(&own, now).own; !sameState(again, own) {
				t.Fatalf("%+v is %+v, which is %+v", s, own, again)
			}
			switch rapid.IntRange(0, 6).Draw(t, "op") {
			case 0:
				s = refundAndCheck(t, l, s, now)
			case 1:
				s = chargeAndCheck(t, l, s, now)
			default:
				s = decideAndCheck(t, l, s, now, max(1, drawHits(t, l, 1)))
			}
		}
	})
}

// drawAnyLimit draws a limit that counts hits.
func drawAnyLimit(t *rapid.T) *Limit {
	spec := drawSpec(t, rapid.SampledFrom(countingAlgorithms).Draw(t, "algorithm"))
	spec.CountDenied = spec.Algorithm <= SubWindows && rapid.Bool().Draw(t, "count denied")
	spec.Carry = rapid.SampledFrom([]Carry{CarryUsed, CarryUsed, CarryShare, CarryNothing}).Draw(t, "carry")
	spec.MaxDebt = rapid.SampledFrom([]int64{0, 0, 1, 100, 1 << 40}).Draw(t, "debt")
	l, err := New(spec)
	if err != nil {
		t.Skip(err)
	}
	return l
}

func refundAndCheck(t *rapid.T, l *Limit, s State, now int64) State {
	hits := rapid.Int64Range(0, l.capacity+1).Draw(t, "refunded")
	_, before := Decide(l, s, Micros(now), 0)
	s, d := Refund(l, s, Micros(now), hits)
	if _, peek := Decide(l, s, Micros(now), 0); peek != d {
		t.Fatalf("refund says %+v, a peek %+v", d, peek)
	}
	if d.Remaining < before.Remaining || d.ResetAfter > before.ResetAfter {
		t.Fatalf("refund of %d made %+v worse: %+v", hits, before, d)
	}
	return s
}

func chargeAndCheck(t *rapid.T, l *Limit, s State, now int64) State {
	hits := rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, 3*l.capacity+1), rapid.Int64Range(0, MaxQuota)).Draw(t, "charged")
	_, before := Decide(l, s, Micros(now), 0)
	s, d := Charge(l, s, Micros(now), hits)
	checkRange(t, l, s, d)
	if _, peek := Decide(l, s, Micros(now), 0); peek != d {
		t.Fatalf("charge says %+v, a peek %+v", d, peek)
	}
	if d.Remaining != max(before.Remaining-hits, 0) {
		t.Fatalf("charge of %d at %+v: %+v", hits, before, d)
	}
	return s
}

func decideAndCheck(t *rapid.T, l *Limit, s State, now, hits int64) State {
	untouched := cloneState(s)
	if peeked, _ := Decide(l, s, Micros(now), 0); !sameState(peeked, untouched) || !sameState(s, untouched) {
		t.Fatalf("a peek changed %+v to %+v", untouched, peeked)
	}
	s, d := Decide(l, s, Micros(now), hits)
	checkRange(t, l, s, d)
	settled := cloneState(s)
	if !d.Allowed && !l.CountDenied {
		// What a denial returns is judged alike for good.
		again, same := decide(t, l, cloneState(s), now, hits)
		if same != d || !sameState(again, settled) {
			t.Fatalf("asked twice: %+v, then %+v", d, same)
		}
	}
	_, peek := decide(t, l, s, now, 0)
	if peek.Remaining != d.Remaining || peek.ResetAfter != d.ResetAfter {
		t.Fatalf("decision %+v, peek %+v", d, peek)
	}
	if peek.Allowed {
		for extra, want := range []bool{true, false} {
			if _, d := Decide(l, cloneState(s), Micros(now), peek.Remaining+int64(extra)); d.Allowed != want {
				t.Fatalf("%d more than remains: %+v", extra, d)
			}
		}
	}
	if d.RetryAfter > duration(lockOut(l, s, now)) {
		t.Fatalf("locked out for %v: %+v", d.RetryAfter, d)
	}
	checkExactTimes(t, l, s, d, now, hits)
	if !sameState(s, settled) {
		t.Fatalf("asking changed %+v to %+v", settled, s)
	}
	return s
}

// checkExactTimes checks that what d promises comes true at its microsecond and
// not before.
func checkExactTimes(t *rapid.T, l *Limit, s State, d Decision, now, hits int64) {
	for early := range int64(2) {
		if at := d.RetryAfter.Microseconds(); at > 0 {
			if _, then := Decide(l, cloneState(s), Micros(now+at-early), hits); then.Allowed != (early == 0) {
				t.Fatalf("%+v, but %d µs on: %+v", d, at-early, then)
			}
		}
		if at := d.ResetAfter.Microseconds(); at > 0 {
			_, then := Decide(l, s, Micros(now+at-early), 0)
			if then.ResetAfter != time.Duration(early)*time.Microsecond || early == 0 && then.Remaining != l.capacity {
				t.Fatalf("%+v, but %d µs on: %+v", d, at-early, then)
			}
		}
	}
}
