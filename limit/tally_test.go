package limit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// disagreement is a bucket that nodes with several limits decide on, a plain log of
// what they let pass, and for each limit what it would have counted alone.
type disagreement struct {
	limits []*Limit
	bucket State
	log    []event
	alone  []lone
}

// lone is the state of a limit that was charged with all hits since its tally began,
// whoever let them pass, each at its instant.
type lone struct {
	state   State
	touched int64 // when it last let hits pass; 0: it has no tally
	kept    int64 // for how long it has one
}

// drawDisagreement draws two or three limits. Buckets have one rate, and logs one
// period: their plain states do not say under which they were written.
func drawDisagreement(t *rapid.T) *disagreement {
	w := &disagreement{}
	periods := []time.Duration{time.Second, time.Minute, time.Hour}
	common := rapid.SampledFrom(periods).Draw(t, "period")
	rate := rapid.Int64Range(1, 60).Draw(t, "rate")
	for range rapid.IntRange(2, 3).Draw(t, "limits") {
		s := Spec{Algorithm: rapid.SampledFrom(countingAlgorithms).Draw(t, "algorithm"), Period: common}
		s.Quota = rapid.OneOf(rapid.Just(rate), rapid.Int64Range(1, 60)).Draw(t, "quota")
		switch s.Algorithm {
		case SubWindows:
			s.SubWindows = rapid.SampledFrom([]int{2, 3, 10}).Draw(t, "parts")
			s.Strict = rapid.Bool().Draw(t, "strict")
		case SlidingLog:
		case TokenBucket, GCRA:
			s.Quota, s.Burst = rate, rapid.Int64Range(1, 60).Draw(t, "burst")
		case LeakyBucket, LeakyQueue:
			s.Quota = rate
		default:
			s.Period = rapid.SampledFrom(append(periods, common, common, common)).Draw(t, "other period")
		}
		w.limits = append(w.limits, Must(s))
	}
	w.alone = make([]lone, len(w.limits))
	return w
}

// count charges hits that have passed to all limits that have a tally.
func (w *disagreement) count(now, hits int64) {
	for i := range w.alone {
		l, one := w.limits[i], &w.alone[i]
		if one.touched == 0 {
			continue
		}
		if l.Algorithm.IsBucket() {
			one.state = l.upToDate(&one.state, hits, now, now)
			continue
		}
		if hits > 0 {
			one.state, _ = Charge(l, one.state, Micros(now), hits)
		} else {
			one.state, _ = Refund(l, one.state, Micros(now), -hits)
		}
	}
}

// take has node i decide, and checks both promises.
func (w *disagreement) take(t *rapid.T, i int, now, hits int64) Decision {
	d := w.pass(t, i, now, hits)
	if used, least := w.within(now), w.least(); !d.Allowed && !d.Never && used+hits <= least {
		t.Fatalf("%s denies %d hits at %d, %d were used, the least is %d:\n%+v\n%v\n%s", name(w.limits[i]), hits, now, used, least, d, w.log, w)
	}
	return d
}

// pass has node i decide, and checks that what passes would pass its limit alone.
func (w *disagreement) pass(t *rapid.T, i int, now, hits int64) Decision {
	l, one := w.limits[i], &w.alone[i]
	for j := range w.alone {
		if now > w.alone[j].touched+w.alone[j].kept {
			w.alone[j] = lone{} // not asked for as long as it looks back
		}
	}
	next, d := Decide(l, cloneState(w.bucket), Micros(now), hits)
	w.bucket = next
	if !d.Allowed {
		return d
	}
	if _, alone := Decide(l, cloneState(one.state), Micros(now), hits); one.touched > 0 && !alone.Allowed {
		t.Fatalf("%s lets %d hits pass at %d; alone it would not: %+v\n%v\n%s", name(l), hits, now, alone, w.log, w)
	}
	if w.bucket.Kind != KindTallies { // buckets have no tally of their own
		for j := range w.alone {
			if j != i && l.Algorithm.IsBucket() && w.limits[j].Algorithm.IsBucket() {
				w.alone[j] = lone{}
			}
		}
	}
	if hits > 0 {
		one.touched, one.kept = now, l.memory()
		if w.bucket.Kind != KindTallies { // how far it looks back is not known to others
			for _, other := range w.limits {
				one.kept = min(one.kept, other.memory())
			}
		}
		w.count(now, hits)
		w.log = append(w.log, event{now, hits})
	}
	return d
}

