package fastclock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/sleep"
)

// TestWallIsTheTimeOfDay: what a Wall tells is between two readings of the system's clock, but
// for Error and for what that clock is adjusted by meanwhile.
func TestWallIsTheTimeOfDay(t *testing.T) {
	w := NewWall()
	for range 10_000 {
		before := time.Now().Round(0)
		got := w.Now()
		after := time.Now().Round(0)
		if after.Before(before) {
			continue // it was set back meanwhile
		}
		if got.Before(before.Add(-time.Millisecond)) || got.After(after.Add(time.Millisecond)) {
			t.Fatalf("%v is not from %v to %v", got, before, after)
		}
	}
}

// TestWallInABubble tells the time of the bubble.
func TestWallInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWall()
		for _, d := range []time.Duration{0, wallLife / 2, wallLife, time.Hour} {
			if err := sleep.For(t.Context(), d); err != nil {
				t.Fatal(err)
			}
			if got, want := w.Now(), time.Now(); !got.Equal(want) {
				t.Errorf("after %v: %v, want %v", d, got, want)
			}
		}
	})
}

// TestWallReadsAnew: an anchor is not used when it is old, nor when the clock has gone back.
func TestWallReadsAnew(t *testing.T) {
	w := NewWall()
	for name, off := range map[string]time.Duration{"old": -wallLife, "to come": time.Second} {
		w.anchor.Store(&wallAnchor{w.clock.Elapsed() + off, time.Unix(1, 0)})
		if got := w.Now(); got.Year() < 2000 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func BenchmarkWall(b *testing.B) {
	w := NewWall()
	b.Run("wall", func(b *testing.B) {
		for b.Loop() {
			w.Now()
		}
	})
	b.Run("time.Now", func(b *testing.B) {
		for b.Loop() {
			time.Now()
		}
	})
}
