package memstore

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/limit"
)

// A bucket that is raised decides as the one whose state it was told, or as it did where
// it holds more itself.
func TestRaise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := limit.Micros(1_780_315_200_000_000)
		clock := func() limit.Micros { return now }
		s, err := New(Options{MaxBytes: MinMaxBytes, Now: clock})
		if err != nil {
			t.Fatal(err)
		}
		l := limit.Must(limit.Spec{
			Algorithm: rapid.SampledFrom([]limit.Algorithm{limit.FixedWindow, limit.SlidingWindow, limit.TokenBucket, limit.GCRA}).Draw(t, "algorithm"),
			Quota:     10, Period: time.Minute,
		})
		told, own := limit.State{}, limit.State{}
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			now += limit.Micros(rapid.Int64Range(0, 20_000_000).Draw(t, "us"))
			hits := rapid.Int64Range(1, 5).Draw(t, "hits")
			if rapid.Bool().Draw(t, "elsewhere") {
				told, _ = limit.Decide(l, told, now, hits)
				continue
			}
			s.Raise([]byte("k"), l, told)
			var want limit.Decision
			own, want = limit.Decide(l, limit.Merge(l, own, told), now, hits)
			if got := s.TakeOne("k", l, hits); got != want {
				t.Fatalf("%+v, want %+v", got, want)
			}
		}
	})
}

func TestRaiseOfWhatItCannotHold(t *testing.T) {
	now := limit.Micros(1_780_315_200_000_000)
	s, err := New(Options{MaxBytes: MinMaxBytes, Shards: 1, Now: func() limit.Micros { return now }})
	if err != nil {
		t.Fatal(err)
	}
	window := limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 5, Period: time.Hour})
	log := limit.Must(limit.Spec{Algorithm: limit.SlidingLog, Quota: 5, Period: time.Hour})
	used, _ := limit.Decide(window, limit.State{}, now, 5)
	logged, _ := limit.Decide(log, limit.State{}, now, 5)
	// A state of another form, and a key that has a bucket of another form, stay alone.
	s.Raise([]byte("a"), window, logged)
	s.TakeOne("b", log, 5)
	s.Raise([]byte("b"), window, used)
	s.Raise([]byte("c"), window, limit.State{})
	if s.Holds([]byte("a")) || !s.Holds([]byte("b")) || s.Holds([]byte("c")) {
		t.Error("what cannot be raised has a bucket")
	}
	if d := s.TakeOne("b", log, 1); d.Allowed {
		t.Error("the log was overwritten")
	}
	// An old one is as if unused.
	now += limit.Micros(2 * time.Hour / time.Microsecond)
	if s.Raise([]byte("d"), window, used); s.Holds([]byte("d")) {
		t.Error("a window that is over has a bucket")
	}
	// A full store takes none.
	used, _ = limit.Decide(window, limit.State{}, now, 5)
	for i := 0; s.Stats().Overflowed == 0; i++ {
		s.TakeOne(fmt.Sprint("flood ", i), window, 1)
	}
	if s.Raise([]byte("late"), window, used); s.Holds([]byte("late")) {
		t.Error("a full store has room")
	}
	if s.Raise([]byte("flood 1"), window, used); s.TakeOne("flood 1", window, 1).Allowed {
		t.Error("a bucket that is there is not raised")
	}
}
