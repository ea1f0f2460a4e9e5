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

// TestTriedAgain: a reading by which the clocks cannot be compared keeps no lock, and the next
// is not before the speed could be measured.
func TestTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // where none can be compared
		c := New(time.Now())
		if !c.usable {
			t.Skip("the counter does not suit here")
		}
		first := c.ticks.Load()
		if first == 0 || !c.mu.TryLock() {
			t.Fatalf("the first is at tick %d, or keeps the lock", first)
		}
		c.mu.Unlock()
		for counter()-first < learnTicks {
			c.Elapsed()
		}
		c.Elapsed()
		if second := c.ticks.Load(); second-first < learnTicks || second-first >= 1<<63 {
			t.Errorf("tried again after %d ticks", second-first)
		}
	})
	c := anchored(t)
	synctest.Test(t, func(*testing.T) { c.elapsedByRuntime() })
	if !c.mu.TryLock() {
		t.Error("a reading that gives no anchor keeps the lock")
	}
}

// TestAnchorsThatDoNotCount has anchors that are an hour off, and so can be told when they are
// read from: they are not.
func TestAnchorsThatDoNotCount(t *testing.T) {
	for name, spoil := range map[string]func(*Clock){
		"being written":      func(c *Clock) { c.version.Add(1) },
		"too old":            func(c *Clock) { c.ticks.Store(counter() - life) },
		"ahead of the clock": func(c *Clock) { c.ticks.Store(counter() + 1<<40) },
	} {
		c := anchored(t)
		c.nanos.Add(int64(time.Hour))
		spoil(c)
		before := time.Since(c.start)
		got := c.Elapsed()
		if after := time.Since(c.start); got < before-Error || got > after+Error {
			t.Errorf("%s: got %v, which is not in [%v, %v]", name, got, before, after)
		}
	}
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
