package limit

import (
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/internal/alloctest"
)

// slotOracle is concurrency as plainly as it can be said: who holds a slot, and
// until when.
type slotOracle struct {
	l     *Limit
	until map[Hold]int64
}

// at returns the holds that count at now, each with when it ends by itself.
func (o *slotOracle) at(now int64) map[Hold]int64 {
	held := map[Hold]int64{}
	for hold, until := range o.until {
		if until > now {
			held[hold] = min(until, now+o.l.periodMicros)
		}
	}
	return held
}

// moved reports whether a slot ends later than it can by this clock and limit.
func (o *slotOracle) moved(now int64) bool {
	for _, until := range o.until {
		if until > now+o.l.periodMicros {
			return true
		}
	}
	return false
}

// hit takes a slot if there is one. A denial puts the slots in order if they are
// not of this clock.
func (o *slotOracle) hit(now int64, hold Hold) bool {
	held := o.at(now)
	_, has := held[hold]
	switch allowed := int64(len(held)) < o.l.Quota; {
	case hold.valid() && (has || allowed):
		held[hold] = now + o.l.periodMicros
		o.until = held
		return true
	case allowed:
		return true
	}
	if o.moved(now) {
		o.until = held
	}
	return false
}

func (o *slotOracle) renew(now int64, hold Hold) {
	if held := o.at(now); hold.valid() {
		held[hold] = now + o.l.periodMicros
		o.until = held
	}
}

func (o *slotOracle) release(now int64, hold Hold) {
	held := o.at(now)
	if _, has := held[hold]; has {
		delete(held, hold)
		o.until = held
	}
}

// peek returns what a peek must say.
func (o *slotOracle) peek(now int64) Decision {
	ends := slices.Collect(maps.Values(o.at(now)))
	d := Decision{Allowed: true, Limit: o.l.Quota, Remaining: max(o.l.Quota-int64(len(ends)), 0)}
	if len(ends) > 0 {
		d.ResetAfter = duration(slices.Max(ends) - now)
	}
	return d
}

// denial returns what a denied hit must say: when the first instant comes at which
// fewer than Quota slots count.
func (o *slotOracle) denial(now int64) Decision {
	d := o.peek(now)
	d.Allowed, d.Never = false, o.l.Quota == 0
	if d.Never {
		return d
	}
	for _, end := range slices.Sorted(maps.Values(o.at(now))) {
		later := 0
		for _, other := range o.at(now) {
			if other > end {
				later++
			}
		}
		if int64(later) < o.l.Quota {
			d.RetryAfter = duration(end - now)
			return d
		}
	}
	return d
}

// drawSlots draws a limit of few slots.
func drawSlots(t *rapid.T) *Limit {
	return Must(Spec{
		Algorithm: Concurrency,
		Quota:     rapid.Int64Range(0, 5).Draw(t, "quota"),
		Period:    time.Duration(rapid.SampledFrom([]int64{1, 2, 50, 10_000_000, maxPeriodMicros}).Draw(t, "timeout µs")) * time.Microsecond,
	})
}

// TestConcurrencyIsTheOracle drives one bucket through acquiring, renewing and
// releasing, changing limits and a clock that jumps both ways, beside a map of holds.
func TestConcurrencyIsTheOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawSlots(t)
		o := &slotOracle{l: l, until: map[Hold]int64{}}
		now := epoch
		var s State
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			if rapid.IntRange(0, 9).Draw(t, "change") == 0 {
				l = drawSlots(t)
				o.l = l
			}
			_, last := Decide(l, s, Micros(now), 0)
			now += rapid.OneOf(
				rapid.Just(int64(0)), rapid.Int64Range(0, 3), rapid.Int64Range(0, l.periodMicros),
				rapid.Just(l.periodMicros-1), rapid.Just(l.periodMicros),
				rapid.Just(max(last.ResetAfter.Microseconds()-1, 0)),
				rapid.Int64Range(-2*l.periodMicros, 0), rapid.Just(int64(-3_600_000_000)),
			).Draw(t, "move µs")
			hold := rapid.SampledFrom([]Hold{0, 1, 2, 3, 4, 5, 6, MaxHold, MaxHold + 1}).Draw(t, "hold")
			s = slotStep(t, o, s, now, hold)
			if got := held(s, now); !maps.Equal(got, o.at(now)) && !o.moved(now) {
				t.Fatalf("%+v holds %v, want %v", s, got, o.at(now))
			}
			if !slices.IsSorted(ends(s)) {
				t.Fatalf("not in order: %+v", s)
			}
		}
	})
}

