package limit

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// lease is one lease in the hands of a holder.
type lease struct {
	hits, used int64
	until      int64
	// gone says that the holder gave it back or crashed, known that the bucket
	// still counts it as held.
	gone, known bool
}

// fleet is a bucket, its leases, and all hits that have passed.
type fleet struct {
	l      *Limit
	s      State
	now    int64
	leases []*lease
	passed []event
	// refunded is what was refunded, all of it at that instant.
	refunded []event

	granted, used, returned, lost int64
}

func (f *fleet) pass(hits int64) {
	if hits > 0 {
		f.passed = append(f.passed, event{f.now, hits})
	}
}

// expire forgets what has ended. What a holder did not use is lost.
func (f *fleet) expire() {
	for _, g := range f.leases {
		if g.known && g.until <= f.now {
			g.known = false
			f.lost += g.hits - g.used
		}
	}
}

// held is what all leases but one hold.
func (f *fleet) held(but *lease) (h Held) {
	for _, g := range f.leases {
		if g.known && g != but {
			h.Hits += g.hits
			h.Until = max(h.Until, Micros(g.until))
		}
	}
	return h
}

func (f *fleet) outstanding() int64 {
	n := int64(0)
	for _, g := range f.leases {
		if g.known {
			n += g.hits - g.used
		}
	}
	return n
}

func (f *fleet) grant(t *rapid.T) {
	_, peek := Decide(f.l, f.s, Micros(f.now), 0)
	want := rapid.Int64Range(0, peek.Remaining+3).Draw(t, "want")
	share := rapid.Int64Range(0, 4).Draw(t, "share")
	ttl := time.Duration(rapid.Int64Range(0, f.l.periodMicros+f.l.tolerance.whole).Draw(t, "ttl µs")) * time.Microsecond
	before := cloneState(f.s)
	s, hits, lasts := Lease(f.l, f.s, Micros(f.now), want, share, ttl)
	if hits < 0 || hits > want || hits > peek.Remaining/max(share, 1) || lasts > ttl || (hits == 0) != (lasts == 0) {
		t.Fatalf("want %d, share %d, ttl %v of %+v: %d for %v", want, share, ttl, peek, hits, lasts)
	}
	if hits == 0 {
		if !sameState(s, before) {
			t.Fatalf("no grant changed %+v to %+v", before, s)
		}
		return
	}
	f.s = s
	f.granted += hits
	f.leases = append(f.leases, &lease{hits: hits, until: f.now + lasts.Microseconds(), known: true})
}

// use lets pass some of what a holder has.
func (f *fleet) use(t *rapid.T, g *lease) {
	if g.gone || f.now >= g.until {
		return
	}
	hits := rapid.OneOf(rapid.Int64Range(0, g.hits-g.used), rapid.Just(g.hits-g.used)).Draw(t, "used")
	g.used += hits
	f.used += hits
	f.pass(hits)
}

// giveBack ends a lease and returns what its holder has left, some of it, or
// nothing.
func (f *fleet) giveBack(t *rapid.T, g *lease) {
	left := g.hits - g.used
	if !g.known {
		return // late, repeated: the store does not know the lease
	}
	hits := rapid.Int64Range(0, left).Draw(t, "returned")
	f.s = Return(f.l, f.s, Micros(f.now), hits, f.held(g))
	g.gone, g.known = true, false
	f.returned += hits
	f.lost += left - hits
}

// TestLeasesKeepThePromises lets hits pass at random, one by one and leased, and
// looks at every interval between any two of them.
func TestLeasesKeepThePromises(t *testing.T) {
	for _, a := range countingAlgorithms {
		t.Run(a.String(), rapid.MakeCheck(func(t *rapid.T) {
			f := &fleet{l: drawLeased(t, a)}
			f.now = epoch + rapid.Int64Range(0, f.l.periodMicros).Draw(t, "phase µs")
			for range rapid.IntRange(1, 60).Draw(t, "steps") {
				f.now += drawLeaseStep(t, f)
				f.expire()
				f.step(t)
				if f.granted != f.used+f.returned+f.lost+f.outstanding() {
					t.Fatalf("granted %d, used %d, returned %d, lost %d, out %d", f.granted, f.used, f.returned, f.lost, f.outstanding())
				}
				checkInequality(t, f)
			}
			if a == SlidingLog || a == LeakyQueue {
				if f.granted > 0 {
					t.Fatal("leased what cannot be leased")
				}
			}
			checkEnvelope(t, f.l, f.passed)
		}))
	}
}

