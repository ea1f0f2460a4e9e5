package fastclock

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/alloctest"
	"github.com/headgate/headgate/internal/sleep"
)

// anchored returns a Clock that reads the counter, after it has learned the speed.
func anchored(t *testing.T) *Clock {
	t.Helper()
	c := New(time.Now())
	if !c.usable {
		t.Skip("the counter does not suit here")
	}
	for c.scale.Load() == 0 {
		c.Elapsed()
	}
	return c
}

// TestAgainstRuntime reads the counter between two readings of the runtime's clock, its twin.
func TestAgainstRuntime(t *testing.T) {
	c := anchored(t)
	byCounter := 0
	for byCounter < 200_000 {
		version := c.version.Load()
		before := time.Since(c.start)
		got := c.Elapsed()
		after := time.Since(c.start)
		if got < before-Error || got > after+Error {
			t.Fatalf("got %v, which is not in [%v, %v]", got, before, after)
		}
		if c.version.Load() == version {
			byCounter++
		}
	}
}

// TestConcurrent is TestAgainstRuntime by many at once.
func TestConcurrent(t *testing.T) {
	c := New(time.Now())
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for range 100_000 {
				before := time.Since(c.start)
				got := c.Elapsed()
				if after := time.Since(c.start); got < before-Error || got > after+Error {
					t.Errorf("got %v, which is not in [%v, %v]", got, before, after)
					return
				}
			}
		})
	}
	readers.Wait()
}

// TestBubble reads a Clock inside of a bubble whose time moves as fast as that of a processor
// of 2 GHz, but by leaps, for as long as it takes to learn the speed.
func TestBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, begun := New(time.Now()), counter()
		for i := 0; i < 100 || hasCounter && counter()-begun < 4*learnTicks; i++ {
			behind := time.Duration(counter()-begun)/2 - time.Since(c.start)
			if err := sleep.For(t.Context(), behind+time.Nanosecond); err != nil {
				t.Fatal(err)
			}
			if got, want := c.Elapsed(), time.Since(c.start); got != want {
				t.Fatalf("got %v, want %v", got, want)
			}
		}
	})
}

// TestUnusable reads a Clock whose counter does not suit.
func TestUnusable(t *testing.T) {
	c := New(time.Now())
	c.usable = false
	before := time.Since(c.start)
	got := c.Elapsed()
	if after := time.Since(c.start); got < before || got > after || c.scale.Load() != 0 {
		t.Errorf("got %v, which is not in [%v, %v]", got, before, after)
	}
}

func TestNoAllocation(t *testing.T) {
	c := New(time.Now())
	if n := alloctest.PerRun(1000, func() { c.Elapsed() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkElapsed(b *testing.B) {
	c := New(time.Now())
	for b.Loop() {
		c.Elapsed()
	}
}

func BenchmarkSince(b *testing.B) {
	start := time.Now()
	for b.Loop() {
		_ = time.Since(start)
	}
}
