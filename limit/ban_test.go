package limit

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// denials is a ban as plainly as it can be said: the instants of all denials, one
// by one.
type denials struct {
	quota, period, ban int64
	all                []int64
}

// at plays the denials and returns how many count at now, since when, and until
// when there is a ban.
func (o *denials) at(now int64) (count, start, until int64) {
	for _, at := range o.all {
		if at < until {
			continue // there was a ban
		}
		if count == 0 || at >= start+o.period {
			count, start = 0, at
		}
		if count++; count == o.quota {
			count, until = 0, at+o.ban
		}
	}
	if until <= now {
		until = 0
	}
	if now >= start+o.period {
		count = 0
	}
	return count, start, until
}

// says is what a peek must say.
func (o *denials) says(now int64) Decision {
	count, start, until := o.at(now)
	d := Decision{Allowed: true, Limit: o.quota, Remaining: o.quota - count}
	switch {
	case until > 0:
		d.Remaining, d.ResetAfter = 0, duration(until-now)
	case count > 0:
		d.ResetAfter = duration(start + o.period - now)
	}
	return d
}

// refund forgets the latest denials that count.
func (o *denials) refund(now int64, n int) {
	count, _, until := o.at(now)
	if until == 0 {
		o.all = o.all[:len(o.all)-min(n, int(count))]
	}
}

// TestBanIsTheOracle counts denials beside a list of them.
func TestBanIsTheOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		us := rapid.SampledFrom([]int64{1, 2, 30, 10_000_000, maxPeriodMicros})
		o := &denials{quota: rapid.Int64Range(1, 6).Draw(t, "quota"), period: us.Draw(t, "period µs"), ban: us.Draw(t, "ban µs")}
		l := Must(Spec{Algorithm: Ban, Quota: o.quota, Period: duration(o.period), BanFor: duration(o.ban)})
		now := epoch
		var s State
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			reset := o.says(now).ResetAfter.Microseconds()
			now += rapid.OneOf(
				rapid.Int64Range(0, 3), rapid.Int64Range(0, o.period), rapid.Int64Range(0, o.ban),
				rapid.Just(reset), rapid.Just(max(reset-1, 0)), rapid.Just(int64(0)),
			).Draw(t, "move µs")
			n := rapid.IntRange(0, 4).Draw(t, "n")
			before := s
			var d Decision
			switch rapid.SampledFrom([]string{"charge", "charge", "charge", "refund", "hit"}).Draw(t, "what") {
			case "charge":
				for range n {
					o.all = append(o.all, now)
				}
				s, d = Charge(l, s, Micros(now), int64(n))
			case "refund":
				o.refund(now, n)
				s, d = Refund(l, s, Micros(now), int64(n))
			default:
				s, d = Decide(l, s, Micros(now), int64(n))
				want := o.says(now)
				if _, _, until := o.at(now); until > 0 && n > 0 {
					want.Allowed, want.RetryAfter = false, want.ResetAfter
				}
				if d != want || !sameState(s, before) {
					t.Fatalf("%d hits at %d on %+v: %+v, %+v, want %+v", n, now, before, s, d, want)
				}
				continue
			}
			if want := o.says(now); d != want {
				t.Fatalf("at %d on %+v, %d: %+v, %+v, want %+v", now, before, n, s, d, want)
			}
			if Lifetime(l, s, Micros(now)) != d.ResetAfter {
				t.Fatalf("lifetime %v after %+v", Lifetime(l, s, Micros(now)), d)
			}
		}
	})
}

// TestBanLastsExactly from the denial that made it, whatever else comes, and after
// it nothing counts.
func TestBanLastsExactly(t *testing.T) {
	l := Must(Spec{Algorithm: Ban, Quota: 3, Period: time.Minute, BanFor: time.Hour})
	const second, hour = 1_000_000, 3_600_000_000
	s, _ := Charge(l, State{}, Micros(epoch), 1)
	s, d := Charge(l, s, Micros(epoch+59*second), 1)
	if !d.Allowed || d.Remaining != 1 || d.ResetAfter != time.Second {
		t.Errorf("two denials: %+v", d)
	}
	if _, d = Charge(l, s, Micros(epoch+60*second), 1); d.Remaining != 2 {
		t.Errorf("a third one a period after the first: %+v", d)
	}
	made := int64(epoch + 60*second - 1)
	s, d = Charge(l, s, Micros(made), 1)
	if !d.Allowed || d.Remaining != 0 || d.ResetAfter != time.Hour {
		t.Errorf("the third one: %+v", d)
	}
	for at := made; at < made+hour; at += hour / 7 {
		s, _ = Charge(l, s, Micros(at), 2)
		s, _ = Refund(l, s, Micros(at), 2)
	}
	if _, d = Decide(l, s, Micros(made+hour-1), 1); d.Allowed || d.RetryAfter != time.Microsecond {
		t.Errorf("a microsecond before its end: %+v", d)
	}
	if _, d = Decide(l, s, Micros(made+hour), 1); !d.Allowed || d.Remaining != 3 || d.ResetAfter != 0 {
		t.Errorf("at its end: %+v", d)
	}
}