// step is one thing that happens.
func (f *fleet) step(t *rapid.T) {
	var g *lease
	if len(f.leases) > 0 {
		g = f.leases[rapid.IntRange(0, len(f.leases)-1).Draw(t, "lease")]
	}
	switch what := rapid.SampledFrom([]string{"hit", "all", "grant", "grant", "use", "use", "return", "crash"}).Draw(t, "what"); {
	case what == "grant":
		f.grant(t)
	case what == "use" && g != nil:
		f.use(t, g)
	case what == "return" && g != nil:
		f.giveBack(t, g)
	case what == "crash" && g != nil:
		g.gone = true
	default:
		_, peek := Decide(f.l, f.s, Micros(f.now), 0)
		hits := int64(1)
		if what == "all" {
			hits = max(peek.Remaining, 1)
		}
		var d Decision
		if f.s, d = Decide(f.l, f.s, Micros(f.now), hits); d.Allowed {
			f.pass(hits)
		}
	}
}

func drawLeased(t *rapid.T, a Algorithm) *Limit {
	spec := Spec{Algorithm: a, Quota: rapid.Int64Range(1, 100).Draw(t, "quota")}
	spec.Period = time.Duration(rapid.Int64Range(1, 5000).Draw(t, "period µs")) * time.Microsecond
	if a == SubWindows {
		spec.SubWindows = rapid.IntRange(MinSubWindows, MaxSubWindows).Draw(t, "parts")
		spec.Strict = rapid.Bool().Draw(t, "strict")
	}
	if a == TokenBucket || a == GCRA {
		spec.Burst = rapid.Int64Range(0, 200).Draw(t, "burst")
	}
	return Must(spec)
}

// drawLeaseStep draws how far time goes on, often to just before a lease ends.
func drawLeaseStep(t *rapid.T, f *fleet) int64 {
	steps := []*rapid.Generator[int64]{
		rapid.Just(int64(0)),
		rapid.Int64Range(0, 2),
		rapid.Int64Range(0, f.l.periodMicros/4+1),
		rapid.Int64Range(0, 2*f.l.periodMicros),
	}
	for _, g := range f.leases {
		if g.known {
			steps = append(steps, rapid.Just(g.until-f.now-1), rapid.Just(g.until-f.now))
		}
	}
	return max(0, rapid.OneOf(steps...).Draw(t, "step µs"))
}

// refund gives back hits that have passed, whether they still count or not.
func (f *fleet) refund(t *rapid.T) {
	passed := int64(0)
	for _, e := range f.passed {
		passed += e.hits
	}
	hits := rapid.OneOf(rapid.Just(passed), rapid.Int64Range(0, passed)).Draw(t, "refunded")
	f.s, _ = Refund(f.l, f.s, Micros(f.now), hits)
	f.refunded = append(f.refunded, event{f.now, hits})
}

// refundedBetween is how many hits were refunded from t to u.
func (f *fleet) refundedBetween(t, u int64) (hits int64) {
	for _, e := range f.refunded {
		if e.at >= t && e.at <= u {
			hits += e.hits
		}
	}
	return hits
}

// TestRefundsOfLeasedBuckets: what is refunded may pass again until as long after
// the refund as a lease lasts, and never more.
func TestRefundsOfLeasedBuckets(t *testing.T) {
	for _, a := range []Algorithm{SlidingWindow, FixedWindow, SubWindows, TokenBucket, GCRA} {
		t.Run(a.String(), rapid.MakeCheck(func(t *rapid.T) {
			f := &fleet{l: drawLeased(t, a)}
			f.now = epoch + rapid.Int64Range(0, f.l.periodMicros).Draw(t, "phase µs")
			longest := f.l.periodMicros
			if a.IsBucket() {
				longest = f.l.tolerance.whole / LeasePart
			}
			for range rapid.IntRange(1, 60).Draw(t, "steps") {
				f.now += drawLeaseStep(t, f)
				f.expire()
				if rapid.IntRange(0, 4).Draw(t, "refunds") == 0 {
					f.refund(t)
				} else {
					f.step(t)
				}
			}
			for i, first := range f.passed {
				sum := int64(0)
				for _, last := range f.passed[i:] {
					sum += last.hits
					more := f.refundedBetween(first.at-longest, last.at)
					if most := envelope(f.l, last.at-first.at); (sum-more)*f.l.periodMicros > most {
						t.Fatalf("%d hits from %d to %d with %d refunded, at most %d/%d are promised", sum, first.at, last.at, more, most, f.l.periodMicros)
					}
				}
			}
		}))
	}
}