// slotStep does one thing to s and the oracle, and compares what they say.
func slotStep(t *rapid.T, o *slotOracle, s State, now int64, hold Hold) State {
	l, before := o.l, cloneState(s)
	backing := slices.Clone(s.Wide[:cap(s.Wide)])
	want, changes := Decision{}, true
	var d Decision
	what := rapid.SampledFrom([]string{"acquire", "acquire", "acquire", "renew", "release", "hits", "peek", "charge", "refund"}).Draw(t, "what")
	switch what {
	case "acquire", "hits":
		if what == "hits" {
			hold = 0
		}
		moved := o.moved(now)
		if o.hit(now, hold) {
			want, changes = o.peek(now), hold.valid()
		} else {
			want, changes = o.denial(now), moved
		}
		if what == "hits" {
			s, d = Decide(l, s, Micros(now), rapid.SampledFrom([]int64{1, 2, MaxQuota}).Draw(t, "hits"))
		} else {
			s, d = Acquire(l, s, Micros(now), hold)
		}
		if d.Allowed && hold.valid() && int64(len(o.at(now))) > l.Quota && len(held(before, now)) < len(o.at(now)) {
			t.Fatalf("more than %d slots: %+v", l.Quota, s)
		}
	case "renew":
		o.renew(now, hold)
		want, changes = o.peek(now), hold.valid()
		s, d = Renew(l, s, Micros(now), hold)
	case "release":
		_, changes = o.at(now)[hold]
		o.release(now, hold)
		want = o.peek(now)
		s, d = Release(l, s, Micros(now), hold)
	case "peek":
		want, changes = o.peek(now), false
		s, d = Decide(l, s, Micros(now), 0)
		if PeekOne(l, s, Micros(now)).Allowed != (d.Remaining > 0) {
			t.Fatalf("a peek at one: %+v, %+v", PeekOne(l, s, Micros(now)), d)
		}
	case "charge":
		want, changes = o.peek(now), false
		s, d = Charge(l, s, Micros(now), 3)
	case "refund":
		want, changes = o.peek(now), false
		s, d = Refund(l, s, Micros(now), 3)
	}
	if d != want {
		t.Fatalf("%s by %d at %d on %+v: %+v, want %+v", what, hold, now, before, d, want)
	}
	if Lifetime(l, s, Micros(now)) != d.ResetAfter {
		t.Fatalf("lifetime %v after %+v", Lifetime(l, s, Micros(now)), d)
	}
	if !changes && (!sameState(s, before) || !slices.Equal(s.Wide[:cap(s.Wide)], backing)) {
		t.Fatalf("%s by %d at %d changed %+v to %+v", what, hold, now, before, s)
	}
	return s
}

// held returns the holds of s that count at now.
func held(s State, now int64) map[Hold]int64 {
	h := map[Hold]int64{}
	for i := 0; i+1 < len(s.Wide); i += slotWords {
		if s.Wide[i] > now {
			h[Hold(s.Wide[i+1])] = s.Wide[i]
		}
	}
	return h
}

func ends(s State) (all []int64) {
	for i := 0; i+1 < len(s.Wide); i += slotWords {
		all = append(all, s.Wide[i])
	}
	return all
}

// TestSlotsComeBackAtTheirTimeout, and not one microsecond before.
func TestSlotsComeBackAtTheirTimeout(t *testing.T) {
	l := Must(Spec{Algorithm: Concurrency, Quota: 1, Period: time.Minute})
	s, _ := Acquire(l, State{}, Micros(epoch), 1)
	if _, d := Acquire(l, s, Micros(epoch+59_999_999), 2); d.Allowed || d.RetryAfter != time.Microsecond {
		t.Errorf("a microsecond before: %+v", d)
	}
	if _, d := Acquire(l, cloneState(s), Micros(epoch+60_000_000), 2); !d.Allowed {
		t.Errorf("at the timeout: %+v", d)
	}
	// An hour back, it is a timeout from the next that is denied; forward again,
	// what was taken there has ended.
	hour := int64(3_600_000_000)
	s, d := Acquire(l, s, Micros(epoch-hour), 2)
	if d.Allowed || d.RetryAfter != time.Minute {
		t.Errorf("an hour before: %+v", d)
	}
	if _, d = Acquire(l, s, Micros(epoch-hour+59_999_999), 2); d.Allowed || d.RetryAfter != time.Microsecond {
		t.Errorf("a microsecond before the timeout there: %+v", d)
	}
	if s, d = Acquire(l, s, Micros(epoch-hour+60_000_000), 2); !d.Allowed {
		t.Errorf("at the timeout there: %+v", d)
	}
	if _, d = Acquire(l, s, Micros(epoch), 3); !d.Allowed {
		t.Errorf("forward again: %+v", d)
	}
}