// within returns the hits of the time in which any limit may remember: twice what the
// one looks back on that was asked before, and as much again for the next.
func (w *disagreement) within(now int64) int64 {
	longest, sum := int64(0), int64(0)
	for _, l := range w.limits {
		longest = max(longest, l.memory()+l.periodMicros)
	}
	for _, e := range w.log {
		if e.at > now-4*longest {
			sum += e.hits
		}
	}
	return sum
}

// least returns the smallest number of hits that any of the limits lets pass. To
// others a bucket's hit is a part of its rate too.
func (w *disagreement) least() int64 {
	least, rounded := int64(MaxQuota), int64(0)
	for i, l := range w.limits {
		least = min(least, l.capacity, l.Quota)
		for _, other := range w.limits[:i] {
			if (l.Algorithm.IsBucket() || other.Algorithm.IsBucket()) && (l.Period != other.Period || l.Quota != other.Quota) {
				return 0 // a plain backlog is a time, in hits of whoever reads it
			}
			if l.Algorithm.IsBucket() != other.Algorithm.IsBucket() {
				rounded++ // it was rounded up when it became hits
			}
		}
	}
	return least - rounded
}

func (w *disagreement) String() string {
	text := ""
	for _, l := range w.limits {
		text += name(l) + "; "
	}
	return text + fmt.Sprintf("%+v", w.bucket)
}

func name(l *Limit) string {
	return fmt.Sprintf("%v %d per %v burst %d parts %d", l.Algorithm, l.Quota, l.Period, l.Burst, l.SubWindows)
}

// TestDisagreement alternates at random among limits that disagree, and demands of
// every hit that passes that its limit, alone, would have let it pass after all hits
// since its tally began; and of every denial that the smallest limit was used up.
//
//promise:disagreement-lets-pass disagreement-denies
func TestDisagreement(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawDisagreement(t)
		var d Decision
		now := epoch + rapid.Int64Range(0, 7_200_000_000).Draw(t, "phase µs")
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			i := rapid.IntRange(0, len(w.limits)-1).Draw(t, "node")
			l := w.limits[i]
			now += rapid.OneOf(
				rapid.Just[int64](0), rapid.Int64Range(0, 2), rapid.Int64Range(0, l.periodMicros/20), rapid.Int64Range(0, 2*l.periodMicros),
				rapid.Just(d.RetryAfter.Microseconds()),
			).Draw(t, "step µs")
			_, peek := Decide(l, w.bucket, Micros(now), 0)
			hits := rapid.OneOf(rapid.Int64Range(1, 3), rapid.Just(peek.Remaining), rapid.Just(peek.Remaining+1)).Draw(t, "hits")
			if hits < 1 || hits > l.capacity {
				hits = 1
			}
			if d = w.take(t, i, now, hits); d.Allowed && rapid.IntRange(0, 5).Draw(t, "refund") == 0 {
				w.bucket, _ = Refund(l, cloneState(w.bucket), Micros(now), hits)
				w.count(now, -hits)
				w.log = w.log[:len(w.log)-1]
				if w.bucket.Kind == 0 { // nothing is left of anything
					clear(w.alone)
				}
			}
		}
	})
}