// TestRefundFreesWhatIsLeased: why that bound has the length of a lease in it.
func TestRefundFreesWhatIsLeased(t *testing.T) {
	l := Must(Spec{Algorithm: GCRA, Quota: 1_000_000, Period: time.Second, Burst: 100}) // one hit in 1 µs
	s, _ := Decide(l, State{}, Micros(epoch), 50)
	s, leased, lasts := Lease(l, s, Micros(epoch+50), 20, 1, time.Hour)
	if leased != 20 || lasts != 25*time.Microsecond {
		t.Fatalf("leased %d for %v", leased, lasts)
	}
	s, _ = Refund(l, s, Micros(epoch+51), 50) // of hits that no longer count
	_, d := Decide(l, s, Micros(epoch+52), 100)
	if !d.Allowed {
		t.Errorf("%+v: Lease may promise more than it does", d)
	}
}

// checkInequality checks (*) of Lease exactly.
func checkInequality(t *rapid.T, f *fleet) {
	if !f.l.Algorithm.IsBucket() {
		return
	}
	backlog, _ := f.l.backlogAt(&f.s, f.now)
	for _, end := range f.leases {
		if !end.known {
			continue
		}
		hits := int64(0)
		for _, g := range f.leases {
			if g.known && g.until >= end.until {
				hits += g.hits
			}
		}
		need := f.l.drainTime(hits).plus(span{whole: end.until - f.now}, f.l.den)
		if need.exceeds(backlog) {
			t.Fatalf("TAT %v ahead, but leases until %d µs hold %d hits: %v", backlog, end.until-f.now, hits, need)
		}
	}
}

// TestLeaseOfAnyState leases on whatever a store holds.
func TestLeaseOfAnyState(t *testing.T) {
	for _, a := range allAlgorithms {
		t.Run(a.String(), rapid.MakeCheck(func(t *rapid.T) {
			l := drawLimit(t, a)
			s := drawState(t)
			if rapid.Bool().Draw(t, "of this kind") {
				s.Kind = 1 + uint8(a)
			}
			now := Micros(rapid.OneOf(rapid.Int64(), rapid.Int64Range(epoch, epoch+1_000_000)).Draw(t, "now"))
			number := rapid.OneOf(rapid.Int64(), rapid.Int64Range(0, 9), rapid.Int64Range(0, MaxQuota))
			_, before := Decide(l, s, now, 0)
			after, granted, lasts := Lease(l, cloneState(s), now, number.Draw(t, "want"), number.Draw(t, "share"), time.Duration(rapid.Int64().Draw(t, "ttl")))
			_, d := Decide(l, after, now, 0)
			checkRange(t, l, after, d)
			if granted < 0 || lasts < 0 || granted > before.Remaining || d.Remaining > before.Remaining-granted {
				t.Fatalf("granted %d for %v of %+v, then %+v", granted, lasts, before, d)
			}
			s = Return(l, after, now, number.Draw(t, "returned"), Held{Hits: number.Draw(t, "held"), Until: Micros(rapid.Int64().Draw(t, "until"))})
			_, back := Decide(l, s, now, 0)
			checkRange(t, l, s, back)
			if back.Remaining < d.Remaining {
				t.Fatalf("a return made %+v worse: %+v", d, back)
			}
		}))
	}
}