// TestBanOfAnotherClock: after a clock has stepped back an hour, and under a
// limit that bans for less, a ban lasts for BanFor from the next hit, and a count
// for a Period; a peek alone changes nothing.
func TestBanOfAnotherClock(t *testing.T) {
	l := Must(Spec{Algorithm: Ban, Quota: 3, Period: time.Minute, BanFor: 10 * time.Minute})
	const minute, hour = 60_000_000, 3_600_000_000
	for denied, lasts := range map[int64]int64{2: minute, 3: 10 * minute} {
		s, _ := Charge(l, State{}, Micros(epoch), denied)
		back := int64(epoch - hour)
		before := s
		for _, at := range []int64{back, back + minute} {
			peeked, d := Decide(l, s, Micros(at), 0)
			if peek := PeekOne(l, s, Micros(at)); d.ResetAfter != duration(lasts) || peek.Allowed != (denied < 3) || !sameState(peeked, before) {
				t.Errorf("%d denials, a peek: %+v, %+v", denied, d, peek)
			}
		}
		s, d := Decide(l, s, Micros(back), 1)
		if d.Allowed != (denied < 3) || d.ResetAfter != duration(lasts) {
			t.Errorf("%d denials, a hit: %+v", denied, d)
		}
		if _, d = Decide(l, s, Micros(back+lasts-1), 0); d.ResetAfter != time.Microsecond || d.Remaining == 3 {
			t.Errorf("%d denials, a microsecond before the end: %+v", denied, d)
		}
		if _, d = Decide(l, s, Micros(back+lasts), 1); !d.Allowed || d.Remaining != 3 {
			t.Errorf("%d denials, at the end: %+v", denied, d)
		}
		if _, d = Decide(l, s, Micros(epoch), 1); !d.Allowed || d.Remaining != 3 {
			t.Errorf("%d denials, forward again: %+v", denied, d)
		}
	}
}

// TestDenialsAroundAnEdge is the envelope that ban.go promises: 2*Quota-2 denials
// within a Period need not ban, one more does.
func TestDenialsAroundAnEdge(t *testing.T) {
	l := Must(Spec{Algorithm: Ban, Quota: 5, Period: time.Minute, BanFor: time.Hour})
	s, _ := Charge(l, State{}, Micros(epoch), 1)
	s, _ = Charge(l, s, Micros(epoch+59_999_999), 3)
	s, d := Charge(l, s, Micros(epoch+60_000_000), 4)
	if d.Remaining != 1 {
		t.Errorf("seven denials in a microsecond: %+v", d)
	}
	if _, d = Charge(l, s, Micros(epoch+60_000_000), 1); d.Remaining != 0 || d.ResetAfter != time.Hour {
		t.Errorf("and one more: %+v", d)
	}
}

// TestMergeOfBans takes what happened last, of parted counts the larger.
func TestMergeOfBans(t *testing.T) {
	l := Must(Spec{Algorithm: Ban, Quota: 9, Period: 100 * time.Microsecond, BanFor: time.Hour})
	count := func(start, n int64) State { return State{Kind: kindBan, A: start, B: n} }
	ban := func(until int64) State { return State{Kind: kindBan, C: until} }
	for _, test := range []struct{ a, b, want State }{
		{count(1000, 3), count(1000, 5), count(1000, 5)},
		{count(1000, 5), count(1099, 3), count(1099, 5)},
		{count(1000, 5), count(1100, 3), count(1100, 3)},
		{count(1000, 5), ban(2000), ban(2000)},
		{count(2000, 1), ban(2000), count(2000, 1)},
		{count(2500, 1), ban(2000), count(2500, 1)},
		{ban(3000), ban(2000), ban(3000)},
	} {
		for _, got := range []State{Merge(l, test.a, test.b), Merge(l, test.b, test.a), Merge(l, test.want, test.b), Merge(l, test.a, test.want)} {
			if !sameState(got, test.want) {
				t.Errorf("%v and %v merge to %v, want %v", test.a, test.b, got, test.want)
			}
		}
	}
}