// TestNodesThatDisagreeGoOnLimiting asks nodes with different limits for one key in
// turn and at random, once a millisecond. What passes stays within the largest
// limit, and reaches the smallest.
//
//promise:disagreement-lets-pass
func TestNodesThatDisagreeGoOnLimiting(t *testing.T) {
	start := epoch / 3_600_000_000 * 3_600_000_000
	of := func(a Algorithm, quota, burst int64, carry Carry) *Limit {
		return Must(Spec{Algorithm: a, Quota: quota, Burst: burst, Period: time.Hour, Carry: carry})
	}
	parts := func(quota int64, n int) *Limit {
		return Must(Spec{Algorithm: SubWindows, Quota: quota, SubWindows: n, Period: time.Hour})
	}
	for _, limits := range [][]*Limit{
		{of(SlidingWindow, 100, 0, 0), of(SlidingWindow, 100, 0, 0), of(GCRA, 200, 0, 0)},
		{of(SlidingWindow, 100, 0, 0), of(SlidingWindow, 100, 0, 0), of(TokenBucket, 120, 0, 0)},
		{of(FixedWindow, 100, 0, 0), of(FixedWindow, 100, 0, 0), of(GCRA, 110, 0, 0)},
		{of(SlidingLog, 100, 0, 0), of(GCRA, 1000, 0, 0)},
		{of(GCRA, 200, 0, 0), of(SlidingWindow, 100, 0, 0)},
		{of(SlidingWindow, 100, 0, 0), of(SlidingWindow, 100, 0, 0), of(GCRA, 100, 20, 0)},
		{of(GCRA, 100, 100, 0), of(GCRA, 100, 20, 0)},
		{of(SlidingWindow, 1000, 0, 0), of(GCRA, 100, 0, 0)},
		{of(SlidingWindow, 1000, 0, 0), of(TokenBucket, 500, 0, 0)},
		{of(FixedWindow, 100, 0, 0), of(GCRA, 50, 0, 0)},
		{parts(100, 10), parts(200, 20)},
		{parts(100, 7), of(SlidingWindow, 300, 0, 0), of(SlidingLog, 50, 0, 0)},
		{of(SlidingWindow, 100, 0, CarryNothing), of(GCRA, 200, 0, CarryNothing)},
		{of(FixedWindow, 100, 0, CarryNothing), of(FixedWindow, 200, 0, CarryNothing)},
		{of(SlidingLog, 100, 0, CarryShare), of(GCRA, 150, 0, CarryShare)},
		{of(SlidingWindow, 1000, 0, CarryShare), of(SlidingWindow, 100, 0, CarryShare)},
		{of(SlidingWindow, 100, 0, 0), of(SlidingWindow, 100, 0, 0)},
		{of(GCRA, 100, 0, 0), of(GCRA, 200, 0, 0)},
	} {
		random := rand.New(rand.NewPCG(1, 2))
		for order, next := range map[string]func(i int) int{
			"in turn":   func(i int) int { return i % len(limits) },
			"at random": func(int) int { return random.IntN(len(limits)) },
		} {
			var s State
			allowed := int64(0)
			least, most := int64(MaxQuota), int64(0)
			for _, l := range limits {
				least, most = min(least, l.capacity), max(most, l.capacity, l.Quota)
			}
			const asked = 20_000
			met := map[*Limit]bool{}
			for i := range asked {
				var d Decision
				l := limits[next(i)]
				if !met[l] && l.Carry != CarryUsed {
					most += allowed // it begins anew, or with a share
				}
				met[l] = true
				if s, d = Decide(l, s, Micros(start+int64(i)*1000), 1); d.Allowed {
					allowed++
				}
			}
			// In 20 s a bucket lets a 180th of its quota pass beside its burst.
			if most += 1 + most/180; allowed < least || allowed > most {
				t.Errorf("%v %s: %d of %d allowed, want %d to %d", slices.Collect(func(yield func(string) bool) {
					for _, l := range limits {
						yield(name(l) + " " + l.Carry.String())
					}
				}), order, allowed, asked, least, most)
			}
		}
	}
}

// TestToggledLimit changes one limit there and back with a request in between.
func TestToggledLimit(t *testing.T) {
	limits := []*Limit{Must(PerHour(1000)), Must(Spec{Algorithm: GCRA, Quota: 100, Period: time.Hour})}
	var s State
	for i := range 100 {
		var d Decision
		if s, d = Decide(limits[i%2], s, Micros(epoch+int64(i)*1000), 1); !d.Allowed {
			t.Fatalf("request %d: %+v", i, d)
		}
	}
}