// TestLeaseLength has each algorithm say how long its leases last.
func TestLeaseLength(t *testing.T) {
	const minute = int64(60_000_000)
	noon := Micros(epoch / minute * minute)
	berlin, err := NewCalendar(CalendarDay, "UTC")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		spec  Spec
		after time.Duration
		hits  int64
		lasts time.Duration
	}{
		{Spec{Quota: 100, Period: time.Minute}, 0, 25, time.Minute},
		{Spec{Quota: 100, Period: time.Minute}, 59 * time.Second, 25, time.Second},
		{Spec{Algorithm: FixedWindow, Quota: 100, Period: time.Minute}, 15 * time.Second, 25, 45 * time.Second},
		{Spec{Algorithm: FixedWindow, Quota: 100, Calendar: berlin}, 0, 25, time.Hour},
		{Spec{Algorithm: SubWindows, Quota: 100, Period: time.Minute, SubWindows: 6}, 15 * time.Second, 25, 5 * time.Second},
		{Spec{Algorithm: TokenBucket, Quota: 100, Period: time.Minute}, 0, 18, 15 * time.Second},
		{Spec{Algorithm: GCRA, Quota: 100, Period: time.Minute, Burst: 400}, 0, 75, time.Minute},
		{Spec{Algorithm: LeakyBucket, Quota: 100, Period: time.Minute}, 0, 0, 0},
		{Spec{Algorithm: LeakyQueue, Quota: 100, Period: time.Minute}, 0, 0, 0},
		{Spec{Algorithm: SlidingLog, Quota: 100, Period: time.Minute}, 0, 0, 0},
		{Spec{Quota: 7, Period: time.Minute}, 0, 0, 0},
		{Spec{Quota: 8, Period: time.Minute}, 0, 2, time.Minute},
		{Spec{Quota: 0, Period: time.Minute}, 0, 0, 0},
	} {
		_, hits, lasts := Lease(Must(c.spec), State{}, noon+Micros(c.after.Microseconds()), MaxQuota, 4, time.Hour)
		if hits != c.hits || lasts != c.lasts {
			t.Errorf("%+v after %v: %d for %v, want %d for %v", c.spec, c.after, hits, lasts, c.hits, c.lasts)
		}
	}
}

// TestReturnLeavesWhatOthersHold is the case that a bound on each lease alone
// gets wrong: the second lease finds the TAT high only because of the first.
func TestReturnLeavesWhatOthersHold(t *testing.T) {
	l := Must(Spec{Algorithm: GCRA, Quota: 1_000_000, Period: time.Second, Burst: 1000}) // one hit in 1 µs
	s, first, _ := Lease(l, State{}, Micros(epoch), 100, 1, 100*time.Microsecond)
	s, second, _ := Lease(l, s, Micros(epoch+90), 50, 1, 100*time.Microsecond)
	if first != 100 || second != 50 || s.A != epoch+250 {
		t.Fatalf("granted %d and %d: %+v", first, second, s)
	}
	s = Return(l, s, Micros(epoch+95), 100, Held{Hits: 50, Until: Micros(epoch + 190)})
	if s.A != epoch+190+50 {
		t.Errorf("TAT %d after the epoch, want the end of the second lease and its hits", s.A-epoch)
	}
	if s = Return(l, s, Micros(epoch+96), 50, Held{}); s.A != epoch+190 {
		t.Errorf("TAT %d after the epoch, want 190", s.A-epoch)
	}
}

// TestPeekOneChangesNothing also where a denial counts or puts a state in order.
func TestPeekOneChangesNothing(t *testing.T) {
	for _, a := range allAlgorithms {
		t.Run(a.String(), rapid.MakeCheck(func(t *rapid.T) {
			l := drawLimit(t, a)
			if a <= SubWindows {
				spec := l.Spec
				spec.CountDenied = true
				l = Must(spec)
			}
			s := drawState(t)
			s.Kind = 1 + uint8(a)
			untouched := cloneState(s)
			d := PeekOne(l, s, Micros(epoch))
			if !sameState(s, untouched) {
				t.Fatalf("changed %+v to %+v", untouched, s)
			}
			_, peek := Decide(l, s, Micros(epoch), 0)
			plain := *l
			plain.CountDenied = false
			_, one := Decide(&plain, cloneState(s), Micros(epoch), 1)
			if peek.Remaining > 0 && d != peek || peek.Remaining == 0 && (d.Allowed || d.RetryAfter != one.RetryAfter || d.Never != one.Never) {
				t.Fatalf("%+v, a peek %+v, a hit %+v", d, peek, one)
			}
		}))
	}
}