// TestRenewalsAreBounded: there are no more than twice MaxConcurrency, whoever renews.
func TestRenewalsAreBounded(t *testing.T) {
	l := Must(Spec{Algorithm: Concurrency, Quota: MaxConcurrency, Period: time.Minute})
	var s State
	for hold := range Hold(mostSlots + 10) {
		s, _ = Renew(l, s, Micros(epoch), hold+1)
	}
	if len(s.Wide) != slotWords*mostSlots {
		t.Fatalf("%d words, want %d", len(s.Wide), slotWords*mostSlots)
	}
	if _, d := Acquire(l, s, Micros(epoch+1), mostSlots+1); d.Allowed || d.RetryAfter != time.Minute-time.Microsecond {
		t.Errorf("acquired beyond all: %+v", d)
	}
	s, _ = Renew(l, s, Micros(epoch+1), 1) // has one, and keeps it
	if n := len(s.Wide); n != slotWords*mostSlots || s.Wide[n-1] != 1 || s.Wide[n-2] != epoch+60_000_001 {
		t.Errorf("%d words that end in %v", n, s.Wide[n-2:])
	}
	s, d := Release(l, s, Micros(epoch+1), 2)
	if d.Remaining != 0 {
		t.Errorf("released one of too many: %+v", d)
	}
	if s, _ = Renew(l, s, Micros(epoch+1), mostSlots+1); held(s, epoch+1)[mostSlots+1] == 0 {
		t.Error("a renewal that has room is not remembered")
	}
}

// TestSlotsReuseMemory: a bucket that has had its slots allocates nothing more.
func TestSlotsReuseMemory(t *testing.T) {
	l := Must(Spec{Algorithm: Concurrency, Quota: 10, Period: time.Minute})
	s := State{Wide: make([]int64, 0, 20)}
	for hold := range Hold(5) {
		s, _ = Acquire(l, s, Micros(epoch), 100+hold)
	}
	now := Micros(epoch)
	if n := alloctest.PerRun(200, func() {
		now += 1000
		for hold := Hold(1); hold < 5; hold++ {
			s, _ = Acquire(l, s, now, hold)
		}
		s, _ = Renew(l, s, now, 2)
		Decide(l, s, now, 1)
		PeekOne(l, s, now)
		for hold := Hold(1); hold < 5; hold++ {
			s, _ = Release(l, s, now, hold)
		}
		s, _ = Renew(l, s, now, 100)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestSlotsAreTaken in the memory of a state of another kind, as a store lends it.
func TestSlotsInTheMemoryOfOthers(t *testing.T) {
	l := Must(Spec{Algorithm: Concurrency, Quota: 2, Period: time.Minute})
	memory := []int64{7, 8, 9, 10}
	s, d := Acquire(l, State{Kind: kindSlidingLog, Wide: memory[:3]}, Micros(epoch), 1)
	if !d.Allowed || d.Remaining != 1 || &s.Wide[0] != &memory[0] || len(s.Wide) != slotWords {
		t.Errorf("%+v, %+v", s, d)
	}
	if s, d = Release(l, s, Micros(epoch), 1); !sameState(s, State{}) || d.Remaining != 2 {
		t.Errorf("released: %+v, %+v", s, d)
	}
}

// TestMergeOfSlots keeps the slots of both, each until its later end, those that
// end last if there are too many.
func TestMergeOfSlots(t *testing.T) {
	l := Must(Spec{Algorithm: Concurrency, Quota: 2, Period: time.Minute})
	of := func(pairs ...int64) State { return State{Kind: kindConcurrency, Wide: pairs} }
	a, b := of(10, 1, 20, 2, 30, 3), of(15, 4, 20, 1, 25, 3, 99)
	want := of(15, 4, 20, 1, 20, 2, 30, 3)
	for _, got := range []State{Merge(l, a, b), Merge(l, b, a), Merge(l, want, b), Merge(l, a, want)} {
		if !sameState(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
	many, more := of(), of()
	for i := range int64(mostSlots) {
		many.Wide = append(many.Wide, 100+i, 1+i)
		more.Wide = append(more.Wide, 101+i, mostSlots+1+i)
	}
	merged := Merge(l, many, more)
	if n := len(merged.Wide); n != slotWords*mostSlots || merged.Wide[n-2] != 100+mostSlots {
		t.Errorf("%d words that end in %v", n, merged.Wide[n-2:])
	}
}
