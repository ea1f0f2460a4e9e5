package limit

import (
	"testing"
	"time"
)

// TestRefundOfALog: the latest hits are given back, so that those before them end no later.
func TestRefundOfALog(t *testing.T) {
	l := Must(Spec{Algorithm: SlidingLog, Quota: 3, Period: 10 * time.Second})
	now := Micros(epoch)
	s, _ := Decide(l, State{}, now, 1)
	now += 4_000_000
	s, _ = Decide(l, s, now, 1)
	if _, d := Refund(l, s, now, 1); d.Remaining != 2 || d.ResetAfter != 6*time.Second {
		t.Errorf("%+v, want the first hit to stay: 2 to remain, and all in 6s", d)
	}
}

// TestRefundOfParts: no more is given back than is said, from however many parts it comes.
func TestRefundOfParts(t *testing.T) {
	l := Must(Spec{Algorithm: SubWindows, Quota: 10, Period: 10 * time.Second, SubWindows: 10})
	now := Micros(epoch)
	s, _ := Decide(l, State{}, now, 3)
	now += 2_000_000
	s, _ = Decide(l, s, now, 3)
	if _, d := Refund(l, s, now, 4); d.Remaining != 8 || d.ResetAfter != 9*time.Second {
		t.Errorf("%+v, want 8 of ten to remain when 4 of six hits are given back, and the first to stay", d)
	}
}

// TestWindowsOfAnotherLength: where the length of a window is not noted, as that of 5.000003 s
// is not, and it does not fit those of the limit, all of the count is taken for that of the
// present window.
func TestWindowsOfAnotherLength(t *testing.T) {
	sliding := func(period time.Duration) *Limit {
		return Must(Spec{Algorithm: SlidingWindow, Quota: 10, Period: period})
	}
	before, after := sliding(5_000_003*time.Microsecond), sliding(7_000_003*time.Microsecond)
	now := Micros(epoch - epoch%7_000_003 + 7_000_003) // a window of after begins
	now += 5_000_003 - now%5_000_003                   // and within it one of before
	s, _ := Decide(before, State{}, now-1, 2)
	s, _ = Decide(before, s, now, 3)
	if _, d := Decide(after, s, now+1, 0); d.Remaining != 5 {
		t.Errorf("%+v, want 5 to remain of ten after five hits", d)
	}
}

// TestChargeOfALogAfterAStepBack: hits of a clock that was far ahead are taken for ones of now
// when some are charged, so that none locks the key out until then.
func TestChargeOfALogAfterAStepBack(t *testing.T) {
	l := Must(Spec{Algorithm: SlidingLog, Quota: 5, Period: 10 * time.Second})
	now := Micros(epoch)
	s, _ := Decide(l, State{}, now+3_600_000_000, 2)
	s, _ = Charge(l, s, now, 1)
	if _, d := Decide(l, s, now, 0); d.Remaining != 2 || d.ResetAfter != 10*time.Second {
		t.Errorf("%+v, want 2 of five to remain for 10s", d)
	}
	if _, d := Decide(l, s, now+10_000_000, 0); d.Remaining != 5 {
		t.Errorf("%+v, want all to remain 10s later", d)
	}
}