// TestManyLimits asks one bucket by many limits in turn, as where callers name a
// burst each, or a file is changed again and again: no more passes than the largest of
// them allows, and one hit for each that passed before its tally began.
//
//promise:more-than-eight-limits
func TestManyLimits(t *testing.T) {
	const month = 30 * 24 * time.Hour
	for name, spec := range map[string]func(i int) Spec{
		"bursts": func(i int) Spec {
			return Spec{Algorithm: GCRA, Quota: 100, Burst: int64(10 * (i + 1)), Period: month}
		},
		"logs": func(i int) Spec {
			return Spec{Algorithm: SlidingLog, Quota: int64(10 * (i + 1)), Period: month}
		},
		"algorithms": func(i int) Spec {
			s := Spec{Algorithm: countingAlgorithms[i%len(countingAlgorithms)], Quota: 100, Period: month}
			if s.Algorithm.IsBucket() {
				s.Quota = int64(20 + 10*i)
			}
			return s
		},
	} {
		for n := 2; n <= 2*maxTallies; n++ {
			largest := int64(0)
			var limits []*Limit
			for i := range n {
				l := Must(spec(i))
				limits, largest = append(limits, l), max(largest, l.capacity)
			}
			var s State
			allowed := int64(0)
			for i := range 600 {
				var d Decision
				if s, d = Decide(limits[i%n], s, Micros(epoch+int64(i)*1000), 1); d.Allowed {
					allowed++
				}
			}
			if allowed > largest+int64(n) {
				t.Errorf("%d %s: %d allowed, the largest limit is %d", n, name, allowed, largest)
			}
		}
	}
}

// TestTalliesEnd: when all nodes agree again the state becomes plain, and it never
// has more than maxTallies.
//
//promise:tallies-end
func TestTalliesEnd(t *testing.T) {
	var s State
	now := epoch
	for i := range 50 {
		l := Must(Spec{Algorithm: countingAlgorithms[i%4], Quota: 100, Period: time.Duration(1+i%5) * time.Minute})
		now += 1_000_000
		s, _ = Decide(l, s, Micros(now), 1)
		if n := len(talliesOf(&s, nil)); n > maxTallies || i > 0 && s.Kind != KindTallies {
			t.Fatalf("step %d: %d tallies, %+v", i, n, s)
		}
	}
	last := Must(PerMinute(100))
	now += int64(2 * time.Hour / time.Microsecond)
	if s, _ = Decide(last, s, Micros(now), 1); s.Kind != kindSlidingWindow {
		t.Errorf("two hours on: %+v", s)
	}
}

// TestMergeOfTallies brings back what a failover has lost of a bucket with several
// tallies: a limit has no more left than it had last, and merging again changes
// nothing.
func TestMergeOfTallies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawDisagreement(t)
		now := int64(mergeNoon)
		live := func(s State) State {
			for range rapid.IntRange(0, 8).Draw(t, "hits") {
				now += rapid.Int64Range(0, 2_000_000).Draw(t, "step µs")
				l := rapid.SampledFrom(w.limits).Draw(t, "limit")
				s, _ = Decide(l, cloneState(s), Micros(now), 1)
			}
			return s
		}
		early := live(State{})
		late := live(cloneState(early))
		l := w.limits[0]
		merged := Merge(l, cloneState(early), cloneState(late))
		if again := Merge(l, cloneState(merged), cloneState(late)); !sameState(again, merged) {
			t.Fatalf("%+v and %+v merge to %+v, again to %+v", early, late, merged, again)
		}
		if late.Kind != KindTallies || early.Kind != KindTallies {
			return // of different kinds the first counts
		}
		if !slices.ContainsFunc(talliesOf(&late, nil), func(t tally) bool { return l.owns(&t) }) {
			return // it begins by a conversion, or with what it had
		}
		_, got := Decide(l, merged, Micros(now), 0)
		_, most := Decide(l, late, Micros(now), 0)
		// The form of a window says whose it is; a bucket's and a log's does not, where they
		// have been plain in between.
		if l.Algorithm < SlidingLog && got.Remaining > most.Remaining {
			t.Fatalf("%+v and %+v merge to %+v: %d remain, want %d", early, late, merged, got.Remaining, most.Remaining)
		}
	})
}
