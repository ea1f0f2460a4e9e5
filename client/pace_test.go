package client

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestPaceNeverOvergrants: between two answers no more requests go out before
// the reset than were left, whatever the order and the clock; waits stay within
// the time to the reset, and grow.
func TestPaceNeverOvergrants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := pace{}
		l := Level{
			Limit:     rapid.Int64Range(0, 50).Draw(t, "limit"),
			Remaining: rapid.Int64Range(0, 40).Draw(t, "remaining"), ResetKnown: true,
			ResetAfter: time.Duration(rapid.Int64Range(1, 100_000).Draw(t, "reset")) * time.Millisecond,
		}
		ahead := rapid.Int64Range(0, 20).Draw(t, "ahead")
		now := testNow
		p.update(&l, 1, ahead, now)
		left := l.Remaining - ahead
		for range rapid.IntRange(0, 100).Draw(t, "requests") {
			now = now.Add(time.Duration(rapid.Int64Range(-500, 2000).Draw(t, "step")) * time.Millisecond)
			d := p.reserve(now, 0.2)
			if d.wait < 0 {
				t.Fatalf("a wait of %v", d.wait)
			}
			if !now.Before(p.until) {
				if d != (delay{}) {
					t.Fatalf("%+v past the reset", d)
				}
				continue
			}
			if now.Add(d.wait).After(p.until) {
				t.Fatalf("waits until %v, past the reset at %v", now.Add(d.wait), p.until)
			}
			if left <= 0 != d.empty {
				t.Fatalf("%d left, but %+v", left, d)
			}
			left--
		}
	})
}

// TestPaceSpreads: the rest goes out evenly, and the first of it at once.
func TestPaceSpreads(t *testing.T) {
	p := pace{}
	p.update(&Level{Limit: 100, Remaining: 5, ResetAfter: time.Minute, ResetKnown: true}, 1, 0, testNow)
	for i := range 5 {
		if d, want := p.reserve(testNow, 0.2), time.Duration(i)*12*time.Second; d.wait != want || d.empty {
			t.Errorf("request %d: %+v, want %v", i, d, want)
		}
	}
	if d := p.reserve(testNow, 0.2); d.wait != time.Minute || !d.empty {
		t.Errorf("with nothing left: %+v", d)
	}
}

// TestPaceBeginsBelowTheThreshold: requests that leave a fifth or more go out at once, also together.
func TestPaceBeginsBelowTheThreshold(t *testing.T) {
	p := pace{}
	p.update(&Level{Limit: 10, Remaining: 4, ResetAfter: time.Minute, ResetKnown: true}, 1, 0, testNow)
	var waits []time.Duration
	for range 4 {
		d := p.reserve(testNow, 0.2)
		waits = append(waits, d.wait)
	}
	// The third leaves one, so that the fourth waits for half of the time to the reset.
	if want := []time.Duration{0, 0, 0, 30 * time.Second}; !slices.Equal(waits, want) {
		t.Errorf("they wait for %v, want %v", waits, want)
	}
}

// TestPaceHearsTheYoungest: answers come in any order.
func TestPaceHearsTheYoungest(t *testing.T) {
	p := pace{}
	level := func(r int64) *Level {
		return &Level{Limit: 10, Remaining: r, ResetAfter: time.Minute, ResetKnown: true}
	}
	p.update(level(5), 7, 0, testNow)
	p.update(level(10), 3, 4, testNow)
	if p.remaining != 5 {
		t.Errorf("%d left, want what the younger answer said", p.remaining)
	}
	p.update(level(10), 3, 4, testNow.Add(time.Minute))
	if p.remaining != 6 {
		t.Errorf("%d left past the reset, want 10 less 4 sent since", p.remaining)
	}
}

func TestBudget(t *testing.T) {
	var b budget
	for i := range 11 {
		if b.spend(testNow) != (i < 10) {
			t.Errorf("retry %d", i)
		}
	}
	for range 10 {
		b.earn(testNow)
	}
	if !b.spend(testNow) || b.spend(testNow) {
		t.Error("ten requests do not earn one retry")
	}
	if b.spend(testNow.Add(-time.Hour)) {
		t.Error("a clock that steps back earns")
	}
	if b.spend(testNow.Add(9999*time.Millisecond)) || !b.spend(testNow.Add(10*time.Second)) {
		t.Error("ten seconds do not earn one retry")
	}
}

func TestBackoff(t *testing.T) {
	for n := -1; n < 100; n++ {
		least, most := backoff(n, 0), backoff(n, 0.999)
		if least <= 0 || most < least || most > lastBackoff || least*2 < most {
			t.Errorf("backoff %d: from %v to %v", n, least, most)
		}
	}
}
