package fastclock

import (
	"testing"

	"pgregory.net/rapid"
)

// TestSpeed tells instants to a speed, as ticks and ns since the last one. A scale of 0 is one
// that is not known, else it is right within 200 millionths.
func TestSpeed(t *testing.T) {
	const ms = 1_000_000
	type step struct {
		ticks int64
		nanos int64
		scale float64 // ns for each tick
	}
	for name, steps := range map[string][]step{
		"2 GHz":              {{2 * ms, ms, 0}, {20 * ms, 10 * ms, 0.5}, {2 * ms, ms, 0.5}, {7e15, 35e14, 0.5}},
		"1 GHz":              {{1, 1, 0}, {1 << 25, 1 << 25, 1}},
		"read unevenly":      {{maxRead, 1, 0}, {1 << 24, 1<<23 + 512, 0.5}},
		"not long enough":    {{2 * ms, ms, 0}, {1<<24 - 1, 1<<23 - 1, 0}, {1, 1, 0.5}},
		"counter goes back":  {{2 * ms, ms, 0}, {20 * ms, 10 * ms, 0.5}, {-2, 1, 0}, {20 * ms, 10 * ms, 0.5}},
		"back while learned": {{2 * ms, ms, 0}, {-1, ms, 0}, {20 * ms, 10 * ms, 0.5}},
		"parted by 3 ms":     {{2 * ms, ms, 0}, {20 * ms, 10 * ms, 0.5}, {2000 * ms, 1003 * ms, 0}, {2000 * ms, 1000 * ms, 0.5}},
		"suspended":          {{2 * ms, ms, 0}, {20 * ms, 10 * ms, 0.5}, {3600e9, ms, 0}, {20 * ms, 10 * ms, 0.5}},
		"another host":       {{2 * ms, ms, 0}, {20 * ms, 10 * ms, 0.5}, {30 * ms, 10 * ms, 0}, {30 * ms, 10 * ms, 1. / 3}},
		"a slower host":      {{2 * ms, ms, 0}, {20 * ms, 10 * ms, 0.5}, {10 * ms, 10 * ms, 0}, {20 * ms, 20 * ms, 1}},
		"slewed":             {{2 * ms, ms, 0}, {20 * ms, 10 * ms, 0.5}, {2000 * ms, 1000*ms + ms/2, 0.5}},
		"time stands still":  {{2 * ms, ms, 0}, {20 * ms, 0, 0}, {20 * ms, 0, 0}},
		"10 GHz":             {{10 * ms, ms, 0}, {100 * ms, 10 * ms, 0}},
		"100 MHz":            {{ms, 10 * ms, 0}, {20 * ms, 200 * ms, 0}},
		"centuries":          {{2 * ms, ms, 0}, {20 * ms, 10 * ms, 0.5}, {1 << 62, ms, 0}},
	} {
		var s speed
		at := instant{ticks: 1<<64 - 5*ms} // the counter overflows
		for i, step := range steps {
			at.ticks += uint64(step.ticks)
			at.nanos += step.nanos
			s.learn(at)
			got := float64(s.scale) / (1 << scaleShift)
			if got < step.scale*(1-200e-6) || got > step.scale*(1+200e-6) {
				t.Errorf("%s: %v ns for each tick after step %d, want %v", name, got, i, step.scale)
			}
		}
	}
}

// TestAnySpeed tells instants of one speed, read as unevenly as may be, and holds that a
// reading from each anchor is right at the end of its life.
func TestAnySpeed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		perTick := rapid.Float64Range(0.15, 1.9).Draw(t, "ns for each tick")
		first := rapid.Uint64().Draw(t, "first")
		var s speed
		ticks, known := uint64(0), false
		for range rapid.IntRange(2, 20).Draw(t, "instants") {
			ticks += rapid.Uint64Range(maxRead, 1<<26).Draw(t, "ticks")
			nanos := func(ticks uint64) int64 { return int64(float64(ticks) * perTick) }
			off := rapid.Int64Range(-maxRead/2, maxRead/2).Draw(t, "off")
			s.learn(instant{ticks: first + ticks + uint64(off), nanos: nanos(ticks)})
			if known && s.scale == 0 {
				t.Fatalf("the clocks have parted at %v", s.last)
			}
			if known = s.scale != 0; !known {
				continue
			}
			got := s.last.nanos + int64((life-1)*s.scale>>scaleShift)
			want := nanos(ticks + uint64(off) + life - 1)
			if d := got - want; max(d, -d) > int64(Error) {
				t.Fatalf("off by %d ns", d)
			}
		}
	})
}
